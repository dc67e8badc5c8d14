"""Ops of ONNX as IREE's importer writes them, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.compiler import ir

from .attributes import known_attribute
from .builder import Builder
from .constants import resource_bytes
from .printed import torch_element, torch_shape, torch_tensor
from .queries import defining_op, enclosing

_OPERATOR = "torch.operator"
_OPSET = "torch.onnx_meta.opset_version"
_PREFIX, _VALUE = "onnx.", "torch.onnx.value"


def is_onnx(op: ir.Operation, name: str) -> bool:
    """Whether it is ONNX's op of this name."""
    return op.name == _OPERATOR and ir.StringAttr(op.attributes["name"]).value == _PREFIX + name


def onnx_numbers(value: ir.Value) -> list[int]:
    """The numbers in a constant of ONNX; none for other values."""
    op = defining_op(value)
    if op is None or not is_onnx(op, "Constant"):
        return []
    attribute = known_attribute(op, _VALUE)
    if isinstance(attribute, ir.DenseElementsAttr):
        return [int(number) for number in ir.DenseIntElementsAttr(attribute)]
    blob = resource_bytes(op) or b""
    places = range(0, len(blob), 8)
    return [int.from_bytes(blob[at : at + 8], "little", signed=True) for at in places]


def onnx_opset(op: ir.Operation) -> int:
    """The version of ONNX's ops in a function; 0 where it does not say."""
    named = (one.attributes[_OPSET] for one in enclosing(op) if _OPSET in one.attributes)
    return next((ir.IntegerAttr(version).value for version in named), 0)


class OnnxBuilder(Builder):
    """`Builder` for ops of ONNX; sizes known only at run time are None."""

    def onnx(
        self,
        name: str,
        operands: Sequence[ir.Value],
        sizes: Sequence[int | None],
        attributes: dict[str, ir.Attribute] | None = None,
        element: str = "",
    ) -> ir.Value:
        """An op with one result of these sizes, of the first operand's elements if not told."""
        kind = torch_tensor(sizes, element or torch_element(operands[0].type))
        named = {"name": ir.StringAttr.get(_PREFIX + name, self.anchor.context)}
        return self.create(_OPERATOR, [kind], operands, named | (attributes or {})).results[0]

    def onnx_constant(self, numbers: Sequence[int]) -> ir.Value:
        """A list of whole numbers."""
        text = f"dense<{list(numbers)}> : tensor<{len(numbers)}xsi64>"
        value = {_VALUE: ir.Attribute.parse(text, self.anchor.context)}
        return self.onnx("Constant", [], [len(numbers)], value, "si64")

    def onnx_whole(self, number: int | bool) -> ir.Value:
        """One whole number, or truth value, a tensor without dims."""
        element, text = ("i1", "true") if number is True else ("si64", str(number))
        value = {
            _VALUE: ir.Attribute.parse(f"dense<{text}> : tensor<{element}>", self.anchor.context)
        }
        return self.onnx("Constant", [], [], value, element)

    def onnx_number(self, number: float, element: str) -> ir.Value:
        """One number, a tensor without dims."""
        text = f"dense<{number:.17e}> : tensor<{element}>"
        value = {_VALUE: ir.Attribute.parse(text, self.anchor.context)}
        return self.onnx("Constant", [], [], value, element)

    def si64(self, number: int) -> ir.Attribute:
        """A number as ONNX's attributes hold it."""
        return ir.Attribute.parse(f"{number} : si64", self.anchor.context)

    def si64s(self, numbers: Iterable[int]) -> ir.Attribute:
        """`si64`, of a list."""
        return ir.ArrayAttr.get([self.si64(number) for number in numbers], self.anchor.context)

    def onnx_with_units(self, value: ir.Value, place: int, count: int) -> ir.Value:
        """`count` dims of size one in front of the dim `place` of `value`."""
        if not count:
            return value
        sizes = torch_shape(value.type)
        sizes[place:place] = [1] * count
        dims = self.onnx_constant(range(place, place + count))
        return self.onnx("Unsqueeze", [value, dims], sizes)
