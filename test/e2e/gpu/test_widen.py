"""attn-widen: 8-bit operands of attention as 16-bit ones, run on llvm-cpu.

IREE 3.13 has no right casts of 8-bit floats for CPUs: here they are the integer arithmetic that
attnpass has for GPUs without such casts, which test_hardware_exp2.py checks.
"""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_and_run, compile_text, in_each_way, run_module, thinned
from iree.compiler import ir

import attnpass
from attnpass.codegen.ptx import Machine
from attnpass.gpu.lower_cuda.hardware_math import LoweredKernel

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
ROWS, KEYS, HEAD = 40, 70, 32


def attention(
    query: str,
    key: str,
    value: str,
    output: str,
    sizes: tuple[int, int | str, int | str, int] = (2, ROWS, KEYS, HEAD),
    masked: bool = True,
) -> str:
    """Attention of these types under a mask or none; `sizes` are heads, rows, keys (or `?`) and
    head dim."""
    heads, rows, keys, head = sizes
    q, k, v, o = (
        f"tensor<{heads}x{size}x{head}x{kind}>"
        for size, kind in ((rows, query), (keys, key), (keys, value), (rows, output))
    )
    mask = f"tensor<{rows}x{keys}xi1>"
    argument, operand, kind = (f", %mask: {mask}", ", %mask", f", {mask}") if masked else ("",) * 3
    dims = ["b, m, k1", "b, k2, k1", "b, k2, n", "", *["m, k2"] * masked, "b, m, n"]
    maps = ", ".join(f"affine_map<(b, m, n, k1, k2) -> ({each})>" for each in dims)
    return f"""
func.func @main(%q: {q}, %k: {k}, %v: {v}{argument}) -> {o} {{
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : {o}
  %r = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins(%q, %k, %v, %scale{operand} : {q}, {k}, {v}, f32{kind}) outs(%e : {o}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {o}
  return %r : {o}
}}
"""


def widened(text: str) -> bytes:
    """A module for llvm-cpu, its operands widened, its casts arithmetic."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        attnpass.run(module, "attn-widen{mode=always}")
        casts = LoweredKernel(Machine(80, 76))
        casts.rewrite(module.operation)
        assert not casts.kept
        return compile_text(str(module))


def inputs(*kinds: str) -> list[np.ndarray]:
    """Q, K and V of these types, and the mask."""
    random = np.random.default_rng(4)
    sizes = (ROWS, KEYS, KEYS)
    given = [
        random.standard_normal((2, size, HEAD)).astype(TYPES[kind])
        for size, kind in zip(sizes, kinds, strict=True)
    ]
    return [*given, np.tril(np.ones((ROWS, KEYS), np.bool_), KEYS - ROWS)]


def wanted(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = np.where(mask, 0.25 * q @ k.transpose(0, 2, 1), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def error(found: np.ndarray, right: np.ndarray) -> float:
    return float(np.linalg.norm(found.astype(np.float64) - right) / np.linalg.norm(right))


@pytest.mark.parametrize(
    ("kind", "wide"), in_each_way([("f8E4M3FN",), ("f8E5M2",)], ["f16", "bf16"])
)
def test_every_code_is_cast_exactly(kind: str, wide: str) -> None:
    """V holds each of the 256 codes, one key, so that attention returns it: to the last bit what
    it makes of their values in 16 bits, NaN and infinities included."""
    one_key = (8, ROWS, 1, HEAD)
    texts = [attention(wide, wide, value, wide, one_key) for value in (kind, wide)]
    codes = np.arange(256, dtype=np.uint8).view(TYPES[kind]).reshape(8, 1, HEAD)
    values = codes.astype(TYPES[wide])
    np.testing.assert_array_equal(values.astype(np.float32), codes.astype(np.float32))
    zeros = np.zeros((8, ROWS, HEAD), TYPES[wide])
    rest = zeros[:, :1], np.ones((ROWS, 1), np.bool_)
    found = run_module(widened(texts[0]), [zeros, rest[0], codes, rest[1]])
    same = compile_and_run(texts[1], [zeros, rest[0], values, rest[1]])
    np.testing.assert_array_equal(found.astype(np.float32), same.astype(np.float32))


CASES = [
    ("f8E4M3FN", "f8E4M3FN", "f16", "f16"),
    ("f8E4M3FN", "f8E4M3FN", "bf16", "bf16"),
    ("f16", "f8E4M3FN", "f8E4M3FN", "f16"),
    ("f8E5M2", "f8E4M3FN", "f8E5M2", "f16"),
    ("f8E5M2", "f8E5M2", "f8E5M2", "bf16"),
]


@pytest.mark.parametrize(
    ("kinds", "keys"), [(kinds, KEYS) for kinds in thinned(CASES)] + [(CASES[0], "?")], ids=str
)
def test_numbers(kinds: tuple[str, str, str, str], keys: int | str) -> None:
    """As right as attention of 16-bit operands is, known sizes or not."""
    given = inputs(*kinds[:3])
    found = run_module(widened(attention(*kinds, (2, ROWS, keys, HEAD))), given)
    assert error(found, wanted(*given)) < (2e-3 if kinds[3] == "f16" else 1e-2)


def test_it_is_attention_of_what_was_cast_before() -> None:
    """To the last bit: a module that widens Q and K itself, and one that attn-widen changes."""
    given = inputs("f8E4M3FN", "f8E4M3FN", "f16")
    cast = [given[0].astype(np.float16), given[1].astype(np.float16), *given[2:]]
    found = run_module(widened(attention("f8E4M3FN", "f8E4M3FN", "f16", "f16")), given)
    same = compile_and_run(attention("f16", "f16", "f16", "f16"), cast)
    np.testing.assert_array_equal(found, same)


def test_quantised_operands_stay_quantised() -> None:
    """A cast to 8 bits in the model is no cast back: attention reads rounded numbers."""
    wide, narrow = (f"tensor<2x{ROWS}x{HEAD}x{kind}>" for kind in ("f16", "f8E4M3FN"))
    same = "affine_map<(a, b, c) -> (a, b, c)>"
    cast = f"""%q0 = tensor.empty() : {narrow}
  %q = linalg.generic {{indexing_maps = [{same}, {same}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%q16 : {wide}) outs(%q0 : {narrow}) {{
  ^bb0(%a: f16, %b: f8E4M3FN):
    %c = arith.truncf %a : f16 to f8E4M3FN
    linalg.yield %c : f8E4M3FN
  }} -> {narrow}
  %scale"""
    text = attention("f8E4M3FN", "f8E4M3FN", "f16", "f16")
    text = text.replace(f"%q: {narrow}", f"%q16: {wide}").replace("%scale", cast, 1)
    exact = np.random.default_rng(5).standard_normal((2, ROWS, HEAD)).astype(np.float16)
    rounded, *rest = [exact.astype(TYPES["f8E4M3FN"]), *inputs("f16", "f8E4M3FN", "f16")[1:]]
    found = run_module(widened(text), [exact, *rest])
    assert error(found, wanted(rounded, *rest)) < 2e-3
    assert error(found, wanted(exact, *rest)) > 1e-2


@pytest.mark.parametrize("cast", [False, True], ids=["8 bits", "cast by the model"])
def test_a_whole_compile_casts_in_front(cast: bool, tmp_path: Path) -> None:
    """For Hopper: the GPU's own casts in dispatches of their own, and attention of f16."""
    q, wide = "tensor<32x2048x64xf8E4M3FN>", "tensor<32x2048x64xf16>"
    sizes = (32, 2048, 2048, 64)
    text = attention("f8E4M3FN", "f8E4M3FN", "f16", "f16", sizes, masked=False)
    if cast:
        casts = "".join(f"%{n}w = arith.extf %{n} : {q} to {wide}\n  " for n in "qk")
        text = text.replace("%scale", f"{casts}%scale", 1)
        text = text.replace("ins(%q, %k, %v, %scale", "ins(%qw, %kw, %v, %scale")
        text = text.replace(f"scale : {q}, {q}", f"scale : {wide}, {wide}")
    report = attnpass.Report()
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    flags.append(f"--iree-hal-dump-executable-binaries-to={tmp_path}")
    attnpass.compile_str(text, extra_args=flags, report=report, kernels="never")
    words = "are widened before it" if cast else "the query and the key are widened to f16"
    assert any(words in record.reason for record in report.found("widened"))
    ptx = "\n".join(path.read_text() for path in tmp_path.glob("*.ptx"))
    entries = re.split(r"(?=\.visible \.entry )", ptx)[1:]
    kernels = {re.search(r"entry (\w+)", each)[1]: each for each in entries}  # type: ignore[index]
    casting = {name for name, each in kernels.items() if "cvt.rn.f16x2.e4m3x2" in each}
    assert casting and all("elementwise" in name for name in casting)
    (attending,) = (each for name, each in kernels.items() if "attention" in name)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16" in attending
