"""The doors of the library give the same steps and numbers, and a program where something fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from decomposed import CASES, in_order, inputs, reference
from decomposed import program as written_out
from flex import FLEX, flex_case
from helpers import CPU, in_each_way, rel_error, run_module, thinned
from iree.compiler.api import Output, Session, Source
from two_layers import BATCH, LENGTH, WIDTH, layer, program, seen

import attnpass
from attnpass.report.text import sentences

ROOT = Path(__file__).parents[3]
FLAGS = [*CPU, "--iree-opt-level=O2"]

ATTENTION = """
#q = affine_map<(h, g, m, n, k1, k2) -> (h, g, m, k1)>
#k = affine_map<(h, g, m, n, k1, k2) -> (h, k2, k1)>
#v = affine_map<(h, g, m, n, k1, k2) -> (h, k2, n)>
#s = affine_map<(h, g, m, n, k1, k2) -> ()>
#o = affine_map<(h, g, m, n, k1, k2) -> (h, g, m, n)>
func.func @main(%q: tensor<2x3xROWSx16xf32>, %k: tensor<2x40x16xf32>, %v: tensor<2x40x16xf32>) -> tensor<2x3xROWSx16xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x3xROWSx16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x3xROWSx16xf32>, tensor<2x40x16xf32>, tensor<2x40x16xf32>, f32) outs(%e : tensor<2x3xROWSx16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x3xROWSx16xf32>
  return %r : tensor<2x3xROWSx16xf32>
}
"""  # noqa: E501

Case = tuple[str, list[np.ndarray], np.ndarray]


def grouped(rows: int) -> Case:
    random = np.random.default_rng(3)
    shapes = (2, 3, rows, 16), (2, 40, 16), (2, 40, 16)
    q, k, v = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    scores = np.einsum("hgmd,hkd->hgmk", q.astype(np.float64), k) * 0.25
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    text = ATTENTION.replace("ROWS", str(rows))
    return text, [q, k, v], np.einsum("hgmk,hkd->hgmd", weights, v)


def hidden_rows() -> Case:
    x = np.random.default_rng(1).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    return program("i1", False), [x, seen()], layer(layer(x.astype(np.float64), seen()), seen())


def raised() -> Case:
    case = CASES["causal"]
    given = inputs(case)
    return written_out(case), list(in_order(given)), reference(case, given)


PROGRAMS: dict[str, Callable[[], Case]] = {
    "flex": lambda: (FLEX, *flex_case()),
    "hidden-rows": hidden_rows,
    "raised": raised,
    "grouped-queries": lambda: grouped(16),
    "decode": lambda: grouped(1),
}


def by_command(text: str, tmp_path: Path) -> tuple[bytes, attnpass.Report]:
    (tmp_path / "m.mlir").write_text(text)
    done = attn_compile(tmp_path, *FLAGS)
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "r.json").read_text())
    from attnpass.report.records import report_from_dict

    return (tmp_path / "m.vmfb").read_bytes(), report_from_dict(data)


def by_file(text: str, tmp_path: Path) -> tuple[bytes, attnpass.Report]:
    (tmp_path / "m.mlir").write_text(text)
    report = attnpass.Report()
    data = attnpass.compile_file(tmp_path / "m.mlir", report=report, extra_args=FLAGS)
    assert data is not None
    return data, report


def by_string(text: str, tmp_path: Path) -> tuple[bytes, attnpass.Report]:
    report = attnpass.Report()
    data = attnpass.compile_str(text, report=report, extra_args=FLAGS)
    assert data is not None
    return data, report


def by_hook(text: str, tmp_path: Path) -> tuple[bytes, attnpass.Report]:
    session = Session()
    session.set_flags(*FLAGS)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    assert invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0"))
    hook, output = attnpass.pipeline_hook(), Output.open_membuffer()
    hook.execute(invocation).output_vm_bytecode(output)
    return bytes(output.map_memory()), hook.report


def steps(report: attnpass.Report) -> list[str]:
    """What the report says was done, without places and the names of kernels."""
    said = [re.sub(r"\S+:\d+:\d+|kernel \S+", "@", words) for words in sentences(report)]
    for record in report.attentions:
        said += [f"{o.operand} {o.decision} {o.pass_name}" for o in record.operands]
    return sorted(said)


@pytest.mark.parametrize("name", thinned(PROGRAMS))
def test_every_door_gives_the_same(name: str, tmp_path: Path) -> None:
    text, given, wanted = PROGRAMS[name]()
    wanted_steps: list[str] | None = None
    for door in (by_command, by_file, by_string, by_hook):
        data, report = door(text, tmp_path)
        assert rel_error(run_module(data, given), wanted) < 2e-5, door
        assert not report.events
        wanted_steps = wanted_steps or steps(report)
        assert steps(report) == wanted_steps, door


# Faults on purpose.

FAULTY = """
import os, sys
from attnpass.{module} import {name}
def run(self, module, context):
    {body}
{name}.run = run
from attnpass.cli.attn_compile import main
sys.exit(main(sys.argv[1:]))
"""


def attn_compile(
    tmp_path: Path, *flags: str, script: str = "", source: str = "m.mlir"
) -> subprocess.CompletedProcess[str]:
    run = ["-c", script] if script else ["-m", "attnpass.cli.attn_compile"]
    return subprocess.run(
        [sys.executable, *run, source, "-o", "m.vmfb", "--attn-report=r.json", *flags],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("module", "name", "argument", "body"),
    in_each_way(
        [
            ("configure.configure", "Configure", "attn-configure"),
            ("repair.mask_positions", "MaskPositions", "attn-mask-positions"),
        ],
        ["os.abort()", "raise KeyError('x')", "os._exit(1)"],
    ),
)
def test_a_faulty_pass_is_left_out(
    module: str, name: str, argument: str, body: str, tmp_path: Path
) -> None:
    text, given, wanted = grouped(16)
    (tmp_path / "m.mlir").write_text(text)
    script = FAULTY.format(module=module, name=name, body=body)
    done = attn_compile(tmp_path, *CPU, script=script)
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "r.json").read_text())["events"]
    assert events[0]["kind"] == "fallback"
    assert events[0]["reason"].startswith(f"compiled without {argument}: pass '{argument}' failed")
    assert f"warning: fallback: compiled without {argument}" in done.stderr
    result = run_module((tmp_path / "m.vmfb").read_bytes(), given)
    assert rel_error(result, wanted) < 2e-5


def test_a_fallback_can_be_failed_on(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(grouped(16)[0])
    script = FAULTY.format(
        module="configure.configure", name="Configure", body="raise KeyError('x')"
    )
    done = attn_compile(tmp_path, *CPU, "--attn-fail-on=fallback", script=script)
    assert done.returncode == 1 and not (tmp_path / "m.vmfb").exists()
    assert "--attn-fail-on=fallback: compiled without attn-configure" in done.stderr


# IREE 3.13 crashes on a head dim of V that is a repeat joined to another dim.
CRASH = """
#in = affine_map<(a, b, c, d) -> (a, b, c)>
#out = affine_map<(a, b, c, d) -> (a, b, c, d)>
#q = affine_map<(b, m, n, k, j) -> (b, m, k)>
#k = affine_map<(b, m, n, k, j) -> (b, j, k)>
#v = affine_map<(b, m, n, k, j) -> (b, j, n)>
#s = affine_map<(b, m, n, k, j) -> ()>
#o = affine_map<(b, m, n, k, j) -> (b, m, n)>
func.func @main(%q: tensor<4x3x8xf32>, %k: tensor<4x6x8xf32>, %v: tensor<4x6x4xf32>) -> tensor<4x3x8xf32> {
  %e = tensor.empty() : tensor<4x6x4x2xf32>
  %twice = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%v : tensor<4x6x4xf32>) outs(%e : tensor<4x6x4x2xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<4x6x4x2xf32>
  %joined = tensor.collapse_shape %twice [[0], [1], [2, 3]] : tensor<4x6x4x2xf32> into tensor<4x6x8xf32>
  %scale = arith.constant 0.3 : f32
  %empty = tensor.empty() : tensor<4x3x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %joined, %scale : tensor<4x3x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>, f32) outs(%empty : tensor<4x3x8xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<4x3x8xf32>
  return %r : tensor<4x3x8xf32>
}
"""  # noqa: E501


def test_a_crash_of_iree_is_an_error_or_survived(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(CRASH)
    done = attn_compile(tmp_path, *CPU)
    if done.returncode == 0:
        (q, k, v) = (np.ones(shape, np.float32) for shape in ((4, 3, 8), (4, 6, 8), (4, 6, 4)))
        result = run_module((tmp_path / "m.vmfb").read_bytes(), [q, k, v])
        assert rel_error(result, np.ones((4, 3, 8))) < 2e-5
        return
    assert done.returncode == 1
    assert done.stderr.startswith("m.mlir: error: IREE's compiler crashed (segmentation fault)")
    assert done.stderr.count("\n") == 1


def test_pipeline_hook_warns_of_each_event() -> None:
    from attnpass.configure.configure import Configure

    def fail(self: Configure, module: object, context: object) -> bool:
        raise KeyError("x")

    text, given, wanted = grouped(16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Configure, "run", fail)
        with pytest.warns(RuntimeWarning, match="fallback: compiled without attn-configure"):
            data, _ = by_hook(text, Path())
    assert rel_error(run_module(data, given), wanted) < 2e-5
