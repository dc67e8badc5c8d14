"""attn-verify on llvm-cpu: it finds IREE's own faults, and calls right what is right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm
from helpers import CPU, MAPS

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

MAPS = (
    MAPS
    + """
#mask = affine_map<(b, m, n, k1, k2) -> (m, k2)>
"""
)
IDENTITY = "{\n^bb0(%score: f32):\n  iree_linalg_ext.yield %score : f32\n}"


def attention(q: str, k: str, v: str, out: str, mask: str = "") -> str:
    """`%a = attention` of %q, %k, %v and, with a type for it, %mask, into %e."""
    maps, operand, kind = ("#mask, ", ", %mask", f", {mask}") if mask else ("", "", "")
    return (
        f"  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, {maps}#o]> "
        f"ins(%q, %k, %v, %scale{operand} : {q}, {k}, {v}, f32{kind}) outs(%e : {out}) "
        f"{IDENTITY} -> {out}\n"
    )


def alone(q: str, k: str, v: str, out: str, mask: str = "") -> str:
    """A module of one attention."""
    given = f", %mask: {mask}" if mask else ""
    return (
        f"{MAPS}func.func @main(%q: {q}, %k: {k}, %v: {v}{given}) -> {out} {{\n"
        "  %scale = arith.constant 0.0625 : f32\n"
        f"  %e = tensor.empty() : {out}\n"
        f"{attention(q, k, v, out, mask)}  return %a : {out}\n}}\n"
    )


# IREE 3.13 tiles k1 on CPUs from head dim 256 on, and where it is unknown, and takes the softmax
# of partial scores.
WIDE = {
    "i8 mask": alone(
        *("tensor<2x8x256xf32>", *["tensor<2x32x256xf32>"] * 2, "tensor<2x8x256xf32>"),
        "tensor<8x32xi8>",
    ),
    "fp8": alone(
        "tensor<3x16x256xf8E4M3FN>",
        "tensor<3x33x256xf8E4M3FN>",
        "tensor<3x33x40xf8E4M3FN>",
        "tensor<3x16x40xf32>",
    ),
    "unknown": alone(
        "tensor<2x16x?xf32>", "tensor<2x32x?xf32>", "tensor<2x32x16xf32>", "tensor<2x16x16xf32>"
    ),
}
# Products before and behind a wide head.
BETWEEN = (
    MAPS
    + """\
func.func @main(%x: tensor<2x8x64xf32>, %w: tensor<2x64x256xf32>, %k: tensor<2x32x256xf32>,
                %v: tensor<2x32x256xf32>, %mask: tensor<8x32xi8>, %u: tensor<2x256x64xf32>)
    -> tensor<2x8x64xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.0625 : f32
  %e = tensor.empty() : tensor<2x8x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %q = linalg.batch_matmul ins(%x, %w : tensor<2x8x64xf32>, tensor<2x64x256xf32>)
      outs(%f : tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
"""
    + attention(
        "tensor<2x8x256xf32>",
        *["tensor<2x32x256xf32>"] * 2,
        "tensor<2x8x256xf32>",
        "tensor<8x32xi8>",
    )
    + """\
  %e2 = tensor.empty() : tensor<2x8x64xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  %r = linalg.batch_matmul ins(%a, %u : tensor<2x8x256xf32>, tensor<2x256x64xf32>)
      outs(%f2 : tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  return %r : tensor<2x8x64xf32>
}
"""
)
NARROW = BETWEEN.replace("256", "32").replace("xi8", "xi1")
# IREE 3.13 gives both globals one buffer.
GLOBALS = (
    """\
#id = affine_map<(i, j) -> (i, j)>
util.global private mutable @ck = dense<0.0> : tensor<4x2xf32>
util.global private mutable @cv = dense<0.0> : tensor<4x2xf32>
func.func @step(%p: i32, %k: tensor<1x2xf32>, %v: tensor<1x2xf32>)
    -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %i = arith.index_cast %p : i32 to index
"""
    + "".join(
        f"""\
  %{name}0 = util.global.load @c{name} : tensor<4x2xf32>
  %{name}1 = tensor.insert_slice %{name} into %{name}0[%i, 0] [1, 2] [1, 1]
      : tensor<1x2xf32> into tensor<4x2xf32>
  util.global.store %{name}1, @c{name} : tensor<4x2xf32>
  %{name}e = tensor.empty() : tensor<4x2xf32>
  %{name}2 = linalg.generic
      {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%{name}1 : tensor<4x2xf32>) outs(%{name}e : tensor<4x2xf32>) {{
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %x : f32
    linalg.yield %z : f32
  }} -> tensor<4x2xf32>
"""
        for name in "kv"
    )
    + "  return %k2, %v2 : tensor<4x2xf32>, tensor<4x2xf32>\n}\n"
)


def verify(folder: Path, *words: str | Path, code: int) -> dict[str, Any]:
    """What attn-verify writes as JSON; it has to exit with `code`."""
    command = [*warm.command("attn-verify"), *map(str, words)]
    command += ["--quiet", "--jobs=2", f"--json={folder}/found.json"]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    found = folder / "found.json"
    return json.loads(found.read_text()) if found.exists() else {}


def verify_text(text: str, folder: Path, *flags: str, code: int) -> dict[str, Any]:
    (folder / "model.mlir").write_text(text)
    where = f"--folder={folder}/work"
    return verify(
        folder,
        folder / "model.mlir",
        *("--device=llvm-cpu", "--random=1", where, *CPU, *flags),
        code=code,
    )


@pytest.mark.parametrize("name", WIDE)
def test_wide_heads_of_iree(name: str, tmp_path: Path) -> None:
    found = verify_text(WIDE[name], tmp_path, "--plain", code=1)
    place = WIDE[name].split("iree_linalg_ext.attention")[0].count("\n") + 1
    assert f"attention at {tmp_path}/model.mlir:{place}:" in found["fault"]["where"]
    assert found["results"][0]["error"] > 0.1


def test_the_fault_among_others(tmp_path: Path) -> None:
    """The attention is named, the products around it are not; what is written reproduces it."""
    found = verify_text(BETWEEN, tmp_path, "--plain", code=1)
    (step,) = found["fault"]["steps"]
    assert step.startswith("attention at ")
    text = Path(found["fault"]["reproduction"]).read_text()
    assert text.count("\n") < 100 and "batch_matmul" not in text
    arrays = np.load(found["fault"]["inputs"])
    assert sorted(arrays.files) == ["in0", "in1", "in2", "in3", "out0"]
    again = tmp_path / "again"
    again.mkdir()
    inputs = f"--inputs={found['fault']['inputs']}"
    flags = ("--device=llvm-cpu", "--plain", f"--folder={again}/work", *CPU, inputs)
    found = verify(again, found["fault"]["reproduction"], *flags, code=1)
    assert found["results"][0]["error"] > 0.1


def test_globals_that_share_a_buffer(tmp_path: Path) -> None:
    found = verify_text(GLOBALS, tmp_path, "--plain", code=1)
    assert "mutable globals (@ck, @cv)" in found["fault"]["where"]
    assert "util.global.store" in Path(found["fault"]["reproduction"]).read_text()


@pytest.mark.parametrize("flags", [(), ("--plain",)])
def test_what_is_right(flags: tuple[str, ...], tmp_path: Path) -> None:
    found = verify_text(NARROW, tmp_path, *flags, code=0)
    assert found["fault"] is None
    assert all(row["verdict"] == "right" for row in found["results"])


def test_what_does_not_compile(tmp_path: Path) -> None:
    found = verify_text(NARROW, tmp_path, "--iree-llvmcpu-target-triple=none", code=2)
    assert found["verdict"] == "could not tell" and found["reason"]


def test_a_device_elsewhere(tmp_path: Path) -> None:
    """Compiled here, run by a script that needs no attnpass in a copy of the folder, finished
    here."""
    (tmp_path / "model.mlir").write_text(BETWEEN)
    work = tmp_path / "work"
    command = [sys.executable, "-m", "attnpass.cli.attn_verify", str(tmp_path / "model.mlir")]
    command += ["--device=llvm-cpu", "--random=1", f"--folder={work}", *CPU, "--plain"]
    command.append("--compile-only")
    done = subprocess.run(command, env=ENVIRONMENT, timeout=300, check=False)
    assert done.returncode == 0
    verify(tmp_path, f"--finish={work}", code=2)
    shutil.copytree(work, tmp_path / "there")
    plain = {**os.environ, "PYTHONPATH": ""}
    script = [sys.executable, "there/run.py", "there", "--quiet"]
    subprocess.run(script, cwd=tmp_path, env=plain, timeout=300, check=True)
    shutil.copytree(tmp_path / "there" / "results", work / "results", dirs_exist_ok=True)
    found = verify(tmp_path, f"--finish={work}", code=1)
    assert [step.split(" at ")[0] for step in found["fault"]["steps"]] == ["attention"]
