"""New ops of the torch dialect."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from .builder import Builder
from .printed import torch_element, torch_shape, torch_tensor, with_torch_element
from .queries import defining_op

# What torch calls the types of elements, as numbers.
CODES = {"ui8": 0, "si8": 1, "si16": 2, "si32": 3, "si64": 4}
CODES |= {"f16": 5, "f32": 6, "f64": 7, "bf16": 15}


def constant_number(value: ir.Value) -> int | float | None:
    """The number that a `torch.constant.int` or a `torch.constant.float` is."""
    op = defining_op(value, "torch.constant.int", "torch.constant.float")
    if op is None:
        return None
    number = op.attributes["value"]
    return ir.IntegerAttr(number).value if "int" in op.name else ir.FloatAttr(number).value


def constant_truth(value: ir.Value) -> bool | None:
    """The truth that a `torch.constant.bool` is."""
    op = defining_op(value, "torch.constant.bool")
    if op is None:
        return None
    return bool(ir.BoolAttr(op.attributes["value"]).value)


class TorchBuilder(Builder):
    """`Builder` for ops of torch on tensors."""

    def op(self, name: str, kind: ir.Type, *operands: ir.Value) -> ir.Value:
        """`torch.<name>` with one result of type `kind`."""
        return self.create(f"torch.{name}", [kind], operands).results[0]

    def number(self, number: int) -> ir.Value:
        value = {"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)}
        return self.create("torch.constant.int", [self._whole], [], value).results[0]

    def real(self, number: float) -> ir.Value:
        value = {"value": ir.FloatAttr.get_f64(number)}
        kind = ir.Type.parse("!torch.float")
        return self.create("torch.constant.float", [kind], [], value).results[0]

    def truth(self, is_true: bool) -> ir.Value:
        value = {"value": ir.BoolAttr.get(is_true)}
        kind = ir.Type.parse("!torch.bool")
        return self.create("torch.constant.bool", [kind], [], value).results[0]

    def word(self, text: str) -> ir.Value:
        kind = ir.Type.parse("!torch.str")
        value = {"value": self.string(text)}
        return self.create("torch.constant.str", [kind], [], value).results[0]

    def none(self) -> ir.Value:
        return self.op("constant.none", ir.Type.parse("!torch.none"))

    @property
    def _whole(self) -> ir.Type:
        return ir.Type.parse("!torch.int")

    def wide(self, index: ir.Value) -> ir.Value:
        """Integers in 64 bits."""
        return self.in_type(index, "si64")

    def in_type(self, value: ir.Value, element: str) -> ir.Value:
        """The tensor with its elements cast to one of the types in `CODES`."""
        kind = with_torch_element(value.type, element)
        return self.op("prims.convert_element_type", kind, value, self.number(CODES[element]))

    def from_start(self, index: ir.Value, tensor: ir.Value, dim: int) -> ir.Value:
        """`index`, and where it is negative `index` and the size of `dim`."""
        truths = torch_tensor(torch_shape(index.type), "i1")
        below = self.op("aten.lt.Scalar", truths, index, self.number(0))
        size = self.size_of(tensor, dim)
        moved = self.op("aten.add.Scalar", index.type, index, size, self.number(1))
        return self.op("aten.where.self", index.type, below, moved, index)

    def size_of(self, tensor: ir.Value, dim: int) -> ir.Value:
        size = torch_shape(tensor.type)[dim]
        if size is not None:
            return self.number(size)
        return self.op("aten.size.int", self._whole, tensor, self.number(dim))

    def places(self, tensor: ir.Value, dim: int) -> ir.Value:
        """The places along a dim: 0, 1, and so on."""
        kind = torch_tensor([torch_shape(tensor.type)[dim]], "si64")
        none = self.none()
        size, code = self.size_of(tensor, dim), self.number(CODES["si64"])
        return self.op("aten.arange", kind, size, code, none, none, none)

    def with_units(self, value: ir.Value, front: int, behind: int) -> ir.Value:
        """A tensor with more dims of size one."""
        for place in (*([0] * front), *([-1] * behind)):
            value = self.unsqueezed(value, place)
        return value

    def unsqueezed(self, value: ir.Value, place: int) -> ir.Value:
        """A tensor with a dim of size one more, at a place of its own dims or (-1) behind them."""
        shape = torch_shape(value.type)
        shape.insert(len(shape) if place < 0 else place, 1)
        kind = torch_tensor(shape, torch_element(value.type))
        return self.op("aten.unsqueeze", kind, value, self.number(place))

    def squeezed(self, value: ir.Value, place: int) -> ir.Value:
        """A tensor without one of its dims, which is of size one."""
        shape = torch_shape(value.type)
        kind = torch_tensor([*shape[:place], *shape[place + 1 :]], torch_element(value.type))
        return self.op("aten.squeeze.dim", kind, value, self.number(place))

    def listed(self, values: Sequence[ir.Value], of: str = "int") -> ir.Value:
        """A list of values of this type."""
        list_of = ir.Type.parse(f"!torch.list<{of}>")
        return self.create("torch.prim.ListConstruct", [list_of], values).results[0]

    def numbers(self, *numbers: int) -> ir.Value:
        """A list of constant integers."""
        return self.listed([self.number(number) for number in numbers])

    def expanded(self, value: ir.Value, sizes: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
        """A tensor whose dims of size 1 are repeated to `sizes`; -1 stays as it is."""
        return self.op("aten.expand", kind, value, self.listed(sizes), self.truth(False))

    def element_of(self, value: ir.Value, dim: int, place: int) -> ir.Value:
        """The part of a tensor at a place along a dim, which it keeps with size one."""
        shape = torch_shape(value.type)
        if shape[dim] == 1:
            return value
        kind = torch_tensor([*shape[:dim], 1, *shape[dim + 1 :]], torch_element(value.type))
        bounds = (dim, place, place + 1, 1)
        return self.op("aten.slice.Tensor", kind, value, *(self.number(x) for x in bounds))
