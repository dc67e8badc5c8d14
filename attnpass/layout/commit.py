"""Builds the values that plans stand for. Refused plans never come here."""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, size_values, sizes_of
from .layout import Layout
from .planner import Node


class Committer:
    """Builds the new values of plans; what plans share is built once.

    Each value is built before an op of the old program, its anchor. Order is asked of
    anchors alone: a question about a new op would make MLIR number the block anew.
    """

    def __init__(self) -> None:
        self._built: dict[int, tuple[ir.Value, ir.Operation]] = {}

    def value(self, root: Node, reader: ir.Operation) -> ir.Value:
        """The new value, for use before `reader`: one dim per piece that is there, or, where
        all are, per axis."""
        stack = [root] if root.alternative is not None else []
        while stack:
            node = stack[-1]
            missing = [c for c in node.children if c is not None and self._is_missing(c)]
            if missing:
                stack += missing
                continue
            stack.pop()
            if self._is_missing(node):
                self._built[id(node)] = self._build(node)
        return self._operand(root, Builder(reader))

    def builder(self, node: Node, reader: ir.Operation) -> Builder:
        """A builder before `reader`, or below it where the value of `node` is made later."""
        built = self._built.get(id(node))
        return Builder(reader) if built is None else Builder(reader).below([built[1]])

    def restore(self, node: Node) -> ir.Value:
        """The value of `node` put back into its old layout, for users that keep reading it."""
        op = node.op
        assert op is not None
        new = self.value(node, op)
        layout = node.demand.layout
        build = self.builder(node, op)
        flat = [axis for axes in layout.dims for axis in axes]
        counts = [len(axes) for axes in layout.dims]
        return build.join_dims(build.transpose(new, flat), counts, sizes_of(node.value))

    def _is_missing(self, node: Node) -> bool:
        return node.alternative is not None and id(node) not in self._built

    def _operand(self, node: Node, build: Builder) -> ir.Value:
        if node.alternative is None:
            return read_row_major(node.value, node.demand.layout, build)
        return self._built[id(node)][0]

    def _build(self, node: Node) -> tuple[ir.Value, ir.Operation]:
        alternative, layout, op = node.alternative, node.demand.layout, node.op
        assert alternative is not None and node.rule is not None and op is not None
        anchors = [self._built[id(c)][1] for c in node.children if c and id(c) in self._built]
        build = Builder(op).below(anchors).after_operands(size_values(layout.sizes))
        operands = [None if c is None else self._operand(c, build) for c in node.children]
        if alternative.view is None:
            value = node.rule.rewrite(op, node.demand, alternative, operands, build)
        else:
            value = self._view(node, alternative.view, operands[0], build)
        return value, build.anchor

    def _view(
        self,
        node: Node,
        view: tuple[tuple[int, ...], ...],
        value: ir.Value | None,
        build: Builder,
    ) -> ir.Value:
        (child,) = node.children
        assert child is not None and value is not None
        if node.is_complete:
            sizes = node.demand.layout.sizes
            return build.cast(build.join_dims(value, [len(axes) for axes in view], sizes), sizes)
        if child.is_complete:
            # From here on an axis is missing: one dim per piece, so that the rest is plain.
            return build.split_dims(value, [[size for size, _ in p] for p in child.pieces])
        return value


def read_row_major(value: ir.Value, layout: Layout, build: Builder) -> ir.Value:
    """`value`, whose layout is row-major, with one dim per axis, its windows cut out."""
    merged = layout.merged()
    coarse = merged.layout
    parts = [[(coarse.sizes[a], coarse.window(a)) for a in axes] for axes in coarse.dims]
    sliced = build.split_and_slice(value, parts)
    return build.split_dims(sliced, [[layout.sizes[a] for a in g] for g in merged.groups])
