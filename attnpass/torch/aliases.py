"""Results of a graph that lie in memory of its arguments, or of other results."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch


@dataclass(frozen=True)
class _AliasLayout:
    """A result as a view of `base`: an argument, or a result that is kept, by its place.
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

    `results` are what the graph's were traced as, `kept` the places of those that a program must
    compute.
    """

    def __init__(self, module: torch.fx.GraphModule):
        nodes = list(module.graph.nodes)
        self._arguments = [_value(node) for node in nodes if node.op == "placeholder"]
        self.results = [_value(node) for node in nodes[-1].args[0]]
        self._symbols = {
            value.node.expr: place
            for place, value in enumerate(self._arguments)
            if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol
        }
        self._views: dict[int, _AliasLayout] = {}
        bases = {}
        for place, value in enumerate(self._arguments):
            if _has_memory(value):
                bases.setdefault(_storage(value), (True, place, value))
        for place, value in enumerate(self.results):
            if _has_memory(value) and _is_whole(value):
                bases.setdefault(_storage(value), (False, place, value))
        for place, value in enumerate(self.results):
            if not _has_memory(value) or _storage(value) not in bases:
                continue
            of_argument, base, tensor = bases[_storage(value)]
            if (of_argument or base != place) and (view := self._view(value, tensor)):
                self._views[place] = _AliasLayout(of_argument, base, *view)
        self.kept = [place for place in range(len(self.results)) if place not in self._views]

    def __bool__(self) -> bool:
        return bool(self._views)

    def without(self, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """The graph with the results alone that are kept."""
        graph = torch.fx.Graph()
        results: Any = graph.graph_copy(module.graph, {})
        graph.output(tuple(results[place] for place in self.kept))
        return torch.fx.GraphModule(module, graph)

    def restored(self, kept: Sequence[Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """All results, where those that are kept are known."""
        results = dict(zip(self.kept, kept, strict=True))
        for place, view in self._views.items():
            base = arguments[view.base] if view.of_argument else results[view.base]
            results[place] = view.of(base, arguments)
        return tuple(results[place] for place in range(len(results)))

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
