"""attn-shared-memory without a GPU: the numbers of rewritten kernels, in an interpreter of
lowered kernels that sees races, and the instructions in the PTX.

Numbers and times on a GPU: tools/bench_configure.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_interpreter import Race, run_kernel
from helpers import rel_error
from iree.compiler import ir

import attnpass
from attnpass.lowered.kernel import collect
from attnpass.report.records import Report

BATCH, ROWS, KEYS, HEAD = 40, 128, 192, 64


def attention(transposed: bool, keys: int = KEYS, head: int = HEAD) -> str:
    """Enough heads for the kernel tiles; V row-major or V^T."""
    q, k = f"tensor<{BATCH}x{ROWS}x{head}xf16>", f"tensor<{BATCH}x{keys}x{head}xf16>"
    v = f"tensor<{BATCH}x{head}x{keys}xf16>" if transposed else k
    maps = ["b, m, k1", "b, k2, k1", "b, n, k2" if transposed else "b, k2, n", "", "b, m, n"]
    shown = ", ".join(f"affine_map<(b, m, n, k1, k2) -> ({m})>" for m in maps)
    return f"""
func.func @main(%q: {q}, %k: {k}, %v: {v}) -> {q} {{
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [{shown}]>
      ins(%q, %k, %v, %scale : {q}, {k}, {v}, f32) outs(%e : {q}) {{
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }} -> {q}
  return %r : {q}
}}
"""


def lowered(text: str, options: str, folder: Path) -> tuple[ir.Module, list[str]]:
    """The module with its lowered kernel, and what the passes said."""
    report = Report()
    path = folder / "lowered.mlir"
    attnpass.compile_str(
        text,
        pipeline=f"attn-configure,attn-hardware-exp2,attn-shared-memory{options}",
        report=report,
        output_file=str(path),
        extra_args=[
            "--iree-hal-target-device=cuda",
            "--iree-cuda-target=sm_80",
            "--compile-to=executable-configurations",
        ],
    )
    context = ir.Context()
    context.load_all_available_dialects()
    return ir.Module.parse(path.read_text(), context), report.notes


def numbers(
    module: ir.Module, transposed: bool = False, keys: int = KEYS, head: int = HEAD
) -> tuple[np.ndarray, np.ndarray]:
    """The first head of the kernel's result, and of float32's."""
    random = np.random.default_rng(1)
    q, k, v = (
        random.standard_normal((BATCH, rows, head)).astype(np.float16)
        for rows in (ROWS, keys, keys)
    )
    out = np.full_like(q, np.nan)
    inputs = [q, k, np.ascontiguousarray(v.transpose(0, 2, 1)) if transposed else v]
    (function,) = collect(module.operation, lambda op: op.name == "func.func")
    run_kernel(function, [*inputs, out], threads=128, workgroups=1)
    q, k, v = (x[0].astype(np.float32) for x in (q, k, v))
    weights = np.exp(q @ k.T * 0.125)
    return out[0], weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("transposed", [False, True])
def test_numbers_stay_the_same(transposed: bool, tmp_path: Path) -> None:
    """To the last bit, and right."""
    results = []
    for options in ("{rows=false ldmatrix=false ahead=false}", "{ahead=false}", ""):
        module, notes = lowered(attention(transposed), options, tmp_path)
        said = " ".join(notes)
        assert ("reads 160 fragment(s) with ldmatrix" in said) == ("ldmatrix=false" not in options)
        assert ("fetches the tiles of 1 loop(s) ahead" in said) == (not options)
        got, right = numbers(module, transposed)
        assert rel_error(got, right) < 1e-3
        results.append(got)
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


@pytest.mark.parametrize(("head", "keys"), [(128, 96), (64, 48)])
def test_other_tiles(head: int, keys: int, tmp_path: Path) -> None:
    module, notes = lowered(attention(True, keys, head), "", tmp_path)
    assert "fetches the tiles of 1 loop(s) ahead" in " ".join(notes)
    assert rel_error(*numbers(module, True, keys, head)) < 1e-3


@pytest.mark.parametrize("name", ["gpu.barrier", "nvgpu.device_async_wait"])
def test_the_interpreter_sees_what_is_missing(name: str, tmp_path: Path) -> None:
    module, _ = lowered(attention(False), "", tmp_path)
    (loop,) = collect(module.operation, lambda op: op.name == "scf.for")
    (missing,) = collect(loop, lambda op: op.name == name)
    missing.erase()
    with pytest.raises(Race):
        numbers(module)


def test_instructions(tmp_path: Path) -> None:
    """What comes out for the GPU: transposing loads for V, none of 2 bytes, wide copies."""
    ptx = {}
    for on in (True, False):
        folder = tmp_path / str(on)
        attnpass.compile_str(
            attention(False),
            shared_memory=on,
            extra_args=[
                "--iree-hal-target-device=cuda",
                "--iree-cuda-target=sm_80",
                f"--iree-hal-dump-executable-binaries-to={folder}",
            ],
        )
        (ptx[on],) = (path.read_text() for path in folder.glob("*.ptx"))
    assert "ld.shared.b16" in ptx[False] and "ldmatrix" not in ptx[False]
    assert "ld.shared" not in ptx[True]
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx[True]
    assert "cp.async.cg.shared.global" in ptx[True]
    assert "st.shared.v4.b32" in ptx[True]
