"""attn-plain-einsums: einsums as IREE 3.13's import takes them."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import defining_op
from ..ir.onnx_ops import is_onnx
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import CODES, TorchBuilder
from ..passes import OpPass

# Elements whose sums have their own type.
_ELEMENTS = {*CODES, "si64"}
_EQUATION, _EINSUM, _LIST = "torch.onnx.equation", "torch.aten.einsum", "torch.prim.ListConstruct"
Shape = Sequence[int | None]


class PlainEinsums(OpPass):
    """Makes other ops of PyTorch's and ONNX's einsums that IREE 3.13 does not import, or wrong.

    It joins all dims of a kind (those of both operands and the result, those that are summed, those
    of one operand), for which it takes unknown ones but the first for 1: of `bik,kn->bin` it
    refuses all batches but one, or computes of the first. It fails on dims that one operand has
    alone and that are summed, on diagonals, on equations that name no result, on dots that stand
    for no dims.

    1. Dots are dims with letters. Of each operand diagonals are taken, dims of one are dropped that
       are longer elsewhere, and dims are summed that it has alone.
    2. One operand is permuted then. Of three and more the first two are one, and so on.
    3. Two of the same dims are multiplied element by element, and summed up; so are two of which
       nothing is summed.
    4. Two with several unknown dims of a kind are a product of matrices, in batches of the shared
       dims, at most one of whose columns is unknown; else they are multiplied as in 3. Other
       products of two are einsums again.

    Works on a front end's ops, before IREE imports them.
    """

    name = "attn-plain-einsums"
    summary = "einsums of any sizes and dims"
    phase = "start"
    mends = "einsums that join dims of unknown sizes drop all but one"

    # What is left would still check its arguments.
    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        return op.name == _EINSUM or is_onnx(op, "Einsum")

    def change(self, op: ir.Operation) -> str:
        read = _read(op)
        if read is None:
            return ""
        equation, values = read
        shapes = [torch_shape(value.type) for value in values]
        spelled = _spelled(equation.replace(" ", ""), [len(shape) for shape in shapes])
        if spelled is None or torch_element(op.results[0].type) not in _ELEMENTS:
            return ""
        if not all(torch_element(value.type) for value in values):
            # Of no known rank.
            return ""
        *terms, result = spelled
        # Dots that stand for no dims it takes for letters.
        without = "..." in equation and not {*"".join(spelled)} - {*equation}
        if "->" in equation and not without and _is_imported_right(terms, result, shapes):
            return ""
        operands = [_Operand(*pair) for pair in zip(terms, values, strict=True)]
        made = _Einsum(TorchBuilder(op), op.results[0].type).of(operands, result)
        op.results[0].replace_all_uses_with(made)
        return "is made of other ops: IREE's import fails on it, or joins its unknown dims"


def _spelled(equation: str, ranks: Sequence[int]) -> list[str] | None:
    """The letters of all operands and of the result; None for equations that are none of these."""
    terms, arrow, result = equation.partition("->")
    named = terms.replace("...", "").replace(",", "")
    if not arrow:
        result = "..." * ("..." in terms)
        result += "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    free = [letter for letter in string.ascii_letters if letter not in named + result]
    words = terms.split(",")
    if len(words) != len(ranks):
        return None
    counts = [rank - len(word.replace("...", "")) for rank, word in zip(ranks, words, strict=True)]
    if any(
        count < 0 or (count and "..." not in word)
        for count, word in zip(counts, words, strict=True)
    ):
        return None
    # Dots stand for the last of the dims that any of them stands for.
    dots = "".join(free[: max(counts, default=0)])
    if len(dots) < max(counts, default=0):
        return None
    spelled = [
        word.replace("...", dots[len(dots) - count :])
        for word, count in zip(words, counts, strict=True)
    ]
    spelled.append(result.replace("...", dots))
    letters = {*"".join(spelled[:-1])}
    is_one = {*spelled[-1]} <= letters and len({*spelled[-1]}) == len(spelled[-1])
    return spelled if is_one and all(letter.isalpha() for letter in letters) else None


@dataclass(frozen=True)
class _Operand:
    """A tensor, and the letters of its dims."""

    term: str
    value: ir.Value

    @property
    def shape(self) -> Shape:
        return torch_shape(self.value.type)


def _read(op: ir.Operation) -> tuple[str, list[ir.Value]] | None:
    """An einsum's equation and its tensors; None where an op that is not known makes them."""
    if op.name != _EINSUM:
        return ir.StringAttr(op.attributes[_EQUATION]).value, list(op.operands)
    text = defining_op(op.operands[0], "torch.constant.str")
    tensors = defining_op(op.operands[1], _LIST)
    if text is None or tensors is None:
        return None
    return ir.StringAttr(text.attributes["value"]).value, list(tensors.operands)


def _is_imported_right(terms: Sequence[str], result: str, shapes: Sequence[Shape]) -> bool:
    """Whether IREE imports an einsum of two tensors as it is."""
    if len(terms) != 2 or any(len({*term}) < len(term) for term in (*terms, result)):
        return False
    one, other = terms
    letters = {*one, *other}
    if {*one} == {*other} or letters == {*result}:
        return False
    if any((one + other + result).count(letter) < 2 for letter in letters):
        return False
    sizes: dict[str, set[int | None]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes.setdefault(letter, set()).add(size)
    if any(1 in found and len(found) > 1 for found in sizes.values()):
        return False
    return all(sum(None in sizes[x] for x in kind) < 2 for kind in _kinds(one, other, result))


def _kinds(one: str, other: str, result: str) -> tuple[str, str, str, str]:
    """The letters of both and of the result, of the first, of the second, and those summed."""
    return (
        "".join(x for x in result if x in one and x in other),
        "".join(x for x in result if x not in other),
        "".join(x for x in result if x not in one),
        "".join(x for x in one if x not in result),
    )


@dataclass(frozen=True)
class _Einsum:
    """Builds what an einsum is made of, of elements of a type."""

    build: TorchBuilder
    kind: ir.Type

    def of(self, operands: Sequence[_Operand], result: str) -> ir.Value:
        """A tensor with the dims `result`."""
        given = list(operands)
        for place in range(len(given)):
            others = given[:place] + given[place + 1 :]
            given[place] = self._alone(given[place], others, result)
        while len(given) > 2:
            needed = {*result}.union(*(one.term for one in given[2:]))
            made = "".join(sorted({*given[0].term, *given[1].term} & needed))
            given = [_Operand(made, self._pair(given[0], given[1], made)), *given[2:]]
        first, *other = given
        value = self._pair(first, other[0], result) if other else self._permuted(first, result)
        shape = torch_shape(self.kind)
        if torch_shape(value.type) != shape:
            value = self.build.op("tensor_static_info_cast", self.kind, value)
        return value

    def _alone(self, one: _Operand, others: Sequence[_Operand], result: str) -> _Operand:
        """An operand without what it has of its own: diagonals, sums, dims that are repeated."""
        for letter in sorted({*one.term}):
            while one.term.count(letter) > 1:
                one = self._diagonal(one, letter)
        wide = {
            letter
            for other in others
            for letter, size in zip(other.term, other.shape, strict=True)
            if size != 1
        }
        places = [
            at
            for at, (letter, size) in enumerate(zip(one.term, one.shape, strict=True))
            if size == 1 and letter in wide
        ]
        for at in reversed(places):
            one = self._without_unit(one, at)
        kept = result + "".join(other.term for other in others)
        alone = [at for at, letter in enumerate(one.term) if letter not in kept]
        return self._summed(one, alone) if alone else one

    def _pair(self, one: _Operand, other: _Operand, result: str) -> ir.Value:
        letters, sizes = {*one.term, *other.term}, self._sizes(one, other)
        if {*one.term} == {*other.term} or letters == {*result}:
            return self._multiplied(one, other, result)
        if _is_imported_right([one.term, other.term], result, [one.shape, other.shape]):
            return self._again(one, other, result)
        # No reshape finds two unknown columns; rows stay apart.
        for left, right in ((one, other), (other, one)):
            columns = _kinds(left.term, right.term, result)[2]
            if sum(sizes[letter] is None for letter in columns) < 2:
                return self._product(left, right, result)
        return self._multiplied(one, other, result)

    def _multiplied(self, one: _Operand, other: _Operand, result: str) -> ir.Value:
        """Element by element, and summed up."""
        order = result + "".join(sorted({*one.term, *other.term} - {*result}))
        values = [self._along(each, order) for each in (one, other)]
        sizes = self._sizes(one, other)
        kind = self._type([sizes[letter] for letter in order])
        product = _Operand(order, self.build.op("aten.mul.Tensor", kind, *values))
        return self._summed(product, range(len(result), len(order))).value

    def _again(self, one: _Operand, other: _Operand, result: str) -> ir.Value:
        build, sizes = self.build, self._sizes(one, other)
        text = build.word(f"{one.term},{other.term}->{result}")
        both = build.listed([one.value, other.value], "vtensor")
        kind = self._type([sizes[letter] for letter in result])
        return build.op("aten.einsum", kind, text, both, build.none())

    def _product(self, one: _Operand, other: _Operand, result: str) -> ir.Value:
        """A product of matrices: shared dims and rows stay apart, columns are one dim, and so are
        those that are summed."""
        shared, rows, columns, summed = _kinds(one.term, other.term, result)
        sizes = self._sizes(one, other)
        # In front of several rows the other operand has dims of one.
        units = max(len(rows) - 1, 0) if shared else 0
        left = self._permuted(one, shared + rows + summed)
        right = self._permuted(other, shared + summed + columns)
        left = self._joined(left, [*shared, *(rows or [""]), summed])
        right = self._joined(right, [*shared, *[""] * units, summed, columns])
        before = [sizes[letter] for letter in shared]
        shape = [*before, *torch_shape(left.type)[len(shared) : -1], torch_shape(right.type)[-1]]
        value = self.build.op("aten.matmul", self._type(shape), left, right)
        made = _Operand(shared + (rows or " ") + (columns[:1] or "."), value)
        for unit in " .":
            if unit in made.term:
                made = self._without_unit(made, made.term.index(unit))
        if len(columns) > 1:
            value = self._split(made.value, [sizes[letter] for letter in columns])
            made = _Operand(shared + rows + columns, value)
        return self._permuted(made, result)

    def _joined(self, value: ir.Value, kinds: Sequence[str]) -> ir.Value:
        """A tensor with one dim for the letters of each kind, where it had one for each letter."""
        for at, kind in enumerate(kinds):
            shape = torch_shape(value.type)
            if not kind:
                value = self.build.unsqueezed(value, at)
            elif len(kind) > 1:
                end = at + len(kind)
                size = None if None in shape[at:end] else math.prod(x or 0 for x in shape[at:end])
                wanted = self._type([*shape[:at], size, *shape[end:]])
                places = [self.build.number(number) for number in (at, end - 1)]
                value = self.build.op("aten.flatten.using_ints", wanted, value, *places)
        return value

    def _split(self, value: ir.Value, sizes: Sequence[int | None]) -> ir.Value:
        """A tensor with its last dim as dims of these sizes, one of which may be unknown."""
        before, build = torch_shape(value.type)[:-1], self.build
        numbers = [build.size_of(value, at) for at in range(len(before))]
        numbers += [build.number(-1 if size is None else size) for size in sizes]
        return build.op("aten.view", self._type([*before, *sizes]), value, build.listed(numbers))

    def _sizes(self, one: _Operand, other: _Operand) -> dict[str, int | None]:
        """The sizes of letters; one that an operand leaves open is that of the other."""
        sizes: dict[str, int | None] = {}
        for each in (one, other):
            for letter, size in zip(each.term, each.shape, strict=True):
                sizes[letter] = size if sizes.get(letter) in (None, 1) else sizes[letter]
        return sizes

    def _diagonal(self, one: _Operand, letter: str) -> _Operand:
        first = one.term.index(letter)
        second = one.term.index(letter, first + 1)
        numbers = [self.build.number(number) for number in (0, first, second)]
        places = [at for at in range(len(one.term)) if at not in (first, second)]
        size = one.shape[second] if one.shape[first] is None else one.shape[first]
        kind = self._type([*(one.shape[at] for at in places), size])
        value = self.build.op("aten.diagonal", kind, one.value, *numbers)
        return _Operand("".join(one.term[at] for at in places) + letter, value)

    def _without_unit(self, one: _Operand, at: int) -> _Operand:
        return _Operand(one.term[:at] + one.term[at + 1 :], self.build.squeezed(one.value, at))

    def _summed(self, one: _Operand, dims: Sequence[int]) -> _Operand:
        if not dims:
            return one
        build, kept = self.build, [at for at in range(len(one.term)) if at not in dims]
        kind = self._type([one.shape[at] for at in kept])
        listed = build.numbers(*dims)
        code = CODES.get(torch_element(self.kind), 0)
        none = build.none()
        kept_type = build.number(code) if code == CODES["si64"] else none
        made = build.op(
            "aten.sum.dim_IntList", kind, one.value, listed, build.truth(False), kept_type
        )
        return _Operand("".join(one.term[at] for at in kept), made)

    def _permuted(self, one: _Operand, order: str) -> ir.Value:
        places = [one.term.index(letter) for letter in order]
        if places == [*range(len(places))]:
            return one.value
        kind = self._type([one.shape[at] for at in places])
        return self.build.op("aten.permute", kind, one.value, self.build.numbers(*places))

    def _along(self, one: _Operand, order: str) -> ir.Value:
        """A tensor with its dims in this order, and one of size one for each that it lacks."""
        value = self._permuted(one, "".join(letter for letter in order if letter in one.term))
        for at, letter in enumerate(order):
            if letter not in one.term:
                value = self.build.unsqueezed(value, at)
        return value

    def _type(self, sizes: Iterable[int | None]) -> ir.Type:
        return torch_tensor([*sizes], torch_element(self.kind))
