"""Sorts, writes by index and running sums, of which routers are made, give the numbers that IREE's
own ops stand for, at each level."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import CPU, compile_text, rel_error, renamed, run_module, symbol
from iree.compiler import ir
from iree.compiler.tools import compile_str

import attnpass
from attnpass import Report
from attnpass.gpu import split_sums

LEVELS = ["O0", "O2", "O3"]
KINDS: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "si64": np.int64,
    "si32": np.int32,
}
CUDA = (
    'module attributes {hal.device.targets = [#hal.device.target<"cuda", '
    '[#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} '
)


def _tensor(shape: tuple[int, ...], kind: str, unknown: bool = False) -> str:
    sizes = ",".join("?" if unknown and size != 1 else str(size) for size in shape)
    return f"!torch.vtensor<[{sizes}],{kind}>"


def _compiled(text: str, level: str = "O2", said: str = "", kind: str = "torch") -> bytes:
    report = Report()
    binary = compile_text(
        text, mode="cost", input_type=kind, flags=[f"--iree-opt-level={level}"], report=report
    )
    assert said in report.to_text()
    return binary


def _together(texts: Mapping[str, str], level: str, said: str) -> bytes:
    """A program with a function of each name, of each of which that is said."""
    report, text = Report(), "".join(renamed(text, name) for name, text in texts.items())
    flags = [f"--iree-opt-level={level}"]
    binary = compile_text(text, mode="cost", input_type="torch", flags=flags, report=report)
    told = [record.op.function for record in report.records if said in str(record)]
    assert {function.removesuffix("$async") for function in told} == {*texts}
    return binary


def _topk(shape: tuple[int, ...], k: int, dim: int, largest: bool, kind: str) -> str:
    x = _tensor(shape, kind)
    kept = (*shape[: dim % len(shape)], k, *shape[dim % len(shape) + 1 :])
    values, places = _tensor(kept, kind), _tensor(kept, "si64")
    return f"""
func.func @main(%x: {x}) -> ({values}, {places}) {{
  %k = torch.constant.int {k}
  %d = torch.constant.int {dim}
  %l = torch.constant.bool {str(largest).lower()}
  %s = torch.constant.bool true
  %v, %i = torch.aten.topk %x, %k, %d, %l, %s : {x}, !torch.int, !torch.int, !torch.bool, !torch.bool -> {values}, {places}
  return %v, %i : {values}, {places}
}}"""  # noqa: E501


def _numbers(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """With many equal ones, both zeros and infinities."""
    given = np.random.default_rng(0).integers(-9, 9, shape)
    if kind.startswith("si"):
        return given.astype(KINDS[kind])
    given = given.astype(np.float32) / 2
    given.flat[::7], given.flat[::11], given.flat[::13] = -0.0, np.inf, -np.inf
    return given.astype(KINDS[kind])


LARGEST = [
    *[((33, 8), 2, -1, "f32", level) for level in LEVELS],
    *[((33, 8), 2, -1, kind, "O2") for kind in KINDS if kind != "f32"],
    ((5, 64), 64, 1, "f32", "O2"),
    ((7, 3, 6), 2, 1, "f32", "O2"),
    ((19,), 5, 0, "f32", "O2"),
    # Among the runs that hold the largest: one is filled up, a dim is behind.
    ((3, 2053), 50, -1, "f16", "O2"),
    ((2, 2064, 2), 5, 1, "f32", "O2"),
    # Merged: runs of keys, the last of which is filled up or short.
    ((2, 700), 300, -1, "bf16", "O3"),
    ((577, 2), 300, 0, "si32", "O0"),
]


@cache
def _largest(level: str) -> bytes:
    """Functions for the largest and for the smallest of each case of this level."""
    texts = {
        symbol("topk", *case, kind, largest): _topk(*case, largest, kind)
        for *case, kind, its_level in LARGEST
        for largest in (True, False)
        if its_level == level
    }
    return _together(texts, level, "side by side")


@pytest.mark.parametrize(("shape", "k", "dim", "kind", "level"), LARGEST)
def test_largest(shape: tuple[int, ...], k: int, dim: int, kind: str, level: str) -> None:
    x = _numbers(shape, kind)
    for largest in (True, False):
        name = symbol("topk", shape, k, dim, kind, largest)
        values, places = run_module(_largest(level), [x], name)
        key = x.astype(np.float64)
        order = np.argsort(-key if largest else key, axis=dim, kind="stable")
        wanted = np.take(order, range(k), dim)
        assert np.array_equal(places, wanted)
        assert np.array_equal(values, np.take_along_axis(x, wanted, dim))


@pytest.mark.parametrize(
    ("kind", "level", "unknown"), [("f32", "O0", True), ("bf16", "O2", False), ("si32", "O3", True)]
)
def test_one_place(kind: str, level: str, unknown: bool) -> None:
    """Argmax and argmin, maxima of a dim with their places, and the largest element of floats."""
    x, is_float = _numbers((5, 33), kind), not kind.startswith("si")
    if is_float:
        x[0], x[1, 7], x[2, 4] = -np.inf, np.nan, np.nan
    a = _tensor(x.shape, kind, unknown)
    rows, columns, places, one = (
        _tensor(size, name, unknown)
        for size, name in (((5,), "si64"), ((33,), kind), ((33,), "si64"), ((5, 1), "si64"))
    )
    values = _tensor((5, 1), kind, unknown)
    results = [rows, places, columns, places, *[values, one] * is_float]
    topk = f"""
  %k = torch.constant.int 1
  %yes = torch.constant.bool true
  %t:2 = torch.aten.topk %x, %k, %k, %yes, %yes : {a}, !torch.int, !torch.int, !torch.bool, !torch.bool -> {values}, {one}"""  # noqa: E501
    text = f"""
func.func @main(%x: {a}) -> ({", ".join(results)}) {{
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %no = torch.constant.bool false
  %a = torch.aten.argmax %x, %one, %no : {a}, !torch.int, !torch.bool -> {rows}
  %b = torch.aten.argmin %x, %zero, %no : {a}, !torch.int, !torch.bool -> {places}
  %v, %i = torch.aten.max.dim %x, %zero, %no : {a}, !torch.int, !torch.bool -> {columns}, {places}
  {topk * is_float}
  return %a, %b, %v, %i{", %t#0, %t#1" * is_float} : {", ".join(results)}
}}"""
    got = run_module(_compiled(text, level, "largest element's place behind that element"), [x])
    wide = x.astype(np.float64)
    wanted = [wide.argmax(1), wide.argmin(0), wide.max(0), wide.argmax(0)]
    wanted += [wide.max(1)[:, None], wide.argmax(1)[:, None]] * is_float
    for one, other in zip(got, wanted, strict=True):
        assert np.array_equal(one.astype(np.float64), other, equal_nan=True)


def test_nan_is_the_largest() -> None:
    x = np.array([[1.0, np.nan, 3.0, np.nan], [np.nan, np.inf, 2.0, -np.inf]], np.float32)
    down = run_module(_compiled(_topk(x.shape, 3, 1, True, "f32")), [x])[1]
    up = run_module(_compiled(_topk(x.shape, 4, 1, False, "f32")), [x])[1]
    assert down.tolist() == [[1, 3, 2], [0, 1, 2]]
    assert up.tolist() == [[0, 2, 1, 3], [3, 2, 1, 0]]


def test_sorts_of_unknown_sizes() -> None:
    text = """
func.func @main(%x: !torch.vtensor<[?,?],f32>) -> (!torch.vtensor<[?,?],f32>, !torch.vtensor<[?,?],si64>) {
  %d = torch.constant.int 1
  %down = torch.constant.bool true
  %v, %i = torch.aten.sort %x, %d, %down : !torch.vtensor<[?,?],f32>, !torch.int, !torch.bool -> !torch.vtensor<[?,?],f32>, !torch.vtensor<[?,?],si64>
  return %v, %i : !torch.vtensor<[?,?],f32>, !torch.vtensor<[?,?],si64>
}"""  # noqa: E501
    binary = _compiled(text, said="side by side")
    for shape in ((3, 17), (1, 1), (9, 40)):
        x = _numbers(shape, "f32")
        values, places = run_module(binary, [x])
        wanted = np.argsort(-x, axis=1, kind="stable")
        assert np.array_equal(places, wanted)
        assert np.array_equal(values, np.take_along_axis(x, wanted, 1))


def test_sorts_by_more_than_one_comparison() -> None:
    """Pairs, by the first and then by the second, as JAX compares several keys."""
    text = """
func.func @main(%a: tensor<40xi32>, %b: tensor<40xf32>) -> (tensor<40xi32>, tensor<40xf32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a0: tensor<i32>, %a1: tensor<i32>, %b0: tensor<f32>, %b1: tensor<f32>):
    %less = stablehlo.compare LT, %a0, %a1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %same = stablehlo.compare EQ, %a0, %a1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %more = stablehlo.compare GT, %b0, %b1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %then = stablehlo.and %same, %more : tensor<i1>
    %r = stablehlo.or %less, %then : tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (tensor<40xi32>, tensor<40xf32>) -> (tensor<40xi32>, tensor<40xf32>)
  return %0#0, %0#1 : tensor<40xi32>, tensor<40xf32>
}"""
    random = np.random.default_rng(1)
    a, b = random.integers(0, 5, 40).astype(np.int32), random.standard_normal(40).astype(np.float32)
    binary = _compiled(text, said="side by side", kind="stablehlo")
    first, second = run_module(binary, [a, b])
    order = np.lexsort((-b, a))
    assert np.array_equal(first, a[order]) and np.array_equal(second, b[order])


def test_long_rows_are_merged() -> None:
    """Of equal numbers the first comes first, NaN is the largest; along a first dim, of which part
    is read; and an order of integers whose inverse is written by index, with rows that go there."""
    x, order, part = (
        _tensor((6000, 2), "f16"),
        _tensor((6000, 2), "si64"),
        _tensor((70, 2), "si64"),
    )
    ids, wide, rows = (
        _tensor((6001,), "si32"),
        _tensor((6001,), "si64"),
        _tensor((6001, 3), "f32"),
    )
    text = f"""
func.func @main(%x: {x}, %ids: {ids}, %rows: {rows}) -> ({x}, {part}, {ids}, {wide}, {rows}) {{
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %n = torch.constant.int 6001
  %kept = torch.constant.int 70
  %no = torch.constant.bool false
  %yes = torch.constant.bool true
  %none = torch.constant.none
  %v, %i = torch.aten.sort %x, %zero, %yes : {x}, !torch.int, !torch.bool -> {x}, {order}
  %p = torch.aten.slice.Tensor %i, %zero, %zero, %kept, %one : {order}, !torch.int, !torch.int, !torch.int, !torch.int -> {part}
  %w, %j = torch.aten.sort %ids, %zero, %no : {ids}, !torch.int, !torch.bool -> {ids}, {wide}
  %e = torch.aten.empty_like %j, %none, %none, %none, %none, %none : {wide}, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> {wide}
  %a = torch.aten.arange %n, %none, %none, %none, %none : !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> {wide}
  %l = torch.prim.ListConstruct %j : ({wide}) -> !torch.list<vtensor>
  %r = torch.aten.index_put %e, %l, %a, %no : {wide}, !torch.list<vtensor>, {wide}, !torch.bool -> {wide}
  %f = torch.aten.empty_like %rows, %none, %none, %none, %none, %none : {rows}, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> {rows}
  %s = torch.aten.index_put %f, %l, %rows, %no : {rows}, !torch.list<vtensor>, {rows}, !torch.bool -> {rows}
  return %v, %p, %w, %r, %s : {x}, {part}, {ids}, {wide}, {rows}
}}"""  # noqa: E501
    given, numbers = _numbers((6000, 2), "f16"), _numbers((6001,), "si32")
    given[::97] = np.nan
    new = np.arange(6001 * 3, dtype=np.float32).reshape(6001, 3)
    report = Report()
    binary = compile_text(text, mode="cost", input_type="torch", report=report)
    assert report.to_text().count("by merges side by side") == 2
    assert "fallback" not in report.to_text()
    values, places, ordered, inverse, moved = run_module(binary, [given, numbers, new])
    key = np.where(np.isnan(given), -np.inf, -given.astype(np.float64))
    # Behind NaN, but in front of all others, stands infinity.
    key[np.isposinf(given)] = -1e9
    wanted = np.argsort(key, axis=0, kind="stable")
    assert np.array_equal(places, wanted[:70])
    assert np.array_equal(values, np.take_along_axis(given, wanted, 0), equal_nan=True)
    order_of = np.argsort(numbers, kind="stable")
    assert np.array_equal(ordered, numbers[order_of])
    assert np.array_equal(inverse, np.argsort(order_of))
    assert np.array_equal(moved, new[np.argsort(order_of)])


def _scatter(name: str, shape: tuple[int, ...], index: tuple[int, ...], dim: int, kind: str) -> str:
    x, at, new = _tensor(shape, kind), _tensor(index, "si64"), _tensor(index, kind)
    given, new_type = (f", %new: {new}", new) if name != "scatter.value" else ("", "!torch.float")
    value = "" if given else "%new = torch.constant.float 1.5"
    return f"""
func.func @main(%x: {x}, %at: {at}{given}) -> {x} {{
  %d = torch.constant.int {dim}
  {value}
  %r = torch.aten.{name} %x, %d, %at, %new : {x}, !torch.int, {at}, {new_type} -> {x}
  return %r : {x}
}}"""


def _written(x: np.ndarray, dim: int, at: np.ndarray, new: Any, adds: bool) -> np.ndarray:
    """In the order of the writes."""
    wanted, new = x.copy(), np.broadcast_to(new, at.shape)
    for place in itertools.product(*map(range, at.shape)):
        where = list(place)
        where[dim] = at[place]
        add = wanted[tuple(where)] if adds else 0
        wanted[tuple(where)] = new[place] + add
    return wanted


WRITES = [
    *[((9, 8), (9, 2), 1, "scatter.src", level) for level in LEVELS],
    *[((9, 8), (9, 2), 1, name, "O2") for name in ("scatter.value", "scatter_add")],
    ((6, 5, 4), (6, 3, 4), -2, "scatter.src", "O2"),
    ((12, 3), (1, 3), 0, "scatter_add", "O2"),
    ((7,), (4,), 0, "scatter.src", "O2"),
]


@cache
def _writes(level: str) -> bytes:
    texts = {
        symbol(name, *case): _scatter(name, *case, "f32")
        for *case, name, its_level in WRITES
        if its_level == level
    }
    return _together(texts, level, "that are written")


@pytest.mark.parametrize(("shape", "index", "dim", "name", "level"), WRITES)
def test_writes_to_rows(
    shape: tuple[int, ...], index: tuple[int, ...], dim: int, name: str, level: str
) -> None:
    random = np.random.default_rng(2)
    x, new = (random.standard_normal(s).astype(np.float32) for s in (shape, index))
    at = np.argsort(random.standard_normal((*shape, 1)), axis=dim % len(shape))[..., 0]
    at = np.take(at, range(index[dim]), dim).astype(np.int64)
    if name == "scatter_add":
        at %= 2
    given = [x, at] if name == "scatter.value" else [x, at, new]
    out = run_module(_writes(level), given, symbol(name, shape, index, dim))
    wanted = _written(x, dim % len(shape), at, 1.5 if len(given) == 2 else new, "add" in name)
    assert np.allclose(out, wanted, rtol=1e-6, atol=1e-6)


def test_writes_to_fewer_rows_stay() -> None:
    text = _scatter("scatter.src", (9, 8), (4, 2), 1, "f32")
    random, report = np.random.default_rng(3), Report()
    x, new = (random.standard_normal(s).astype(np.float32) for s in ((9, 8), (4, 2)))
    at = np.array([[0, 3], [7, 1], [2, 5], [4, 6]])
    binary = compile_text(text, mode="cost", input_type="torch", report=report)
    assert "that are written" not in report.to_text()
    assert np.array_equal(run_module(binary, [x, at, new]), _written(x, 1, at, new, False))


@pytest.mark.parametrize("unknown", [False, True])
def test_an_index_of_rows_is_repeated(unknown: bool) -> None:
    rows = "?" if unknown else 50
    x, new = "!torch.vtensor<[3,20,8],f32>", f"!torch.vtensor<[3,{rows},8],f32>"
    at, table = (f"!torch.vtensor<[3,{rows},{size}],si64>" for size in (1, 8))
    text = f"""
func.func @main(%x: {x}, %at: {at}, %new: {new}) -> {x} {{
  %d = torch.constant.int 1
  %three = torch.constant.int 3
  %same = torch.constant.int -1
  %eight = torch.constant.int 8
  %no = torch.constant.bool false
  %l = torch.prim.ListConstruct %three, %same, %eight : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %i = torch.aten.expand %at, %l, %no : {at}, !torch.list<int>, !torch.bool -> {table}
  %r = torch.aten.scatter_add %x, %d, %i, %new : {x}, !torch.int, {table}, {new} -> {x}
  return %r : {x}
}}"""  # noqa: E501
    random = np.random.default_rng(9)
    given, values = (random.standard_normal((3, n, 8)).astype(np.float32) for n in (20, 50))
    places = random.integers(0, 20, (3, 50, 1))
    out = run_module(_compiled(text, said="writes rows by one index"), [given, places, values])
    wanted = _written(given, 1, np.broadcast_to(places, values.shape), values, True)
    assert np.allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_writes_of_onnx_count_from_the_end(reduction: str) -> None:
    x, at = _tensor((6, 8), "f32"), _tensor((6, 2), "si64")
    new = _tensor((6, 2), "f32")
    text = f"""
func.func @main(%x: {x}, %at: {at}, %new: {new}) -> {x} attributes {{torch.onnx_meta.ir_version = 9 : si64, torch.onnx_meta.opset_version = 18 : si64}} {{
  %r = torch.operator "onnx.ScatterElements"(%x, %at, %new) {{torch.onnx.axis = 1 : si64, torch.onnx.reduction = "{reduction}"}} : ({x}, {at}, {new}) -> {x}
  return %r : {x}
}}"""  # noqa: E501
    random = np.random.default_rng(4)
    given, values = (random.standard_normal(s).astype(np.float32) for s in ((6, 8), (6, 2)))
    places = np.array([[0, -1], [-8, 3], [5, 4], [-2, 1], [7, 0], [2, -3]])
    out = run_module(_compiled(text, said="that are written", kind="onnx"), [given, places, values])
    wanted = _written(given, 1, places % 8, values, reduction == "add")
    assert np.allclose(out, wanted, rtol=1e-6)


# Passes for GPUs, whose ops mean the same on a CPU.


def _rewritten(text: str, name: str) -> str:
    """What a pass for CUDA makes of a function, as a module for any target."""
    context = ir.Context()
    context.load_all_available_dialects()
    module = ir.Module.parse(CUDA + "{" + text + "}", context)
    attnpass.run(module, name)
    del module.operation.attributes["hal.device.targets"]
    return str(module)


def _run(text: str, inputs: list[np.ndarray]) -> Any:
    binary = compile_str(text, extra_args=[*CPU])
    assert binary is not None
    return run_module(binary, inputs)


def _write_text(
    rows: str, updates: str, original: str, masked: bool, adds: bool, kind: str = "f32"
) -> str:
    name = "arith.addf"
    mask, ins = (f", %mask: tensor<{rows}xi1>", f", tensor<{rows}xi1>") if masked else ("", "")
    body = f"%s = {name} %new, %old : {kind}" if adds else ""
    return f"""
func.func @main(%new: {updates}, %at: tensor<{rows}xi64>{mask}, %x: {original}) -> {original} {{
  %zero = arith.constant dense<0.0> : {original}
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%new, %at{", %mask" if masked else ""} : {updates}, tensor<{rows}xi64>{ins}) outs(%x : {original}) {{
  ^bb0(%n: {kind}, %o: {kind}):
    {body.replace("%new", "%n").replace("%old", "%o")}
    iree_linalg_ext.yield {"%s" if adds else "%n"} : {kind}
  }} -> {original}
  return %r : {original}
}}"""  # noqa: E501


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("adds", [False, True], ids=["writes", "adds"])
def test_elements_find_what_is_written(masked: bool, adds: bool) -> None:
    text = _write_text("40", "tensor<40xf32>", "tensor<24xf32>", masked, adds)
    rewritten = _rewritten(text, "attn-find-writes")
    assert "iree_linalg_ext.scatter" not in rewritten
    random = np.random.default_rng(5)
    new, x = (random.standard_normal(size).astype(np.float32) for size in (40, 24))
    at, mask = random.integers(0, 20, 40), random.integers(0, 2, 40).astype(bool)
    wanted = x.copy()
    for number in range(40):
        if mask[number] or not masked:
            wanted[at[number]] = new[number] + (wanted[at[number]] if adds else 0)
    out = _run(rewritten, [new, at, *([mask] if masked else []), x])
    assert np.allclose(out, wanted, rtol=1e-5, atol=1e-6)


def test_rows_find_what_is_written() -> None:
    text = _write_text("9", "tensor<9x5xf32>", "tensor<12x5xf32>", False, False)
    kept = _rewritten(text, "attn-find-writes")
    assert "iree_linalg_ext.scatter" in kept, "a tensor that is read, and may be a cache"
    constant = text.replace("dense<0.0>", "dense<2.0>").replace("outs(%x", "outs(%zero")
    rewritten = _rewritten(constant, "attn-find-writes")
    assert "iree_linalg_ext.scatter" not in rewritten
    random = np.random.default_rng(6)
    new, x = (random.standard_normal((size, 5)).astype(np.float32) for size in (9, 12))
    at = random.permutation(12)[:9]
    wanted = np.full((12, 5), 2, np.float32)
    wanted[at] = new
    assert np.array_equal(_run(rewritten, [new, at, x]), wanted)


def test_rows_find_what_is_added() -> None:
    text = _write_text("40", "tensor<40x5xf16>", "tensor<24x5xf16>", False, True, "f16")
    rewritten = _rewritten(text, "attn-find-writes")
    assert "iree_linalg_ext.scatter" not in rewritten
    random = np.random.default_rng(7)
    new, x = (random.standard_normal((size, 5)).astype(np.float16) for size in (40, 24))
    at = random.integers(0, 20, 40)
    new[3, 2] = np.inf  # Other rows do not see it.
    wanted = x.astype(np.float64)
    np.add.at(wanted, at, new.astype(np.float64))
    assert np.allclose(_run(rewritten, [new, at, x]), wanted, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "shape", "kind", "masked", "unknown"),
    [
        (600, (200, 80), "bf16", True, False),
        (6000, (1500,), "f32", False, False),  # Places are merged.
        (600, (40, 7), "i32", False, True),
        (0, (40, 7), "f32", True, True),
    ],
)
def test_rows_are_added_in_order(
    rows: int, shape: tuple[int, ...], kind: str, masked: bool, unknown: bool
) -> None:
    """Half of them to one row, in blocks; and by two indices each to the same rows of a table."""
    counts = ("?", "?") if unknown else (str(rows), str(shape[0]))
    row = "".join(f"x{size}" for size in shape[1:])
    updates, original = (f"tensor<{count}{row}x{kind}>" for count in counts)
    text = _write_text(counts[0], updates, original, masked, True, kind)
    text = "\n".join(line for line in text.split("\n") if "%zero =" not in line)
    if kind == "i32":
        text = text.replace("arith.addf", "arith.addi")
    table = text.replace(f"%at: tensor<{counts[0]}x", f"%at: tensor<{counts[0]}x2x")
    table = table.replace(
        f": {updates}, tensor<{counts[0]}x", f": {updates}, tensor<{counts[0]}x2x"
    )
    four = f"tensor<4x{original.removeprefix('tensor<')}"
    for where in ("%x: ", "-> ", "outs(%x : ", "return %r : "):
        table = table.replace(where + original, where + four)
    table = table.replace("map = [0]", "map = [0, 1]")
    random, dtype = np.random.default_rng(8), {**KINDS, "i32": np.int32}[kind]
    new, x = (
        (random.standard_normal((size, *shape[1:])) * 4).astype(dtype) for size in (rows, shape[0])
    )
    at, mask = random.integers(0, shape[0], rows), random.integers(0, 2, rows).astype(bool)
    at[: rows // 2] = 3
    masks, kept = ([mask], mask) if masked else ([], np.ones(rows, bool))
    wanted = x.astype(np.float64)
    np.add.at(wanted, at[kept], new[kept].astype(np.float64))
    tolerance = {"bf16": 4e-3, "f32": 1e-5, "i32": 0}[kind]
    rewritten = [_rewritten(one, "attn-find-writes") for one in (text, table)]
    assert "iree_linalg_ext" not in "".join(rewritten)
    out = _run(rewritten[0], [new, at, *masks, x])
    assert np.allclose(out.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    both = np.stack([at % 4, at], 1)
    out = _run(rewritten[1], [new, both, *masks, np.stack([x] * 4)])
    wanted = np.stack([x] * 4).astype(np.float64)
    np.add.at(wanted, (at[kept] % 4, at[kept]), new[kept].astype(np.float64))
    assert np.allclose(out.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "dim", "kind", "unknown"),
    [
        ((30, 7), 0, "f32", False),
        ((30, 7), 1, "i64", False),
        # In blocks; the last is not full, and there is none before the first.
        ((3, 777), 1, "f16", False),
        ((300, 3), 0, "i64", True),
        ((2, 5, 90), 2, "f32", True),
    ],
)
def test_running_sums(shape: tuple[int, ...], dim: int, kind: str, unknown: bool) -> None:
    def tensor(sizes: Sequence[int]) -> str:
        return "tensor<" + "".join(f"{'?' if unknown else x}x" for x in sizes) + f"{kind}>"

    x, last = tensor(shape), tensor([*shape[:dim], *shape[dim + 1 :]])
    name, zero = ("arith.addi", "0") if kind == "i64" else ("arith.addf", "0.0")
    text = f"""
func.func @main(%x: {x}, %e: {x}, %l: {last}) -> {x} {{
  %c = arith.constant {zero} : {kind}
  %f = linalg.fill ins(%c : {kind}) outs(%l : {last}) -> {last}
  %r:2 = iree_linalg_ext.scan dimension({dim}) inclusive(true) ins(%x : {x}) outs(%e, %f : {x}, {last}) {{
  ^bb0(%a: {kind}, %b: {kind}):
    %s = {name} %a, %b : {kind}
    iree_linalg_ext.yield %s : {kind}
  }} -> {x}, {last}
  return %r#0 : {x}
}}"""  # noqa: E501
    rewritten = _rewritten(text, "attn-sum-scans")
    assert "iree_linalg_ext.scan" not in rewritten
    numpys: Any = {"f32": np.float32, "f16": np.float16, "i64": np.int64}[kind]
    given = np.random.default_rng(7).integers(-9, 9, shape).astype(numpys)
    if kind == "f16":
        given += np.float16(3)  # Sums to 2331, of which f16 has no odd ones above 2048.
    out = _run(rewritten, [given, given, given.sum(dim).astype(numpys)])
    assert np.array_equal(out, given.astype(np.float64).cumsum(dim).astype(numpys))


@pytest.mark.parametrize(
    ("shape", "kept", "combine"),
    [
        ((24, 30), "", "addf"),
        ((3000, 8), "j", "maximumf"),
        ((2, 2040), "i", "addf"),
    ],
)
def test_sums_in_parts(
    shape: tuple[int, int], kept: str, combine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole loops, and of parts of one in front or behind."""
    monkeypatch.setattr(split_sums, "_LEAST", 64)
    x = f"tensor<{shape[0]}x{shape[1]}xf16>"
    sums = "tensor<" + "".join(f"{shape['ij'.index(loop)]}x" for loop in kept) + "f32>"
    kinds = ", ".join('"parallel"' if loop in kept else '"reduction"' for loop in "ij")
    start = "0.0" if combine == "addf" else "0xFF800000"
    text = f"""
func.func @main(%x: {x}) -> {sums} {{
  %start = arith.constant {start} : f32
  %e = tensor.empty() : {sums}
  %f = linalg.fill ins(%start : f32) outs(%e : {sums}) -> {sums}
  %s = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ({kept})>],
      iterator_types = [{kinds}]}} ins(%x : {x}) outs(%f : {sums}) {{
  ^bb0(%a: f16, %o: f32):
    %b = arith.extf %a : f16 to f32
    %c = arith.mulf %b, %b : f32
    %t = arith.{combine} %c, %o : f32
    linalg.yield %t : f32
  }} -> {sums}
  return %s : {sums}
}}"""
    rewritten = _rewritten(text, "attn-split-sums")
    assert rewritten.count("linalg.generic") == 2
    given = np.random.default_rng(7).standard_normal(shape).astype(np.float16)
    squares = given.astype(np.float64) ** 2
    dims = tuple(dim for dim, loop in enumerate("ij") if loop not in kept)
    wanted = squares.sum(dims) if combine == "addf" else squares.max(dims)
    assert rel_error(_run(rewritten, [given]), wanted) < 1e-6
