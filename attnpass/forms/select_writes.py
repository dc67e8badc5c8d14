"""attn-select-writes: a few elements of each row that are written by index are chosen in a loop."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..ir import defining_op, full_name, known_attribute
from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import TorchBuilder, constant_number
from ..passes import OpPass

_SOURCE, _VALUE, _ADD = (
    f"torch.aten.{name}" for name in ("scatter.src", "scatter.value", "scatter_add")
)
_EXPAND = "torch.aten.expand"
_OPERATOR, _ONNX = "torch.operator", ("onnx.ScatterElements", "onnx.Scatter")
_TENSOR, _DIM, _INDEX, _NEW = range(4)
_ONNX_INDEX, _ONNX_NEW = 1, 2
# More writes to a row, or longer rows, are more work than a scatter's.
_MOST_WRITES, _LONGEST_ROW = 16, 1024
# Ops whose results have the sizes of their first operands.
_SAME_SIZES = (
    *("zeros_like", "full_like", "ones_like", "softmax.int", "_softmax", "sigmoid", "clone"),
    *("div.Scalar", "mul.Scalar", "add.Scalar", "to.dtype", "neg", "exp", "contiguous"),
    *("prims.convert_element_type", "where.ScalarSelf"),
)
_TOPK, _SIZE = "torch.aten.topk", "torch.aten.size.int"
_FULL = ("torch.aten.zeros", "torch.aten.ones", "torch.aten.full", "torch.aten.empty.memory_format")


class SelectWrites(OpPass):
    """Makes a scatter along one dim, of up to 16 elements a row of up to 1024, a choice of each
    element of the tensor:

        result[r, e] = new[r, j] for the last j with index[r, j] == e, else tensor[r, e]

    A sum in place of the choice for `scatter_add`. So routers spread the weights of the experts
    that they have chosen. IREE 3.13 makes a table of an index for each dim and element, and has
    one thread of a GPU write one element after the other (183 us for two of 8 experts of 1024
    tokens on an H200).

    Where torch's index is one number for all that lies behind the dim (`index[:, None].expand(n,
    w)`), whole rows are written, and it becomes a write of rows (`index_put`). Works on ops of
    torch and ONNX, before IREE imports them.
    """

    name = "attn-select-writes"
    summary = "few writes to a row are choices"
    why = "IREE writes by index in one thread, one element after the other"
    phase = "start"

    what = "fitted"
    erases = True

    def wanted(self, op: ir.Operation) -> bool:
        return full_name(op) in (_SOURCE, _VALUE, _ADD, *_ONNX)

    def change(self, op: ir.Operation) -> str:
        writes = _onnx_writes(op) if op.name == _OPERATOR else _writes(op)
        if writes is None:
            return ""
        if not _is_cheap(writes):
            rows = _of_rows(op, writes)
            if rows is None:
                return ""
            op.results[0].replace_all_uses_with(rows)
            return "writes rows by one index each in place of their elements"
        op.results[0].replace_all_uses_with(_selected(op, writes))
        return str(writes)


@dataclass(frozen=True)
class _RowWrites:
    """`new` (a tensor or a number) is written to `tensor`, or added, at `index` along `dim`."""

    tensor: ir.Value
    dim: int
    index: ir.Value
    new: ir.Value
    adds: bool
    may_be_negative: bool = False

    def __str__(self) -> str:
        length, count = (torch_shape(one.type)[self.dim] for one in (self.tensor, self.index))
        return f"chooses each of {length} elements of a row among {count} that are written"


def _writes(op: ir.Operation) -> _RowWrites | None:
    tensor, index, new = (op.operands[place] for place in (_TENSOR, _INDEX, _NEW))
    dim = constant_number(op.operands[_DIM])
    if not isinstance(dim, int):
        return None
    rank = len(torch_shape(tensor.type))
    return _RowWrites(tensor, dim % max(rank, 1), index, new, op.name == _ADD)


def _onnx_writes(op: ir.Operation) -> _RowWrites | None:
    axis = known_attribute(op, "torch.onnx.axis")
    reduction = known_attribute(op, "torch.onnx.reduction")
    way = "none" if reduction is None else ir.StringAttr(reduction).value
    if way not in ("none", "add"):
        return None
    tensor, index, new = (op.operands[place] for place in (_TENSOR, _ONNX_INDEX, _ONNX_NEW))
    dim = 0 if axis is None else ir.IntegerAttr(axis).value
    rank = len(torch_shape(tensor.type))
    return _RowWrites(tensor, dim % max(rank, 1), index, new, way == "add", may_be_negative=True)


def _of_rows(op: ir.Operation, writes: _RowWrites) -> ir.Value | None:
    """The tensor with rows that are written, or added, by one index each; None where the index is
    not known to be repeated along whole rows."""
    made, dim, new = defining_op(writes.index, _EXPAND), writes.dim, writes.new
    full, shape = torch_shape(writes.tensor.type), torch_shape(writes.index.type)
    if made is None or op.name == _OPERATOR or len(shape) != len(full):
        return None
    index, given = made.operands[0], torch_shape(new.type) if torch_element(new.type) else []
    rows, row = shape[: dim + 1], shape[dim + 1 :]
    known = None not in (*rows[:dim], *row)
    whole = row == full[dim + 1 :] == given[dim + 1 :] and given[:dim] == rows[:dim]
    if not (known and row and whole) or torch_shape(index.type) != [*rows, *[1] * len(row)]:
        return None
    build = TorchBuilder(op)
    for last in reversed(range(dim + 1, len(shape))):
        index = build.squeezed(index, last)
    if torch_element(index.type) != "si64":
        index = build.wide(index)
    if given[dim] != rows[dim] or rows[dim] is None:
        kind = torch_tensor(shape, torch_element(new.type))
        bounds = [build.number(x) for x in (dim, 0)]
        size = build.size_of(index, dim)
        new = build.op("aten.slice.Tensor", kind, new, *bounds, size, build.number(1))
    before = [build.places(index, one) for one in range(dim)]
    units = [build.with_units(value, 0, dim - one) for one, value in enumerate(before)]
    indices = build.listed([*units, index], "optional<vtensor>")
    operands = (writes.tensor, indices, new, build.truth(writes.adds))
    return build.op("aten.index_put", op.results[0].type, *operands)


def _is_cheap(writes: _RowWrites) -> bool:
    """Whether few elements are written to short rows, and some to each."""
    tensor, index = torch_shape(writes.tensor.type), torch_shape(writes.index.type)
    if not tensor or len(index) != len(tensor):
        return False
    new = torch_shape(writes.new.type)
    if torch_element(writes.new.type) and new != index:
        return False
    count, length = index[writes.dim], tensor[writes.dim]
    if count is None or length is None or count > _MOST_WRITES or length > _LONGEST_ROW:
        return False
    others = [dim for dim in range(len(tensor)) if dim != writes.dim]
    return all(_same_size(writes.tensor, writes.index, dim) for dim in others)


def _same_size(one: ir.Value, other: ir.Value, dim: int) -> bool:
    """Whether two tensors are as long along a dim."""
    sizes = [torch_shape(value.type)[dim] for value in (one, other)]
    if None not in sizes:
        return sizes[0] == sizes[1]
    return sizes[0] == sizes[1] and _length(one, dim) == _length(other, dim)


def _length(value: ir.Value, dim: int) -> object:
    """What says how long a tensor is along a dim: another one and its dim, or a number."""
    op = defining_op(value)
    if op is None:
        return value, dim
    name = op.name.removeprefix("torch.").removeprefix("aten.")
    if name in _SAME_SIZES:
        return _length(op.operands[0 if name != "where.ScalarSelf" else 2], dim)
    if op.name == _TOPK and torch_shape(op.operands[0].type)[dim] is None:
        return _length(op.operands[0], dim)
    if op.name in _FULL and (sizes := defining_op(op.operands[0])) is not None:
        size = defining_op(sizes.operands[dim], _SIZE)
        if size is None:
            return sizes.operands[dim]
        place = constant_number(size.operands[1])
        if isinstance(place, int):
            return _length(size.operands[0], place)
    return value, dim


def _selected(op: ir.Operation, writes: _RowWrites) -> ir.Value:
    """The tensor with what is written to it, element by element."""
    build, dim = TorchBuilder(op), writes.dim
    shape, kind = torch_shape(writes.tensor.type), op.results[0].type
    index = writes.index
    if torch_element(index.type) != "si64":
        index = build.wide(index)
    if writes.may_be_negative:
        index = build.from_start(index, writes.tensor, dim)
    places = build.with_units(build.places(writes.tensor, dim), 0, len(shape) - 1 - dim)
    result, truths = writes.tensor, torch_tensor(shape, "i1")
    for number in range(torch_shape(index.type)[dim] or 0):
        here = build.op("aten.eq.Tensor", truths, build.element_of(index, dim, number), places)
        if not torch_element(writes.new.type):
            result = build.op("aten.where.ScalarSelf", kind, here, writes.new, result)
            continue
        new = build.element_of(writes.new, dim, number)
        if writes.adds:
            new = build.op("aten.add.Tensor", kind, result, new, build.number(1))
        result = build.op("aten.where.self", kind, here, new, result)
    return result
