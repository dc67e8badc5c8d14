"""Rows that are combined by index give what PyTorch says, in the forms that IREE imports, whose ops
mean the same on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, renamed, run_module, symbol
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass

KINDS: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "si32": np.int32,
    "si64": np.int64,
}
TOLERANCES = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2, "si32": 0, "si64": 0}
BATCH, LENGTH, ROW = 2, 20, 6
# By comparisons, and in order, in blocks of 128.
FEW, MANY = 7, 300
Case = tuple[str, str, str, "int | str", str]
# The first few at each level.
CASES: list[Case] = [
    ("amax", "f16", "included", MANY, "rows"),
    ("sum", "bf16", "alone", "?", "rows"),
    ("mean", "f16", "included", FEW, "elements"),
    ("amax", "si64", "alone", "?", "elements"),
    ("amin", "bf16", "alone", MANY, "rows"),
    ("amin", "si32", "included", FEW, "rows"),
    ("sum", "f32", "included", MANY, "elements"),
    ("prod", "f32", "alone", FEW, "rows"),
    ("prod", "si64", "included", "?", "rows"),
    ("mean", "f32", "alone", "?", "rows"),
    ("mean", "si32", "alone", MANY, "rows"),
]
LEVELS = {"O2": CASES, "O3": CASES[:3]}


def _text(reduce: str, kind: str, first: str, count: int | str, index: str) -> str:
    x, new = (f"!torch.vtensor<[{BATCH},{size},{ROW}],{kind}>" for size in (LENGTH, count))
    at, whole = (f"!torch.vtensor<[{BATCH},{count},{row}],si64>" for row in (1, ROW))
    given = at if index == "rows" else whole
    expanded = f"""
  %l = torch.prim.ListConstruct %same, %same, %row : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %i = torch.aten.expand %at, %l, %no : {at}, !torch.list<int>, !torch.bool -> {whole}"""  # noqa: E501
    return f"""
func.func @main(%x: {x}, %at: {given}, %new: {new}) -> {x} {{
  %d = torch.constant.int 1
  %same = torch.constant.int -1
  %row = torch.constant.int {ROW}
  %no = torch.constant.bool false
  %own = torch.constant.bool {str(first == "included").lower()}
  %how = torch.constant.str "{reduce}"{expanded if index == "rows" else ""}
  %r = torch.aten.scatter_reduce.two %x, %d, {"%i" if index == "rows" else "%at"}, %new, %how, %own : {x}, !torch.int, {whole}, {new}, !torch.str, !torch.bool -> {x}
  return %r : {x}
}}"""  # noqa: E501


@cache
def _program(level: str) -> bytes:
    """All cases of a level, rewritten for CUDA and compiled for a CPU; of O3 those of 16 bits are
    imported as sums in f32."""
    text = "".join(renamed(_text(*case), symbol("combine", *case)) for case in LEVELS[level])
    context = ir.Context()
    context.load_all_available_dialects()
    if level == "O3":
        given = ir.Module.parse(text, context)
        attnpass.run(given, "attn-wide-imports")
        text = str(given)
    cuda = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    imported = compile_str(text, input_type="torch", extra_args=[*cuda, "--compile-to=input"])
    assert imported is not None
    module = ir.Module.parse(imported, context)
    target = '[#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]>]'
    module.operation.attributes["hal.device.targets"] = ir.Attribute.parse(target, context)
    attnpass.run(module, "attn-find-writes")
    del module.operation.attributes["hal.device.targets"]
    rewritten = str(module)
    assert "iree_linalg_ext" not in rewritten
    flags = ["--compile-from=input", f"--iree-opt-level={level}"]
    return compile_text(rewritten, flags=flags)


def _combined(reduce: str, x: np.ndarray, at: np.ndarray, new: np.ndarray, own: bool) -> np.ndarray:
    """What torch makes of it, in float64 or whole numbers."""
    steps = {"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}
    step, made, counts = steps.get(reduce, np.add), x.copy(), np.full(x.shape, int(own))
    for place in np.ndindex(*at.shape):
        where = (place[0], at[place], place[2])
        begun = counts[where] > 0
        made[where] = step(made[where], new[place]) if begun else new[place]
        counts[where] += 1
    if reduce != "mean":
        return made
    counts = np.maximum(counts, 1)
    return made // counts if x.dtype.kind == "i" else made / counts


def _run(case: Case, level: str, given: Sequence[np.ndarray]) -> Any:
    return run_module(_program(level), given, symbol("combine", *case))


@pytest.mark.parametrize(
    ("case", "level"), [(case, level) for level, cases in LEVELS.items() for case in cases]
)
def test_rows_are_combined(case: Case, level: str) -> None:
    reduce, kind, first, count, index = case
    random, rows = np.random.default_rng(3), MANY if count == "?" else int(count)
    at = random.integers(0, LENGTH - 2, (BATCH, rows, 1 if index == "rows" else ROW))
    at[:, : rows // 2] = 3
    sizes = [(BATCH, size, ROW) for size in (LENGTH, rows)]
    low, high = (1, 9) if kind.startswith("s") else (1, 1.05) if reduce == "prod" else (-0.5, 0.5)
    x, new = (random.uniform(low, high, size).astype(KINDS[kind]) for size in sizes)
    exact = np.int64 if kind.startswith("s") else np.float64
    whole, own = np.broadcast_to(at, sizes[1]), first == "included"
    wanted = _combined(reduce, x.astype(exact), whole, new.astype(exact), own)
    out, limit = _run(case, level, [x, at, new]), TOLERANCES[kind]
    if kind.startswith("s"):
        assert np.array_equal(out, wanted.astype(KINDS[kind]))
    else:
        assert np.allclose(out.astype(np.float64), wanted, rtol=limit, atol=limit)


def test_nan_zeros_and_places_beyond() -> None:
    """NaN is the largest number, -0.0 stays that without a row, and what goes nowhere changes
    nothing: where PyTorch says nothing, other memory stays as it is."""
    x, at = np.full((BATCH, LENGTH, ROW), -0.0, np.float32), np.full((BATCH, MANY, ROW), 3)
    new = np.full((BATCH, MANY, ROW), -0.0, np.float32)
    at[1, 9:] = 1 << 40
    out = _run(CASES[6], "O2", [x, at, new])
    assert np.signbit(out).all()
    halves = new.astype(np.float16)
    halves[0, 200, 2], halves[0, 7, 4] = np.nan, 5
    out = _run(CASES[0], "O2", [x.astype(np.float16), at[:, :, :1], halves])
    assert np.isnan(out[0, 3, 2])
    assert out[0, 3, 4] == 5
    assert np.isnan(out).sum() == 1
