"""Builds the values that plans stand for. Refused plans never come here.

Aliases of a carried value (a loop's, an argument of a private function) change type in place, so
until all values are built a stand-in is read for each. `finish` then gives the carried value its
new sources and its aliases their type.
"""

from __future__ import annotations

from iree.compiler import ir

from ..ir import Builder, StandIn, defining_op, maps, product, size_values, sizes_of
from .layout import Layout
from .planner import Node


class Committer:
    """Builds the new values of plans; what plans share is built once.

    Each value is built before an op of the old program, its anchor. Order is asked of
    anchors alone: a question about a new op would make MLIR number the block anew.
    """

    def __init__(self) -> None:
        self._built: dict[int, tuple[ir.Value, ir.Operation]] = {}
        # The nodes of carried values that are read in their new layout.
        self._carried: list[Node] = []
        self._seen: set[int] = set()
        self._stand_ins: dict[ir.Value, StandIn] = {}

    def value(self, root: Node, reader: ir.Operation) -> ir.Value:
        """The new value, for use before `reader`: one dim per piece that is there, or, where
        all are, per axis."""
        stack = [root] if self._is_missing(root) else []
        while stack:
            node = stack[-1]
            missing = [child for child in node.children if self._is_missing(child)]
            if missing:
                stack += [child for child in missing if child is not None]
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
        kind = ir.RankedTensorType(node.value.type)
        return put_back(new, node.demand.layout, kind, self.builder(node, op))

    def finish(self, dead_ops: list[ir.Operation]) -> None:
        """Changes the carried values that the plans go through. Call when all else is built."""
        for node in self._carried:  # Grows: what feeds one may come from another.
            self._feed(node, dead_ops)
        for node in self._carried:
            self._finalize(node)

    def _feed(self, node: Node, dead_ops: list[ir.Operation]) -> None:
        carried = node.carried
        assert carried is not None
        for (op, number), child in zip(carried.sources, node.children, strict=True):
            old = op.operands[number]
            if child is None:
                build = Builder(op)
                layout = carried.layout_of(node.demand.layout, old)
                assert layout is not None
                new = put_in_order(old, layout, build)
            else:
                new, build = self.value(child, op), self.builder(child, op)
            op.operands[number] = build.cast(new, node.demand.layout.sizes)
            dead_ops += [made] if (made := defining_op(old)) is not None else []

    def _finalize(self, node: Node) -> None:
        carried, layout = node.carried, node.demand.layout
        assert carried is not None
        for alias in carried.aliases:
            kind = ir.RankedTensorType(alias.type)
            self._stand_in(alias, node).finalize(
                lambda new, build, kind=kind: put_back(new, layout, kind, build)
            )
        carried.finalize(layout)

    def _stand_in(self, alias: ir.Value, carried: Node) -> StandIn:
        """What is read for `alias` while its carried value changes as the node `carried` says."""
        if alias not in self._stand_ins:
            self._stand_ins[alias] = StandIn(alias, carried.demand.layout.sizes)
        if id(carried) not in self._seen:
            self._seen.add(id(carried))
            self._carried.append(carried)
        return self._stand_ins[alias]

    def _read_alias(self, node: Node, carried: Node, build: Builder) -> ir.Value:
        new = self._stand_in(node.value, carried).value
        merged = node.demand.layout.merged()
        new = build.cast(new, merged.layout.sizes)
        return build.split_dims(
            new, [[node.demand.layout.sizes[a] for a in g] for g in merged.groups]
        )

    def _is_missing(self, node: Node | None) -> bool:
        if node is None or node.alternative is None or node.aliased:
            return False
        return id(node) not in self._built

    def _operand(self, node: Node, build: Builder) -> ir.Value:
        if node.alternative is None:
            return read_row_major(node.value, node.demand.layout, build)
        if node.aliased:
            return self._read_alias(node, node.aliased, build)
        return self._built[id(node)][0]

    def _build(self, node: Node) -> tuple[ir.Value, ir.Operation]:
        alternative, layout, op = node.alternative, node.demand.layout, node.op
        assert alternative is not None and node.rule is not None and op is not None
        anchors = [self._built[id(c)][1] for c in node.children if c and id(c) in self._built]
        build = Builder(op).below(anchors).after_sizes(size_values(layout.sizes))
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
            return build.split_dims(value, [[size for size, _ in p] for p in child.parts])
        return value


def read_row_major(value: ir.Value, layout: Layout, build: Builder) -> ir.Value:
    """`value`, whose layout is row-major, with one dim per axis, its windows cut out."""
    merged = layout.merged()
    coarse = merged.layout
    parts = [[(coarse.sizes[a], coarse.window(a)) for a in axes] for axes in coarse.dims]
    sliced = build.split_and_slice(value, parts)
    return build.split_dims(sliced, [[layout.sizes[a] for a in g] for g in merged.groups])


def put_in_order(value: ir.Value, layout: Layout, build: Builder) -> ir.Value:
    """`value` transposed into `layout`: one dim per axis, in the order wanted."""
    lies = [axis for axes in layout.dims for axis in axes]
    return build.transpose(build.split_dims(value, layout.dim_sizes()), maps.inverse(lies))


def put_back(
    value: ir.Value, layout: Layout, kind: ir.RankedTensorType, build: Builder
) -> ir.Value:
    """The tensor of type `kind` of which `value` is what `layout` says of it."""
    sizes = sizes_of(value)
    lies = [axis for axes in layout.dims for axis in axes]
    old = [product([sizes[axis] for axis in axes]) for axes in layout.dims]
    joined = build.join_dims(build.transpose(value, lies), [len(a) for a in layout.dims], old)
    return build.cast(joined, kind.shape)
