"""attn-plain-indices: PyTorch's reads and writes by index in the forms that IREE imports right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from iree.compiler import ir

from ..ir import Builder, below_ops, defining_op
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_READ = "torch.aten.index.Tensor"
_WRITES = ("torch.aten.index_put", "torch.aten._index_put_impl")
_WRITES_ONE = "torch.aten.select_scatter"
# Writes of elements by an index each, the operand _ELEMENTS.
_WRITES_ELEMENTS = tuple(
    f"torch.aten.{name}"
    for name in (
        *("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce"),
        *("scatter_add", "scatter_reduce.two"),
    )
)
# What the import has no name for, and of those that write whether they add.
_UNNAMED = "torch.operator"
_WRITES_ROWS = {"torch.aten.index_copy": False, "torch.aten.index_add": True}
_LIST = "torch.prim.ListConstruct"
_BELOW = "torch.aten.lt.Scalar"
_TENSOR, _INDICES, _NEW = 0, 1, 2
# Of a write at one place of a dim.
_DIM, _PLACE = 2, 3
_ELEMENTS = 2
# What keeps places as they are.
_VIEWS = ("torch.aten.unsqueeze", "torch.aten.expand", "torch.aten.flatten.using_ints")
# Ops whose last result has places of elements.
_PLACES = tuple(
    f"torch.aten.{name}"
    for name in ("arange", "sort", "sort.stable", "argsort", "topk", "argmax", "argmin")
)


class PlainIndices(OpPass):
    """Gives `tensor[indices]` and `tensor[indices] = new` indices of 64 bits, and in writes none
    that is negative and none for dims on both sides of one without: that dim gets indices, too.

    IREE 3.13 has no program for indices of 32 bits, nor for writes with dims between the indexed
    ones, as a cache with a position for each sequence is written (`cache[batch, :, position]`).
    A negative position, which PyTorch counts from the end, it takes as it is: other rows change,
    or memory that is not the tensor's. A write at the last place, -1, of a dim (`x[-1] = new`) it
    takes for one of what stands between -1 and 0, and writes nothing. It has no name for
    `index_copy`, as static caches are written, and `index_add`, which are writes, too. It divides
    by the number of indices, and crashes where a write has none: that is what it writes to. Reads
    by several indices that share an unknown size (`bias[rows, keys]`) it has no program for: they
    are reads by one, of these dims as one. Of writes by indices of several unknown sizes
    (`pages[page, place]`, of any batch and length) it takes all of these but one for 1, and writes
    what lies elsewhere in memory: such indices have one dim. Works on the torch dialect, before
    IREE imports it. Nothing is changed beside masks of bools, each of which addresses several dims.
    """

    name = "attn-plain-indices"
    summary = "PyTorch's reads and writes by index are imported right"
    why = "the import takes negative positions as they are, and has no program for some indices"
    ops = (_READ, *_WRITES, _WRITES_ONE, *_WRITES_ELEMENTS, _UNNAMED)
    phase = "start"
    mends = "writes by negative positions change other rows"

    erases = True

    def change(self, op: ir.Operation) -> str:
        if op.name == _WRITES_ONE:
            return _from_start(op)
        if op.name == _UNNAMED:
            return _as_write(op)
        if op.name in _WRITES_ELEMENTS:
            return _unwritten(op, [op.operands[_ELEMENTS]])
        made = defining_op(op.operands[_INDICES], _LIST)
        if made is None or not torch_element(op.operands[_TENSOR].type):
            return ""
        old = list(made.operands)
        if any(torch_element(index.type) == "i1" for index in old):
            return ""
        if op.name in _WRITES and (reason := _unwritten(op, old)):
            return reason
        new, reasons = _plain(op, old)
        if op.name in _WRITES and _have_unknown_sizes(new):
            new = _Build(op).in_a_row(op, new)
            reasons.append("its indices are in one dim: they have several unknown sizes")
        if reasons:
            kind = made.results[0].type
            op.operands[_INDICES] = Builder(op).create(_LIST, [kind], new).results[0]
        return "; ".join(reasons)


def _unwritten(op: ir.Operation, indices: Sequence[ir.Value]) -> str:
    """Has a write by indices of which there are none be what it writes to."""
    tensor = op.operands[_TENSOR]
    given = [torch_shape(index.type) for index in indices if torch_element(index.type)]
    if not any(0 in shape for shape in given) or op.results[0].type != tensor.type:
        return ""
    op.results[0].replace_all_uses_with(tensor)
    return "is what it writes to: it has no index"


def _as_write(op: ir.Operation) -> str:
    """Makes a write of rows along a dim, at one place or those of a tensor of one dim, one by
    indices."""
    adds = _WRITES_ROWS.get(ir.StringAttr(op.attributes["name"]).value)
    if adds is None:
        return ""
    tensor, along, index, new, *factor = op.operands
    dim, rank = constant_number(along), len(torch_shape(tensor.type))
    if not isinstance(dim, int) or not rank or len(torch_shape(index.type)) > 1:
        return ""
    if not torch_element(index.type) or not torch_element(new.type):
        return ""
    if reason := _unwritten(op, [index]):
        return reason
    build = _Build(op)
    for number in factor:
        if constant_number(number) != 1:
            new = build.op("aten.mul.Scalar", new.type, new, number)
    none = build.none()
    index = build.with_units(build.wide(index), 1 - len(torch_shape(index.type)), 0)
    places = [*[none] * (dim % rank), index]
    places, _ = _plain(op, places)
    places = build.listed(places, "optional<vtensor>")
    truth, kind = build.truth(adds), op.results[0].type
    written = build.op("aten.index_put", kind, tensor, places, new, truth)
    op.results[0].replace_all_uses_with(written)
    return "is a write by indices, which IREE's import knows"


def _from_start(op: ir.Operation) -> str:
    """Gives a write at one known place of a dim that place as counted from the start."""
    dim, place = (constant_number(op.operands[number]) for number in (_DIM, _PLACE))
    shape = torch_shape(op.operands[_TENSOR].type)
    if not isinstance(dim, int) or not isinstance(place, int) or place >= 0 or not shape:
        return ""
    build, dim = TorchBuilder(op), dim % len(shape)
    size, kind = shape[dim], op.operands[_PLACE].type
    if size is not None:
        op.operands[_PLACE] = build.number(size + place)
    else:
        whole = build.size_of(op.operands[_TENSOR], dim)
        op.operands[_PLACE] = build.op("aten.add.int", kind, whole, build.number(place))
    return "its place counts from the start: of the last IREE writes nothing"


def _plain(op: ir.Operation, indices: list[ir.Value]) -> tuple[list[ir.Value], list[str]]:
    """Indices for the same elements, and what is other about them."""
    build, tensor, reasons = _Build(op), op.operands[_TENSOR], []
    given = [dim for dim, index in enumerate(indices) if torch_element(index.type)]
    if any(torch_element(indices[dim].type) != "si64" for dim in given):
        indices = [build.wide(index) if torch_element(index.type) else index for index in indices]
        reasons.append("its indices have 64 bits now")
    if op.name == _READ and _share_unknown_sizes([indices[dim] for dim in given]):
        reasons.append("its indices are one, of the indexed dims as one: they share unknown sizes")
        return build.joined(op, indices, given), reasons
    if op.name == _READ or not given:
        return indices, reasons
    if any(_may_be_negative(indices[dim]) for dim in given):
        indices = list(indices)
        for dim in given:
            indices[dim] = build.from_start(indices[dim], tensor, dim)
        reasons.append("its negative positions count from the end")
    if given[-1] - given[0] >= len(given):
        indices = build.with_dims_between(indices, given, tensor)
        reasons.append("it has indices for the dims between, too")
    return indices, reasons


def _share_unknown_sizes(indices: Sequence[ir.Value]) -> bool:
    """Whether two indices of known ranks have a dim of unknown size at the same place."""
    shapes = [torch_shape(index.type)[::-1] for index in indices]
    places = [place for shape in shapes for place, size in enumerate(shape) if size is None]
    return len({*places}) < len(places)


def _have_unknown_sizes(indices: Sequence[ir.Value]) -> bool:
    """Whether indices have together several dims of unknown sizes."""
    return _shared_shape([index for index in indices if torch_element(index.type)]).count(None) > 1


def _shared_shape(tensors: Sequence[ir.Value]) -> list[int | None]:
    """The sizes of the dims that tensors are broadcast to."""
    shapes = [torch_shape(each.type)[::-1] for each in tensors]
    return [_broadcast(sizes) for sizes in itertools.zip_longest(*shapes, fillvalue=1)][::-1]


def _may_be_negative(index: ir.Value) -> bool:
    """Whether an index may count from the end; one that counts from 0, is a place in an order, or
    was changed here, does not."""
    index = below_ops(index, *_VIEWS)
    op = defining_op(index)
    if op is None:
        return True
    if op.name in _PLACES and index == op.results[len(op.results) - 1]:
        return False
    if op.name != "torch.aten.where.self":
        return True
    below = defining_op(op.operands[0], _BELOW)
    return below is None or below.operands[0] != op.operands[2]


class _Build(TorchBuilder):
    """Makes indices."""

    def with_dims_between(
        self, indices: Sequence[ir.Value], given: Sequence[int], tensor: ir.Value
    ) -> list[ir.Value]:
        """Indices for all dims up to the last that has one. The dims of those that are given come
        first in what is written, so they come first in each, then one for each other dim."""
        rank = max(len(torch_shape(indices[dim].type)) for dim in given)
        others = [dim for dim in range(given[-1]) if dim not in given]
        found = []
        for dim in range(given[-1] + 1):
            index = indices[dim] if dim in given else self.places(tensor, dim)
            front = rank - len(torch_shape(index.type))
            if dim in others:
                front = rank + others.index(dim)
            index = self.with_units(index, front, 0)
            behind = rank + len(others) - len(torch_shape(index.type))
            found.append(self.with_units(index, 0, behind))
        return found

    def joined(
        self, op: ir.Operation, indices: Sequence[ir.Value], given: Sequence[int]
    ) -> list[ir.Value]:
        """One index for the dims that are `given`, which a read's tensor gets as one: where they
        stand, or in front, as the read has them, where others stand between."""
        tensor, first, last = op.operands[_TENSOR], given[0], given[-1]
        index = None
        for dim in given:
            at = indices[dim]
            at = self.from_start(at, tensor, dim) if _may_be_negative(at) else at
            index = at if index is None else self._behind(index, self.size_of(tensor, dim), at)
        shape = torch_shape(tensor.type)
        if last - first >= len(given):
            order = [*given, *(dim for dim in range(len(shape)) if dim not in given)]
            shape = [shape[dim] for dim in order]
            kind = torch_tensor(shape, torch_element(tensor.type))
            tensor = self.op("aten.permute", kind, tensor, self.numbers(*order))
            first, last = 0, len(given) - 1
        sizes = shape[first : last + 1]
        size = None if None in sizes else math.prod(size for size in sizes if size is not None)
        kind = torch_tensor([*shape[:first], size, *shape[last + 1 :]], torch_element(tensor.type))
        ends = self.number(first), self.number(last)
        op.operands[_TENSOR] = self.op("aten.flatten.using_ints", kind, tensor, *ends)
        assert index is not None
        return [*[self.none()] * first, index]

    def _behind(self, index: ir.Value, size: ir.Value, inner: ir.Value) -> ir.Value:
        """The place of an index and, in a dim of `size` behind its own, that of another."""
        outer = self.op("aten.mul.Scalar", index.type, index, size)
        kind = torch_tensor(_shared_shape([index, inner]), "si64")
        return self.op("aten.add.Tensor", kind, outer, inner, self.number(1))

    def in_a_row(self, op: ir.Operation, indices: Sequence[ir.Value]) -> list[ir.Value]:
        """The indices of a write, which are of dims side by side, and what it writes with one dim
        in the place of all that indices have."""
        tensor = op.operands[_TENSOR]
        given = [dim for dim, index in enumerate(indices) if torch_element(index.type)]
        first, shape = given[0], _shared_shape([indices[dim] for dim in given])
        sizes: list[ir.Value] = []
        for place in range(-len(shape), 0):
            shapes = [(indices[dim], [1, *torch_shape(indices[dim].type)]) for dim in given]
            widest = next(
                (each, len(known) - 1 + place)
                for each, known in shapes
                if shape[place] == 1 or (len(known) > -place and known[place] != 1)
            )
            sizes.append(self.number(1) if shape[place] == 1 else self.size_of(*widest))
        found = list(indices)
        for dim in given:
            found[dim] = self._flat(indices[dim], shape, sizes, 0, len(shape))
        rest = torch_shape(tensor.type)
        dims = [*range(first), *range(given[-1] + 1, len(rest))]
        whole = [rest[dim] for dim in dims]
        whole[first:first] = shape
        every = [self.size_of(tensor, dim) for dim in dims]
        every[first:first] = sizes
        op.operands[_NEW] = self._flat(op.operands[_NEW], whole, every, first, len(shape))
        return found

    def _flat(
        self,
        value: ir.Value,
        shape: Sequence[int | None],
        sizes: Sequence[ir.Value],
        first: int,
        count: int,
    ) -> ir.Value:
        """A tensor broadcast to `shape`, of these sizes, with `count` dims from a first as one."""
        value = self.with_units(value, len(shape) - len(torch_shape(value.type)), 0)
        element, have = torch_element(value.type), torch_shape(value.type)
        changed = [one == 1 and wanted != 1 for one, wanted in zip(have, shape, strict=True)]
        if any(changed):
            repeated = [
                size if change else self.number(-1)
                for size, change in zip(sizes, changed, strict=True)
            ]
            value = self.expanded(value, repeated, torch_tensor(shape, element))
        kind = torch_tensor([*shape[:first], None, *shape[first + count :]], element)
        ends = self.number(first), self.number(first + count - 1)
        return self.op("aten.flatten.using_ints", kind, value, *ends)


def _broadcast(sizes: Sequence[int | None]) -> int | None:
    """The size of what dims of these sizes make."""
    known = max((size for size in sizes if size is not None), default=1)
    return None if None in sizes and known == 1 else known
