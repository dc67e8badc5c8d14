"""Views of tensors of unknown sizes, one change at a time.

Where several dims are unknown IREE 3.13's import pairs those of a view's source with those of its
result from the left, and takes what is left over as 1: `[t, b, 4, 16]` as `[t * b, 64]` gives wrong
numbers or refuses its input. A view that joins or cuts one run of dims it reads right.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import sympy
import torch

aten = torch.ops.aten
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
Run = tuple[range, range]


def split_views(graph: torch.fx.Graph, kept: Sequence[str]) -> None:
    """Makes views that change several runs of dims views of one each, in place; new nodes have
    the entries of `meta` that are named in `kept`."""
    for node in list(graph.nodes):
        if node.target not in VIEWS:
            continue
        before = [_size(dim) for dim in node.args[0].meta["val"].shape]
        after = [_size(dim) for dim in node.meta["val"].shape]
        unknown = sum(not size.is_Integer for size in (*before, *after))
        runs = _runs(*_polynomials(before, after))
        runs = runs or _runs(*_polynomials(_whole(before), _whole(after)))
        changed = [run for run in runs or () if len(run[0]) != 1 or len(run[1]) != 1]
        many = any(len(source) > 1 and len(result) > 1 for source, result in changed)
        if unknown > 2 and runs:
            steps = _Steps(graph, node, kept)
            steps.name_kept(runs)
            if len(changed) > 1 or many:
                steps.rewrite(runs)


def _size(dim: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(dim) if isinstance(dim, int) else dim.node.expr


def _polynomials(*shapes: Sequence[Any]) -> list[list[Any]]:
    """Sizes with a symbol for what is no polynomial, about which sympy thinks for minutes."""
    others = {each for sizes in shapes for size in sizes for each in size.atoms(sympy.Function)}
    symbols = {each: sympy.Dummy(integer=True, positive=True) for each in others}
    return [[size.xreplace(symbols) for size in sizes] for sizes in shapes]


def _whole(sizes: Sequence[Any]) -> list[Any]:
    """Sizes whose quotients have no rest, as those of chunks that fill what they are cut of."""
    quotient = torch.utils._sympy.functions.FloorDiv
    return [size.replace(quotient, lambda size, by: size / by) for size in sizes]


def _runs(before: Sequence[sympy.Expr], after: Sequence[sympy.Expr]) -> list[Run] | None:
    """The shortest runs of dims that hold the same elements in a view's source and its result, in
    order; None where sizes do not say."""
    runs: list[Run] = []
    i = j = 0
    while i < len(before) and j < len(after):
        start = i, j
        source, result = before[i], after[j]
        i, j = i + 1, j + 1
        while source != result:
            ratio = sympy.cancel(result / source)
            if sympy.denom(ratio) == 1 and i < len(before):
                source, i = sympy.expand(source * before[i]), i + 1
            elif j < len(after):
                result, j = sympy.expand(result * after[j]), j + 1
            else:
                return None
        runs.append((range(start[0], i), range(start[1], j)))
    return runs if i == len(before) and j == len(after) else None


class _Steps:
    """The views that one view becomes."""

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node, kept: Sequence[str]):
        self._graph, self._node = graph, node
        self._meta = {key: node.meta[key] for key in kept if key in node.meta}
        self._source: Any = node.args[0]
        self._sizes: list[Any] = list(node.args[1])

    def name_kept(self, runs: Sequence[Run]) -> None:
        """Dims that stay have their source's sizes: where several arguments have a size, PyTorch
        reads it from the first, which nothing in the IR says is this one's, and a -1 stands for
        what that leaves."""
        with self._graph.inserting_before(self._node):
            for source, result in runs:
                if len(source) == len(result) == 1:
                    self._sizes[result[0]] = self._of_source(source[0])
        self._node.update_arg(1, self._sizes)

    def rewrite(self, runs: Sequence[Run]) -> None:
        """Joins each run, then cuts it, from the left; the node itself is the last step."""
        with self._graph.inserting_before(self._node):
            steps: list[list[Any]] = []
            for place, (source, result) in enumerate(runs):
                cut = [self._sizes[dim] for _, done in runs[:place] for dim in done]
                rest = [self._of_source(dim) for later, _ in runs[place + 1 :] for dim in later]
                if len(source) > 1:
                    steps.append([*cut, self._product(source), *rest])
                if len(result) > 1:
                    steps.append([*cut, *(self._sizes[dim] for dim in result), *rest])
            value: Any = self._source
            for sizes in steps[:-1]:
                value = self._view(value, sizes)
        self._node.update_arg(0, value)

    def _view(self, value: Any, sizes: list[Any]) -> torch.fx.Node:
        plain = [size.meta["val"] if isinstance(size, torch.fx.Node) else size for size in sizes]
        made = self._call(aten.view.default, (value, sizes), (value.meta["val"], plain))
        # Of sizes that are given torch may have names of its own.
        found = [
            size if isinstance(given, torch.fx.Node) or given < 0 else given
            for size, given in zip(made.meta["val"].shape, sizes, strict=True)
        ]
        made.meta["val"] = made.meta["val"].new_empty(found)
        return made

    def _of_source(self, dim: int) -> Any:
        """The size of a dim of the source, as an argument."""
        size = self._source.meta["val"].shape[dim]
        if isinstance(size, int):
            return size
        arguments = (self._source, dim)
        return self._call(aten.sym_size.int, arguments, (self._source.meta["val"], dim))

    def _product(self, dims: range) -> Any:
        first, *rest = (self._of_source(dim) for dim in dims)
        for other in rest:
            values = [x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in (first, other)]
            both_known = not isinstance(first, torch.fx.Node) and not isinstance(
                other, torch.fx.Node
            )
            first = (
                first * other if both_known else self._call(operator.mul, (first, other), values)
            )
        return first

    def _call(self, target: Any, arguments: Sequence[Any], values: Sequence[Any]) -> torch.fx.Node:
        made = self._graph.call_function(target, tuple(arguments))
        made.meta = {**self._meta, "val": target(*values)}
        return made
