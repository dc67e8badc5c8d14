"""An op of ONNX and the nodes that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ...errors import AttnError

MICROSOFT = "com.microsoft"
TO_THE_END = np.iinfo(np.int64).max
# Attributes that change no number here, and values that stand for no attribute.
_HARMLESS = frozenset(("accuracy_level", "is_packed_batching", "mask_index_type", "stash_type"))
_NOTHING = (0, -1, b"", b"NONE")


class DecomposedOp:
    """The nodes that stand for `node`, in a model of opset `version`.

    `inputs` and `outputs` are names, '' for what is not there; `dims` says what is known of a
    value's sizes, None for nothing; `known` and `constant` give the array of a constant.
    """

    def __init__(
        self,
        node: onnx.NodeProto,
        prefix: str,
        version: int,
        types: Mapping[str, onnx.TypeProto],
        weights: Mapping[str, onnx.TensorProto],
    ):
        self.node, self.version = node, version
        self.nodes: list[onnx.NodeProto] = []
        self._prefix, self._types, self._weights = prefix, types, weights
        self._attributes = {each.name: each for each in node.attribute}
        self._read: set[int | str] = set()

    def input(self, place: int) -> str:
        self._read.add(place)
        return self.node.input[place] if place < len(self.node.input) else ""

    def output(self, place: int) -> str:
        return self.node.output[place] if place < len(self.node.output) else ""

    def attribute(self, name: str, default: Any) -> Any:
        self._read.add(name)
        found = self._attributes.get(name)
        return default if found is None else onnx.helper.get_attribute_value(found)

    def dims(self, name: str) -> list[int | str | None] | None:
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in kind.tensor_type.shape.dim
        ]

    def element(self, name: str) -> int | None:
        """The type of a value's elements, as ONNX numbers them."""
        kind = self._types.get(name)
        return None if kind is None else kind.tensor_type.elem_type

    def known(self, name: str) -> np.ndarray | None:
        found = self._weights.get(name)
        return None if found is None else onnx.numpy_helper.to_array(found)

    def constant(self, name: str, what: str) -> np.ndarray:
        found = self.known(name)
        if found is None:
            raise self.refusal(f"{what} that are no constants")
        return found

    def refusal(self, what: str) -> AttnError:
        name = f" '{self.node.name}'" if self.node.name else ""
        way = "export the model without the optimizations of onnxruntime"
        way = way if self.node.domain == MICROSOFT else "write it with other ops"
        return AttnError(f"{self.node.op_type}{name} has {what}, which is not compiled: {way}")

    def check(self) -> None:
        """AttnError for what the op has and nothing has read or made."""
        for place, name in enumerate(self.node.input):
            if name and place not in self._read:
                raise self.refusal(f"an input at place {place} ('{name}')")
        for name in self._attributes.keys() - self._read - _HARMLESS:
            value = self.attribute(name, 0)
            if value not in _NOTHING:
                raise self.refusal(f"the attribute '{name}'")
        made = {name for node in self.nodes for name in node.output}
        for name in self.node.output:
            if name and name not in made:
                raise self.refusal(f"the result '{name}'")

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A new op's only result."""
        output = f"{self._prefix}.{len(self.nodes)}"
        name = f"{self.node.name}/{op}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def give(self, place: int, value: str) -> None:
        """Makes `value` the op's own result at `place`."""
        if output := self.output(place):
            self.nodes.append(onnx.helper.make_node("Identity", [value], [output]))

    def number(self, array: Any, dtype: Any = np.int64) -> str:
        return self("Constant", value=onnx.numpy_helper.from_array(np.asarray(array, dtype)))

    def like(self, number: float, value: str) -> str:
        """A number of the type of `value`."""
        return self("CastLike", self.number(number, np.float32), value)

    def mean(self, value: str, axes: Sequence[int]) -> str:
        """Of dims that stay."""
        if self.version < 18:
            return self("ReduceMean", value, axes=axes, keepdims=1)
        return self("ReduceMean", value, self.number(axes), keepdims=1)

    def slice(self, value: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return self("Slice", value, *(self.number([each]) for each in (start, end, axis, step)))

    def size(self, value: str, axis: int) -> str:
        """As a list of one."""
        return self("Shape", value, start=axis, **({"end": axis + 1} if axis != -1 else {}))

    def reshape(self, value: str, sizes: list[int]) -> str:
        return self("Reshape", value, self.number(sizes))


Decomposition = Callable[[DecomposedOp], None]
