"""Other packages add machines, kernels, rules and passes: test/plugin has one of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import rel_error, run_module

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "test" / "plugin"
DEVICE = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
]
GENERIC = [*DEVICE, "--iree-llvmcpu-target-cpu=generic"]

MODEL = """
func.func @main(%q: tensor<2x24x16xf32>, %k: tensor<2x40x16xf32>, %x: tensor<2x16x40xf32>)
    -> tensor<2x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %turned = tensor.empty() : tensor<2x40x16xf32>
  %t = linalg.transpose ins(%x : tensor<2x16x40xf32>) outs(%turned : tensor<2x40x16xf32>)
      permutation = [0, 2, 1]
  %v = math.floor %t : tensor<2x40x16xf32>
  %e = tensor.empty() : tensor<2x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
        affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>,
        affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>,
        affine_map<(b, m, n, k, l) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2x24x16xf32>, tensor<2x40x16xf32>, tensor<2x40x16xf32>, f32)
      outs(%e : tensor<2x24x16xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<2x24x16xf32>
  return %r : tensor<2x24x16xf32>
}
"""


def case() -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(17)
    shapes = (2, 24, 16), (2, 40, 16), (2, 16, 40)
    q, k, x = (3 * random.standard_normal(shape).astype(np.float32) for shape in shapes)
    scores = np.einsum("bmk,blk->bml", q.astype(np.float64), k) * 0.25
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return [q, k, x], np.einsum("bml,bnl->bmn", weights, np.floor(x))


def install(folder: Path, name: str, entry_points: dict[str, dict[str, str]]) -> None:
    """Makes a package known as an installer does, in a folder of the module path."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in entry_points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def command(folder: Path, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a tool in `folder`, whose packages are installed."""
    path = os.pathsep.join(map(str, (ROOT, PLUGIN, folder / "site")))
    return subprocess.run(
        [sys.executable, "-m", f"attnpass.cli.{tool}", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.mlir").write_text(MODEL)
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    install(tmp_path / "site", project["name"], project["entry-points"])
    return tmp_path


def compiled(folder: Path, *flags: str) -> tuple[float, dict[str, Any]]:
    """The model by attn-compile: how far its numbers are off, and the report."""
    words = ("m.mlir", "-o", "m.vmfb", "--attn-report=r.json", *flags)
    done = command(folder, "attn_compile", *words)
    assert done.returncode == 0, done.stderr
    given, wanted = case()
    error = rel_error(run_module((folder / "m.vmfb").read_bytes(), given), wanted)
    return error, json.loads((folder / "r.json").read_text())


def operand(report: dict[str, Any], name: str) -> dict[str, Any]:
    (attention,) = report["attentions"]
    return next(one for one in attention["operands"] if one["operand"] == name)


@pytest.mark.parametrize(
    "flags",
    [[*GENERIC, "--attn-target=sample-cpu"], [*DEVICE, "--iree-llvmcpu-target-cpu=nehalem"]],
    ids=["named", "claimed"],
)
def test_a_machine_a_rule_and_a_pass(folder: Path, flags: list[str]) -> None:
    error, report = compiled(folder, *flags, "--attn-kernels=never")
    assert error < 2e-5
    assert report["target"] == "llvm-cpu sample-cpu"
    value = operand(report, "value")
    # The machine's price, through the rule.
    assert value["decision"] == "absorbed"
    assert "a sample CPU reads V along its keys" in value["reason"]
    text = json.dumps(report)
    assert "vector_common_parallel = [1, 2, 16, 0, 0]" in text
    assert "1 of 1 attention ops are configured" in text
    assert not report["events"]


def test_without_the_machine_prices_are_ours(folder: Path) -> None:
    error, report = compiled(folder, *GENERIC)
    assert error < 2e-5
    assert report["target"] == "llvm-cpu generic"
    assert operand(report, "value")["decision"] == "kept"


@pytest.mark.parametrize(
    ("mode", "words"),
    [("cost", "sample_attention_vt: it reads V^T"), ("never", "sample_attention: it reads V")],
)
def test_a_kernel(folder: Path, mode: str, words: str) -> None:
    """What its kernels want of V is the worth of V^T."""
    flags = ("--attn-target=sample-cpu", "--attn-kernels=cost", f"--attn-mode={mode}")
    error, report = compiled(folder, *GENERIC, *flags)
    assert error < 2e-5
    output = operand(report, "output")
    assert (output["decision"], output["reason"]) == ("kernel", words)
    done = command(
        folder, "attn_compile", "m.mlir", *GENERIC, *flags, "--compile-to=preprocessing", "-o", "-"
    )
    assert f"util.call @{words.partition(':')[0]}_" in done.stdout
    assert "iree_linalg_ext.attention" not in done.stdout
    assert done.stdout.count("linalg.transpose") == (mode == "never")


def test_a_kernel_says_why_not(folder: Path) -> None:
    error, report = compiled(folder, *GENERIC, "--attn-kernels=always")
    assert error < 2e-5
    output = operand(report, "output")
    assert output["decision"] == "refused"
    assert "the kernels are CUDA's; the sample's kernel needs its CPU" in output["reason"]


def test_attn_opt_knows_them(folder: Path) -> None:
    shown = command(folder, "attn_opt", "--show-passes").stdout
    assert "attn-sample-count" in shown
    words = ("--attn-propagate-layout", "--remarks", "m.mlir")
    done = command(folder, "attn_opt", *words, "--target=sample-cpu")
    assert "math.floor %arg2 : tensor<2x16x40xf32>" in done.stdout, done.stderr
    assert "linalg.transpose" not in done.stdout


def test_the_pipeline_says_where_its_pass_stands(folder: Path) -> None:
    shown = command(folder, "attn_compile", "--attn-show-pipeline", *GENERIC, "--attn-kernels=cost")
    lines = [line.strip() for line in shown.stdout.splitlines()]
    names = [line for line in lines if line.startswith("attn-")]
    assert names[names.index("attn-configure") + 1] == "attn-sample-count"
    # Of ours none is for CPUs.
    assert "attn-use-kernels{mode=cost}" in names


# Those that are none.

BAD = {
    "no-module": ("sample", "nowhere.at_all:Thing", "cannot be imported: ModuleNotFoundError"),
    "no-name": ("sample", "json:Thing", "cannot be imported: AttributeError"),
    "wrong-type": ("sample", "json:JSONDecoder", "is no class that extends attnpass."),
    "no-class": ("sample", "json:dumps", "is no class that extends attnpass."),
}
TAKEN = {
    "machines": ("nvidia", "attnpass"),
    "kernels": ("hopper", "attnpass"),
    "rules": ("Concat", "attnpass"),
    "passes": ("attn-raise", "attnpass"),
}


@pytest.mark.parametrize(
    ("fault", "group"),
    [
        *((fault, group) for fault in ("wrong-type", "taken") for group in TAKEN),
        ("no-module", "rules"),
        ("no-name", "kernels"),
        ("no-class", "machines"),
    ],
)
def test_bad_plugins(fault: str, group: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(MODEL)
    name, path, wanted = BAD.get(fault, (TAKEN[group][0], "json:dumps", "the name is taken by"))
    install(tmp_path / "site", "bad-package", {f"attnpass.{group}": {name: path}})
    done = command(
        tmp_path, "attn_compile", "m.mlir", "-o", "m.vmfb", *GENERIC, "--attn-kernels=cost"
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert f"error: '{name}' (attnpass.{group}) of bad-package: " in line
    assert wanted in line


@pytest.mark.parametrize("name", ["attn-other", "other"])
def test_a_pass_of_another_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(MODEL)
    entries = {"attnpass.passes": {name: "attnpass_sample.count:Count"}}
    install(tmp_path / "site", "bad-package", entries)
    done = command(tmp_path, "attn_compile", "m.mlir", "-o", "m.vmfb", *GENERIC)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "of bad-package: attnpass_sample.count:Count calls itself 'attn-sample-count'" in line


def test_two_packages_of_one_name(folder: Path) -> None:
    other = {"attnpass.machines": {"sample": "json:dumps"}}
    install(folder / "site", "another-package", other)
    done = command(folder, "attn_opt", "m.mlir", "--attn-propagate-layout", "--target=sm_80")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    words = "error: 'sample' (attnpass.machines) of attnpass-sample: the name is taken by another"
    assert words in line
