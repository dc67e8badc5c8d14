"""Results of a graph that lie in memory of its arguments, or of other results."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from ..errors import AttnError


@dataclass(frozen=True)
class _AliasLayout:
    """A result as a view of `base`: an argument, or what a program computes, by its place.
    `layout` gives sizes, strides, and how far behind the base's start it begins; of the arguments
    at the places `numbers`, if that is not known."""

    of_argument: bool
    base: int
    numbers: tuple[int, ...]
    layout: Any

    def of(self, base: torch.Tensor, arguments: Sequence[Any]) -> torch.Tensor:
        layout = self.layout
        if self.numbers:
            layout = layout(*(int(arguments[place]) for place in self.numbers))
        half = len(layout) // 2
        start = base.storage_offset() + layout[-1]
        return base.as_strided(layout[:half], layout[half : 2 * half], start)


class Aliases:
    """What TorchDynamo's graph returns without a copy: views of arguments, and several views of one
    tensor. What a caller writes to one, others see; so they are made of one another at each call.

    `results` are what the graph's were traced as, `kept` the nodes that a program must compute: of
    views of one tensor, that tensor. Raises AttnError for views that have no strides of their own
    (of another type), or of what is never whole.
    """

    def __init__(self, module: torch.fx.GraphModule):
        nodes = list(module.graph.nodes)
        outputs = nodes[-1].args[0]
        arguments = [node for node in nodes if node.op == "placeholder"]
        self.results = [_value(node) for node in outputs]
        self._symbols = {
            value.node.expr: place
            for place, value in enumerate(map(_value, arguments))
            if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol
        }
        # By memory, what all tensors in it are views of: an argument, or what is made first.
        bases: dict[int, torch.fx.Node] = {}
        for node in nodes:
            value = _value(node)
            if _has_memory(value) and (node.op == "placeholder" or _is_whole(value)):
                bases.setdefault(_storage(value), node)
        counts = Counter(_storage(value) for value in self.results if _has_memory(value))
        self.kept: list[Any] = []
        # For each result its place among those that are kept, or what it is a view of.
        self._made: list[int | _AliasLayout] = []
        for node, value in zip(outputs, self.results, strict=True):
            base = bases.get(_storage(value)) if _has_memory(value) else None
            of_argument = base is not None and base.op == "placeholder"
            if not _has_memory(value) or (counts[_storage(value)] == 1 and not of_argument):
                self._made.append(self._keep(node))
            elif base is None or (view := self._view(value, _value(base))) is None:
                raise AttnError(
                    "several of its results are the same memory, as no views by strides"
                )
            elif base is node and not of_argument:
                self._made.append(self._keep(node))
            else:
                place = arguments.index(base) if of_argument else self._keep(base)
                self._made.append(_AliasLayout(of_argument, place, *view))

    def __bool__(self) -> bool:
        return any(isinstance(made, _AliasLayout) for made in self._made)

    def without(self, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """The graph with the results alone that are kept."""
        graph, copies = torch.fx.Graph(), {}
        graph.graph_copy(module.graph, copies)
        graph.output(torch.fx.map_arg(tuple(self.kept), copies.__getitem__))
        return torch.fx.GraphModule(module, graph)

    def restored(self, kept: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """All results, where those that are kept are known."""
        return tuple(
            made.of((arguments if made.of_argument else kept)[made.base], arguments)
            if isinstance(made, _AliasLayout)
            else kept[made]
            for made in self._made
        )

    def _keep(self, node: Any) -> int:
        """The place of a node among those that are kept."""
        if node not in self.kept:
            self.kept.append(node)
        return self.kept.index(node)

    def _view(self, value: torch.Tensor, base: torch.Tensor) -> tuple[tuple[int, ...], Any] | None:
        """The numbers and the layout of a view; None where it is no view by strides alone."""
        if value.dtype != base.dtype or value.is_conj() != base.is_conj() or value.is_neg():
            return None
        start = value.storage_offset() - base.storage_offset()
        layout = [*value.shape, *value.stride(), start]
        if all(isinstance(size, int) for size in layout):
            return (), tuple(layout)
        exact = [
            sympy.Integer(size) if isinstance(size, int) else size.node.expr for size in layout
        ]
        symbols = sorted({one for size in exact for one in size.free_symbols}, key=str)
        if not all(symbol in self._symbols for symbol in symbols):
            return None
        places = tuple(self._symbols[symbol] for symbol in symbols)
        return places, lambda *numbers: [
            int(size.subs(dict(zip(symbols, numbers, strict=True)))) for size in exact
        ]


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else node


def _has_memory(value: Any) -> bool:
    """Whether it is a tensor of its own: none that wraps another, as those of torch.func do."""
    return isinstance(value, torch.Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(
        value
    )


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def _is_whole(value: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, its dims in order: as a program returns it."""
    size = functools.reduce(operator.mul, value.shape, value.itemsize)
    return _is_known(size == value.untyped_storage().nbytes()) and all(
        _is_known(stride == inner)
        for stride, inner in zip(value.stride(), _strides(value.shape), strict=True)
    )


def _is_known(condition: Any) -> bool:
    """Whether it is true of all sizes that a graph may have."""
    return torch.fx.experimental.symbolic_shapes.statically_known_true(condition)


def _strides(shape: Sequence[Any]) -> list[Any]:
    """The strides of dims that lie in order."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(shape)]


def share_elements(values: Sequence[Any], changed: Sequence[int]) -> bool:
    """Whether a tensor at one of the places `changed` may have elements of another one."""
    return any(
        _meet(values[place], other)
        for place in changed
        for number, other in enumerate(values)
        if number != place and isinstance(other, torch.Tensor)
    )


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    return one.data_ptr() < _end(other) and other.data_ptr() < _end(one)


def _end(value: torch.Tensor) -> int:
    """Where the memory of a tensor ends."""
    last = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr() + (last + 1) * value.itemsize if value.numel() else value.data_ptr()
