"""Builds the values that plans stand for. Refused plans never come here."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, defining_op, size_values, sizes_of
from .layout import Layout
from .planner import Node


class Committer:
    """Builds the new values of plans; what plans share is built once."""

    def __init__(self) -> None:
        self._values: dict[int, ir.Value] = {}

    def value(self, root: Node) -> ir.Value:
        """The new value: one dim per piece that is there, or, where all are, per axis."""
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [c for c in node.children if c is not None and id(c) not in self._values]
            if id(node) in self._values or not missing:
                stack.pop()
                if id(node) not in self._values:
                    self._values[id(node)] = self._build(node)
            else:
                stack += missing
        return self._values[id(root)]

    def restore(self, node: Node) -> ir.Value:
        """The value of `node` put back into its old layout, for users that keep reading it."""
        op = node.op
        assert op is not None
        new = self.value(node)
        layout = node.demand.layout
        build = Builder(op).after_operands([new])
        flat = [axis for axes in layout.dims for axis in axes]
        counts = [len(axes) for axes in layout.dims]
        return build.join_dims(build.transpose(new, flat), counts, sizes_of(node.value))

    def _build(self, node: Node) -> ir.Value:
        alternative, layout = node.alternative, node.demand.layout
        needed = size_values(layout.sizes)
        if alternative is None or node.rule is None:
            build = _behind(node.value).after_operands(needed)
            return read_row_major(node.value, layout, build)
        op = node.op
        assert op is not None
        operands = [None if c is None else self._values[id(c)] for c in node.children]
        given = [value for value in operands if value is not None]
        build = Builder(op).after_operands([*given, *needed])
        if alternative.view is None:
            return node.rule.rewrite(op, node.demand, alternative, operands, build)
        (value,) = given
        if not node.is_complete:
            return value
        return build.join_dims(value, [len(parts) for parts in node.pieces], layout.sizes)


def read_row_major(value: ir.Value, layout: Layout, build: Builder) -> ir.Value:
    """`value`, whose layout is row-major, with one dim per axis, its windows cut out."""
    merged = layout.merged()
    coarse = merged.layout
    parts = [[(coarse.sizes[a], coarse.window(a)) for a in axes] for axes in coarse.dims]
    sliced = build.split_and_slice(value, parts)
    return build.split_dims(sliced, [[layout.sizes[a] for a in g] for g in merged.groups])


def _behind(value: ir.Value) -> Builder:
    """A builder right behind the definition of `value`."""
    op = defining_op(value)
    if op is not None:
        return Builder(op).after_operands([value])
    block = value.owner
    assert isinstance(block, ir.Block)
    return Builder(block.operations[0].operation)
