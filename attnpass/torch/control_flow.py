"""Loops and branches of PyTorch in the forms that IREE 3.13's import takes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from iree.compiler import ir
from iree.compiler.extras.fx_importer import GraphNodeImporter

aten = torch.ops.aten
_COND = torch.ops.higher_order.cond
_LOOP = torch.ops.higher_order.while_loop
_MAP = torch.ops.higher_order.map_impl
_SCAN = torch.ops.higher_order.scan


def graphs_of(module: torch.fx.GraphModule) -> Iterator[torch.fx.Graph]:
    """The graph of a program, then those of what its loops and branches run."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield part.graph


def drop_unused(module: torch.fx.GraphModule) -> None:
    """Takes away the functions that no loop or branch runs, also of those that others run."""
    for part in list(module.modules()):
        if not isinstance(part, torch.fx.GraphModule):
            continue
        targets: list[Any] = [node.target for node in part.graph.nodes if node.op == "get_attr"]
        used = {path.partition(".")[0] for path in targets}
        for name in [name for name, _ in part.named_children() if name not in used]:
            delattr(part, name)


def scans_as_loops(module: torch.fx.GraphModule, kept: Sequence[str]) -> None:
    """Makes each `scan` and `map` over a known number of slices a `while_loop`, in place: IREE's
    import has neither. New nodes have the entries of `meta` that are named in `kept`."""
    # What a function runs is in its own module: the innermost first.
    for graph in reversed(list(graphs_of(module))):
        for node in list(graph.nodes):
            if node.target in (_SCAN, _MAP):
                _loop(node, kept)
        graph.owning_module.recompile()


def _loop(node: torch.fx.Node, kept: Sequence[str]) -> None:
    """A loop that carries a count, the carries of the scan and all its results; what it reads
    slices of, and what else it reads, does not change."""
    function, carries, sources, others = _parts(node)
    count = sources[0].meta["val"].shape[0]
    if not isinstance(count, int) or not count:
        return
    values = node.meta["val"][len(carries) :]
    graph, root = node.graph, node.graph.owning_module
    places = {name: node.meta[name] for name in kept if name in node.meta}
    known = [*carries, *values, *sources, *others]

    def add(target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        made = graph.call_function(target, args, kwargs)
        made.meta = dict(places)
        return made

    step = getattr(root, function.target)
    with graph.inserting_before(node):
        device = sources[0].meta["val"].device
        start = add(aten.full.default, [], 0, dtype=torch.int64, device=device)
        # Each is written before it is read.
        rows = [
            add(aten.full.default, list(v.shape), 0, dtype=v.dtype, device=v.device) for v in values
        ]
        parts = []
        for word, made in (
            ("condition", _condition(count, len(known))),
            ("body", _body(step, len(carries), len(values), sources)),
        ):
            name = f"{node.name}_{word}"
            setattr(root, name, torch.fx.GraphModule(step, made))
            parts.append(graph.get_attr(name))
        carried = (start, *carries, *rows)
        loop = add(_LOOP, *parts, carried, (*sources, *others))
        results = [add(operator.getitem, loop, place) for place in range(1, len(carried))]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _parts(node: torch.fx.Node) -> tuple[torch.fx.Node, list[Any], list[Any], list[Any]]:
    """The function of a scan or a map, the carries' first values, what it reads slices of, and what
    else it reads."""
    if node.target is _MAP:
        function, sources, others = node.args
        return function, [], list(sources), list(others)
    function, carries, sources, others = node.args
    return function, list(carries), list(sources), list(others)


def _condition(count: int, others: int) -> torch.fx.Graph:
    """Whether the first of its arguments is below `count`."""
    graph = torch.fx.Graph()
    place, *_ = (graph.placeholder(f"arg{number}") for number in range(others + 1))
    graph.output(graph.call_function(aten.lt.Scalar, (place, count)))
    return graph


def _body(
    function: torch.fx.GraphModule, carries: int, values: int, sources: Sequence[torch.fx.Node]
) -> torch.fx.Graph:
    """One step: the function on the slices of this step, with its results put in their rows."""
    graph = torch.fx.Graph()
    inner = [node for node in function.graph.nodes if node.op == "placeholder"]
    place = graph.placeholder("place")
    given = [graph.placeholder(f"arg{number}") for number in range(len(inner) + values)]
    old, rows, read = given[:carries], given[carries : carries + values], given[carries + values :]

    def add(target: Any, *args: Any) -> torch.fx.Node:
        return graph.call_function(target, args)

    at = add(aten.unsqueeze.default, place, 0)
    slices = [
        add(aten.squeeze.dim, add(aten.index_select.default, source, 0, at), 0)
        for source in read[: len(sources)]
    ]
    known = dict(zip(inner, (*old, *slices, *read[len(sources) :]), strict=True))
    results: Sequence[Any] = graph.graph_copy(function.graph, known)  # pyright: ignore
    put = [
        add(aten.index_put.default, row, [at], add(aten.unsqueeze.default, value, 0))
        for row, value in zip(rows, results[carries:], strict=True)
    ]
    graph.output((add(aten.add.Tensor, place, 1), *results[:carries], *put))
    return graph


def carry_all(module: torch.fx.GraphModule) -> None:
    """Makes what a `while_loop` reads beside its carries carries, too, in place: IREE's import
    has no other operands."""
    for graph in list(graphs_of(module)):
        for node in graph.nodes:
            if node.target is _LOOP and node.args[3]:
                _carry(node)
        graph.owning_module.recompile()


def _carry(node: torch.fx.Node) -> None:
    condition, body, carried, others = node.args
    root = node.graph.owning_module
    graph = getattr(root, body.target).graph
    # A function that several loops share is changed once.
    output = next(inner for inner in graph.nodes if inner.op == "output")
    if len(output.args[0]) == len(carried):
        inner = [inner for inner in graph.nodes if inner.op == "placeholder"]
        output.args = ((*output.args[0], *inner[len(carried) :]),)
    node.args = (condition, body, (*carried, *others), ())
    node.meta["val"] = (*node.meta["val"], *(other.meta["val"] for other in others))


class BranchImporter(GraphNodeImporter):
    """IREE's importer of graphs, with `torch.cond`."""

    def _import_hop_cond(self, loc: ir.Location, node: torch.fx.Node, hop: Any) -> None:
        del hop
        condition, *branches, operands = node.args
        values = list(self._import_tuple_argument(loc, tuple(operands), None))
        kinds = [self._cc.value_info_to_type(value) for value in node.meta["val"]]
        truth = self._import_argument(loc, condition)
        # What sizes say is no tensor.
        if truth.type != self._cc.torch_bool_type:
            truth = ir.Operation.create(
                "torch.aten.Bool.Tensor",
                results=[self._cc.torch_bool_type],
                operands=[truth],
                loc=loc,
            ).result
        choice = ir.Operation.create(
            "torch.prim.If", results=kinds, operands=[truth], regions=2, loc=loc
        )
        for branch, region in zip(branches, choice.regions, strict=True):
            function = getattr(node.graph.owning_module, branch.target)
            name = self.fx_importer._graph_module_to_func_name[id(function)]
            with loc:
                block = ir.Block.create_at_start(region, [])
            with ir.InsertionPoint(block):
                call = ir.Operation.create(
                    "func.call",
                    attributes={"callee": ir.FlatSymbolRefAttr.get(name, self._c)},
                    results=kinds,
                    operands=values,
                    loc=loc,
                )
                ir.Operation.create("torch.prim.If.yield", operands=list(call.results), loc=loc)
        self._multi_result_nodes.add(node)
        for place, value in enumerate(choice.results):
            self.bind_node_value(node, value, place)
