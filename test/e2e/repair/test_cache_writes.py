"""Rows that are written by index, as caches of K and V are, stand where they belong, and nothing
else changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import CPU, at_levels, renamed, run_module, symbol

import attnpass
from attnpass import Report

KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "si8": np.int8}


@dataclass(frozen=True)
class Write:
    """`cache[indices] = new`: the shapes of all, for each dim of the cache that is named the number
    of an index or None, and which sizes are known only at run time."""

    cache: tuple[int, ...]
    new: tuple[int, ...]
    dims: tuple[int | None, ...]
    indices: tuple[np.ndarray, ...]
    unknown: bool = False
    index: str = "si64"
    accumulate: bool = False

    def text(self, kind: str) -> str:
        """As PyTorch's importers write it."""
        cache, new = self._type(self.cache, kind), self._type(self.new, kind)
        kinds = [self._type(index.shape, self.index) for index in self.indices]
        names = ["%none" if number is None else f"%at{number}" for number in self.dims]
        types = ["!torch.none" if number is None else kinds[number] for number in self.dims]
        places = ", ".join(f"%at{number}: {kind}" for number, kind in enumerate(kinds))
        return f"""
func.func @main(%cache: {cache}, %new: {new}, {places}) -> {cache} {{
  %none = torch.constant.none
  %add = torch.constant.bool {str(self.accumulate).lower()}
  %at = torch.prim.ListConstruct {", ".join(names)} : ({", ".join(types)}) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %cache, %at, %new, %add : {cache}, !torch.list<optional<vtensor>>, {new}, !torch.bool -> {cache}
  return %r : {cache}
}}
"""  # noqa: E501

    def _type(self, shape: tuple[int, ...], kind: str) -> str:
        sizes = ["?" if self.unknown and size > 1 else str(size) for size in shape]
        return f"!torch.vtensor<[{','.join(sizes)}],{kind}>"

    def wanted(self, cache: np.ndarray, new: np.ndarray) -> np.ndarray:
        at = tuple(slice(None) if number is None else self.indices[number] for number in self.dims)
        wanted = cache.copy()
        wanted[at] = wanted[at] + new if self.accumulate else new
        return wanted


AT, EACH = np.array([1, -11, 0]), np.array([4, -2])
HEADS = Write((2, 3, 16, 8), (2, 3, 3, 8), (None, None, 0), (AT,))
WRITES = {
    "heads first": HEADS,
    "rows first": Write((2, 16, 3, 8), (2, 3, 3, 8), (None, 0), (AT,)),
    "V^T": Write((2, 3, 8, 16), (2, 3, 8, 3), (None, None, None, 0), (AT,)),
    "a row for each sequence": Write((2, 16, 3, 8), (2, 3, 8), (0, 1), (np.arange(2), EACH)),
    "one behind the heads": Write((2, 3, 16, 8), (2, 3, 8), (0, None, 1), (np.arange(2), EACH)),
    "a table of rows": Write(
        (2, 16, 3, 8), (2, 3, 3, 8), (0, 1), (np.arange(2)[:, None], np.array([AT, AT + 3]))
    ),
    "of size one": Write((1, 1, 16, 8), (1, 1, 1, 8), (None, None, 0), (np.array([-3]),)),
    "repeated": Write((2, 3, 16, 8), (3, 1, 8), (None, None, 0), (AT,)),
    "of 32 bits": Write(
        (2, 3, 16, 8), (2, 3, 3, 8), (None, None, 0), (AT.astype(np.int32),), index="si32"
    ),
    "added": Write((2, 3, 16, 8), (2, 3, 3, 8), (None, None, 0), (AT,), accumulate=True),
    "unknown": Write((2, 3, 16, 8), (2, 3, 3, 8), (None, None, 0), (AT,), unknown=True),
    "unknown sequences": Write(
        (2, 3, 16, 8), (2, 3, 8), (0, None, 1), (np.arange(2), EACH), unknown=True
    ),
}
CASES = [(name, "f32", "O2") for name in WRITES] + [
    *(("heads first", "f32", "O0"), ("heads first", "f16", "O3"), ("heads first", "si8", "O2")),
    *(("one behind the heads", "f16", "O0"), ("unknown", "f16", "O3"), ("V^T", "f32", "O0")),
]


def _compiled(texts: dict[str, str], level: str, **options: Any) -> tuple[bytes, Report]:
    """One program of modules by the names of their functions."""
    report = Report()
    program = attnpass.compile_str(
        "".join(renamed(text, name) for name, text in texts.items()),
        extra_args=[*CPU, f"--iree-opt-level={level}"],
        report=report,
        **options,
    )
    assert program
    assert not report.found("fallback", "known-wrong")
    return program, report


def _reasons(report: Report, what: Any, function: str) -> list[str]:
    """What was said of a function, which the importer may have split."""
    found = report.found(what)
    return [one.reason for one in found if one.op.function.partition("$")[0] == function]


@cache
def _writes(level: str) -> tuple[bytes, Report]:
    here = [(name, kind) for name, kind, one in CASES if one == level]
    return _compiled({symbol(*case): WRITES[case[0]].text(case[1]) for case in here}, level)


@pytest.mark.parametrize(("name", "kind", "level"), CASES)
def test_rows_are_written_where_indices_say(name: str, kind: str, level: str) -> None:
    write, function = WRITES[name], symbol(name, kind)
    program, report = _writes(level)
    assert any("by one index each" in reason for reason in _reasons(report, "fitted", function))
    rng = np.random.default_rng(0)
    cache, new = (
        rng.integers(-50, 50, shape).astype(KINDS[kind]) for shape in (write.cache, write.new)
    )
    got = run_module(program, [cache, new, *write.indices], function)
    assert np.array_equal(got, write.wanted(cache, new))


OVERLAPS = {
    # The text that makes `%r` of `%cache` and `%at`, and what it is.
    "moved up": (
        """
  %part = tensor.extract_slice %cache[0, 0, 0] [2, 15, 8] [1, 1, 1] : tensor<2x16x8xf32> to tensor<2x15x8xf32>
  %r = tensor.insert_slice %part into %cache[0, 1, 0] [2, 15, 8] [1, 1, 1] : tensor<2x15x8xf32> into tensor<2x16x8xf32>""",  # noqa: E501
        lambda cache, at: np.concatenate([cache[:, :1], cache[:, :-1]], 1),
    ),
    # One range of memory, in a buffer that is the program's own.
    "whole rows moved up": (
        """
  %twice = arith.addf %cache, %cache : tensor<2x16x8xf32>
  %flat = tensor.collapse_shape %twice [[0, 1], [2]] : tensor<2x16x8xf32> into tensor<32x8xf32>
  %part = tensor.extract_slice %flat[0, 0] [20, 8] [1, 1] : tensor<32x8xf32> to tensor<20x8xf32>
  %s = tensor.insert_slice %part into %flat[5, 0] [20, 8] [1, 1] : tensor<20x8xf32> into tensor<32x8xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>""",  # noqa: E501
        lambda cache, at: (
            2 * cache.reshape(32, 8)[[*range(5), *range(20), *range(25, 32)]].reshape(cache.shape)
        ),
    ),
    "rows written to others": (
        """
  %flat = tensor.collapse_shape %cache [[0, 1], [2]] : tensor<2x16x8xf32> into tensor<32x8xf32>
  %part = tensor.extract_slice %flat[0, 0] [3, 8] [1, 1] : tensor<32x8xf32> to tensor<3x8xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%part, %at : tensor<3x8xf32>, tensor<3x1xi64>) outs(%flat : tensor<32x8xf32>) {
    ^bb0(%x: f32, %y: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<32x8xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>""",  # noqa: E501
        lambda cache, at: _moved(cache, at, lambda rows: rows),
    ),
    "parts of rows written to others": (
        """
  %flat = tensor.collapse_shape %cache [[0, 1], [2]] : tensor<2x16x8xf32> into tensor<32x8xf32>
  %part = tensor.extract_slice %flat[0, 0] [3, 3] [1, 1] : tensor<32x8xf32> to tensor<3x3xf32>
  %last = tensor.extract_slice %flat[0, 5] [32, 3] [1, 1] : tensor<32x8xf32> to tensor<32x3xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%part, %at : tensor<3x3xf32>, tensor<3x1xi64>) outs(%last : tensor<32x3xf32>) {
    ^bb0(%x: f32, %y: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<32x3xf32>
  %t = tensor.insert_slice %s into %flat[0, 5] [32, 3] [1, 1] : tensor<32x3xf32> into tensor<32x8xf32>
  %r = tensor.expand_shape %t [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>""",  # noqa: E501
        lambda cache, at: _moved(
            cache,
            at,
            lambda rows: np.concatenate([cache.reshape(32, 8)[at[:, 0], :5], rows[:, :3]], 1),
        ),
    ),
    "softmax of rows": (
        """
  %flat = tensor.collapse_shape %cache [[0, 1], [2]] : tensor<2x16x8xf32> into tensor<32x8xf32>
  %part = tensor.extract_slice %flat[0, 0] [3, 8] [1, 1] : tensor<32x8xf32> to tensor<3x8xf32>
  %e = tensor.empty() : tensor<3x8xf32>
  %soft = linalg.softmax dimension(1) ins(%part : tensor<3x8xf32>) outs(%e : tensor<3x8xf32>) -> tensor<3x8xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%soft, %at : tensor<3x8xf32>, tensor<3x1xi64>) outs(%flat : tensor<32x8xf32>) {
    ^bb0(%x: f32, %y: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<32x8xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>""",  # noqa: E501
        lambda cache, at: _moved(cache, at, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ),
}


def _moved(cache: np.ndarray, at: np.ndarray, change: Any) -> np.ndarray:
    rows = cache.reshape(32, 8).astype(np.float64)
    wanted = rows.copy()
    wanted[at[:, 0]] = change(rows[:3])
    return wanted.reshape(cache.shape)


OVERLAPS_AT = at_levels((name,) for name in OVERLAPS)


@cache
def _overlaps(level: str) -> bytes:
    texts = {
        symbol(name): f"""
func.func @main(%cache: tensor<2x16x8xf32>, %at: tensor<3x1xi64>) -> tensor<2x16x8xf32> {{{body}
  return %r : tensor<2x16x8xf32>
}}
"""
        for name, (body, _) in OVERLAPS.items()
        if (name, level) in OVERLAPS_AT
    }
    return _compiled(texts, level)[0]


@pytest.mark.parametrize(("name", "level"), OVERLAPS_AT)
def test_a_tensor_is_written_with_what_was_in_it(name: str, level: str) -> None:
    _, wanted = OVERLAPS[name]
    cache = np.random.default_rng(1).standard_normal((2, 16, 8)).astype(np.float32)
    at = np.array([[1], [2], [3]])
    got = run_module(_overlaps(level), [cache, at], symbol(name))
    np.testing.assert_allclose(got, wanted(cache, at), rtol=1e-6, atol=1e-6)


@dataclass(frozen=True)
class JaxWrite:
    """A `stablehlo.scatter`, as JAX lowers it, with the shapes of the cache, the indices and the
    new rows, the dims that it names, and what numpy makes of it."""

    cache: tuple[int, ...]
    at: np.ndarray
    new: tuple[int, ...]
    dims: str
    wanted: Any
    adds: bool = False

    def text(self) -> str:
        shapes = (self.cache, self.at.shape, self.new)
        sizes = ["x".join(map(str, shape)) for shape in shapes]
        cache, new = f"tensor<{sizes[0]}xf32>", f"tensor<{sizes[2]}xf32>"
        at = f"tensor<{sizes[1]}xi32>"
        body = "%sum = stablehlo.add %old, %one : tensor<f32>\n    " if self.adds else ""
        return f"""
func.func @main(%cache: {cache}, %new: {new}, %at: {at}) -> {cache} {{
  %r = "stablehlo.scatter"(%cache, %at, %new) <{{indices_are_sorted = false,
      scatter_dimension_numbers = #stablehlo.scatter<{self.dims}, index_vector_dim = 1>,
      unique_indices = false}}> ({{
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    {body}stablehlo.return {"%sum" if self.adds else "%one"} : tensor<f32>
  }}) : ({cache}, {at}, {new}) -> {cache}
  return %r : {cache}
}}
"""


def _set_heads(cache: np.ndarray, new: np.ndarray, at: np.ndarray) -> None:
    for row, place in enumerate(at[:, 0]):
        if 0 <= place < cache.shape[2]:
            cache[:, :, place] = new[:, :, row]


def _add_rows(cache: np.ndarray, new: np.ndarray, at: np.ndarray) -> None:
    for row, place in enumerate(at[:, 0]):
        if 0 <= place < len(cache):
            cache[place] += new[row]


def _set_windows(cache: np.ndarray, new: np.ndarray, at: np.ndarray) -> None:
    for batch, (head, place) in enumerate(at):
        if 0 <= place <= cache.shape[2] - 2 and head == 0:
            cache[batch, :, place : place + 2] = new[batch]


JAX_WRITES = {
    # `cache.at[:, :, at].set(new)`: one is outside, and one before the first.
    "heads first": JaxWrite(
        (2, 3, 16, 8),
        np.array([[1], [100], [-1], [15]]),
        (2, 3, 4, 8),
        "update_window_dims = [0, 1, 3], inserted_window_dims = [2], "
        "scatter_dims_to_operand_dims = [2]",
        _set_heads,
    ),
    # `table.at[at].add(new)`: two meet.
    "added": JaxWrite(
        (16, 8),
        np.array([[3], [3], [16], [0]]),
        (4, 8),
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]",
        _add_rows,
        adds=True,
    ),
    # More rows than their indices and mask fit on IREE's stack.
    "many added": JaxWrite(
        (4096, 4),
        np.arange(4096)[::-1, None] - 7,
        (4096, 4),
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]",
        _add_rows,
        adds=True,
    ),
    # `vmap` over sequences of windows of two rows; that of the second ends outside.
    "windows": JaxWrite(
        (3, 3, 16, 8),
        np.array([[0, 4], [0, 15], [0, 14]]),
        (3, 3, 2, 8),
        "update_window_dims = [1, 2, 3], input_batching_dims = [0], "
        "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1, 2]",
        _set_windows,
    ),
}


JAX_WRITES_AT = at_levels(((name,) for name in JAX_WRITES), ("O0", "O2"))


@cache
def _jax_writes(level: str) -> tuple[bytes, Report]:
    here = [name for name, one in JAX_WRITES_AT if one == level]
    texts = {symbol(name): JAX_WRITES[name].text() for name in here}
    return _compiled(texts, level, input_type="stablehlo")


@pytest.mark.parametrize(("name", "level"), JAX_WRITES_AT)
def test_jax_leaves_out_what_lies_outside(name: str, level: str) -> None:
    write, function = JAX_WRITES[name], symbol(name)
    program, report = _jax_writes(level)
    assert any("what lies outside" in reason for reason in _reasons(report, "repaired", function))
    rng = np.random.default_rng(0)
    cache, new = (
        rng.standard_normal(shape).astype(np.float32) for shape in (write.cache, write.new)
    )
    at = write.at.astype(np.int32)
    got = run_module(program, [cache, new, at], function)
    write.wanted(cache, new, at)
    np.testing.assert_allclose(got, cache, rtol=1e-6)
