"""attn-plain-einsums: ONNX's einsums of unknown sizes are MatMuls."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir.onnx_ops import OnnxBuilder, is_onnx
from ..ir.printed import torch_shape
from ..passes import OpPass

_EQUATION = "torch.onnx.equation"
Sizes = dict[str, int | None]


class PlainEinsums(OpPass):
    """Makes einsums of two tensors MatMuls between transposes, where IREE 3.13 imports them wrong.

    It joins all dims of a kind (those of both operands and the result, those that are summed, those
    of one operand), for which it takes unknown ones but the first for 1: of `bik,kn->bin` it
    refuses all batches but one, or computes of the first. An equation that names no result it does
    not import.

    1. Dots are dims with letters.
    2. Both operands are transposed to [shared, own, summed] and [shared, summed, own].
    3. Dims of one kind stay apart where MatMul takes them so: the shared ones, and the first
       operand's own. Others are joined, at most one of which is unknown.

    Stays: what has diagonals, or sums over dims of one operand. Works on ONNX's ops, before IREE
    imports them.
    """

    name = "attn-plain-einsums"
    summary = "ONNX's einsums of unknown sizes"
    phase = "start"
    mends = "einsums of ONNX that join dims of unknown sizes drop all but one"

    # What is left would still check its arguments.
    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        return is_onnx(op, "Einsum") and len(op.operands) == 2

    def change(self, op: ir.Operation) -> str:
        made = _as_product(op)
        if made is None:
            return ""
        op.results[0].replace_all_uses_with(made)
        return "is a MatMul: IREE's import joins unknown dims of an einsum"


def _as_product(op: ir.Operation) -> ir.Value | None:
    """What an einsum computes, by MatMul; None where IREE imports it right, or it cannot be."""
    equation = ir.StringAttr(op.attributes[_EQUATION]).value
    operands = list(op.operands)
    shapes = [torch_shape(operand.type) for operand in operands]
    spelled = _spelled(equation.replace(" ", ""), [len(shape) for shape in shapes])
    sizes = _sizes(spelled, shapes)
    for swapped in (False, True):
        product = _MatMul.of(spelled, sizes, swapped)
        if product is None or (product.is_imported_right() and "->" in equation):
            return None
        if product.can_be_built():
            return product.build(OnnxBuilder(op), operands[swapped], operands[not swapped])
    return None


def _spelled(equation: str, ranks: Sequence[int]) -> list[str]:
    """The letters of both operands and of the result; fewer for equations that are none."""
    terms, arrow, result = equation.partition("->")
    named = terms.replace("...", "").replace(",", "")
    if not arrow:
        result = "..." * ("..." in terms)
        result += "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    free = [letter for letter in string.ascii_letters if letter not in named + result]
    counts = [
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms.split(","), ranks, strict=False)
    ]
    # Dots stand for the last of the dims that any of them stands for.
    dots = "".join(free[: max(counts, default=0)])
    spelled = [
        term.replace("...", dots[len(dots) - count :])
        for term, count in zip(terms.split(","), counts, strict=False)
    ]
    return [*spelled, result.replace("...", dots)]


def _sizes(spelled: Sequence[str], shapes: Sequence[Sequence[int | None]]) -> Sizes:
    """The sizes of letters; one that an operand leaves open is that of the other."""
    sizes: Sizes = {}
    for term, shape in zip(spelled, shapes, strict=False):
        for letter, size in zip(term, shape, strict=False):
            sizes[letter] = size if sizes.get(letter) is None else sizes[letter]
    return sizes


@dataclass(frozen=True)
class _MatMul:
    """An einsum of two operands as a MatMul: the letters of both, of the result and of each kind of
    dim, in the order in which they are joined."""

    one: str
    other: str
    result: str
    shared: str
    rows: str
    columns: str
    summed: str
    sizes: Sizes

    @staticmethod
    def of(spelled: Sequence[str], sizes: Sizes, swapped: bool) -> _MatMul | None:
        """None where a letter stands twice in a term, or in one operand alone."""
        if len(spelled) != 3:
            return None
        one, other, result = spelled
        if swapped:
            one, other = other, one
        every = one + other + result
        if any(len(set(term)) < len(term) for term in spelled):
            return None
        if any(not letter.isalpha() or every.count(letter) < 2 for letter in every):
            return None
        shared = "".join(x for x in result if x in one and x in other)
        rows = "".join(x for x in result if x not in other)
        columns = "".join(x for x in result if x not in one)
        summed = "".join(x for x in one if x not in result)
        return _MatMul(one, other, result, shared, rows, columns, summed, sizes)

    def is_imported_right(self) -> bool:
        kinds = (self.shared, self.rows, self.columns, self.summed)
        return all(self._unknown(letters) < 2 for letters in kinds)

    def can_be_built(self) -> bool:
        """Whether no reshape has to find two unknown sizes."""
        columns, summed = self._unknown(self.columns), self._unknown(self.summed)
        return columns < 2 and summed < 2 and (len(self.summed) == 1 or columns + summed < 2)

    def build(self, build: OnnxBuilder, one: ir.Value, other: ir.Value) -> ir.Value:
        shared, rows = len(self.shared), len(self.rows)
        one = self._ordered(build, one, self.one, self.shared + self.rows + self.summed)
        other = self._ordered(build, other, self.other, self.shared + self.summed + self.columns)
        if len(self.summed) != 1:
            one = build.onnx_regrouped(one, shared + rows, len(self.summed), [self._size("summed")])
        if len(self.columns) != 1:
            place, count = shared + len(self.summed), len(self.columns)
            other = build.onnx_regrouped(other, place, count, [self._size("columns")])
        if len(self.summed) != 1:
            other = build.onnx_regrouped(other, shared, len(self.summed), [self._size("summed")])
        if not rows:
            one = build.onnx_with_units(one, shared, 1)
        if shared:
            other = build.onnx_with_units(other, shared, max(rows - 1, 0))
        columns = self._size("columns")
        sizes = [*(self.sizes[x] for x in self.shared + self.rows), *[1] * (not rows), columns]
        value = build.onnx("MatMul", [one, other], sizes)
        if not rows:
            value = build.onnx_without_unit(value, shared)
        if not self.columns:
            value = build.onnx_without_unit(value, shared + rows)
        elif len(self.columns) > 1:
            after = [self.sizes[letter] for letter in self.columns]
            value = build.onnx_regrouped(value, shared + rows, 1, after)
        return self._ordered(build, value, self.shared + self.rows + self.columns, self.result)

    def _ordered(self, build: OnnxBuilder, value: ir.Value, have: str, want: str) -> ir.Value:
        return build.onnx_transpose(value, [have.index(letter) for letter in want])

    def _size(self, kind: str) -> int | None:
        """Of all dims of a kind, joined."""
        sizes = [self.sizes[letter] for letter in getattr(self, kind)]
        return None if None in sizes else math.prod(size or 0 for size in sizes)

    def _unknown(self, letters: Iterable[str]) -> int:
        return sum(self.sizes[letter] is None for letter in letters)
