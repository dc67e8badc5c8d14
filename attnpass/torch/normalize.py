"""Exported programs in the forms that IREE 3.13 imports right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram

from .views import split_views

aten = torch.ops.aten

_SCATTERS = [
    getattr(op, name)
    for op in (aten.scatter, aten.scatter_add, aten.scatter_reduce)
    for name in op.overloads()
    if not name.endswith(("out", "dimname"))
]
# What says where an op comes from.
PLACES = ("stack_trace", "nn_module_stack")


def normalize(program: ExportedProgram) -> ExportedProgram:
    """The program as IREE 3.13 imports it right, changed in place.

    1. The operands of attention have the same dims in front, masks as many as queries, and there is
       a batch: the import fails on fewer, which torch broadcasts.
    2. FlexAttention has no tensors of blocks, and no mask that hides nothing: the import reads its
       functions alone, and lacks ops that compute these (argsort, new_ones).
    3. The dim of a scatter is counted from the front: of -1 the import makes a crash of IREE.
    4. Views of unknown sizes change one run of dims each.
    """
    for node in program.graph.nodes:
        if node.target is aten.scaled_dot_product_attention.default:
            _give_all_dims(node)
        elif node.target is torch.ops.higher_order.flex_attention:
            _forget_blocks(node)
        elif node.target in _SCATTERS:
            node.update_arg(1, node.args[1] % max(node.meta["val"].dim(), 1))
        elif node.target is aten._assert_tensor_metadata.default:
            # It keeps what computes blocks.
            program.graph.erase_node(node)
    split_views(program.graph, PLACES)
    program.graph.eliminate_dead_code()
    program.graph_module.delete_all_unused_submodules()
    return program


def _forget_blocks(node: torch.fx.Node) -> None:
    *blocks, mask = node.args[4]
    blocks = [None if isinstance(item, torch.fx.Node) else item for item in blocks]
    if isinstance(mask, torch.fx.Node) and _hides_nothing(mask):
        mask = None
    node.update_arg(4, (*blocks, mask))


def _hides_nothing(mask: torch.fx.Node) -> bool:
    """Whether a mask function of FlexAttention is true for all keys, as its default is."""
    body = getattr(mask.graph.owning_module, mask.target).graph
    called = {node.target for node in body.nodes if node.op == "call_function"}
    return bool(called) and called <= {aten.new_ones.default, aten.ones.default}


def _give_all_dims(node: torch.fx.Node) -> None:
    query, key, value = node.args[:3]
    mask = argument(node, 3, "attn_mask", None)
    shapes = [operand.meta["val"].shape for operand in (query, key, value)]
    rank = max(3, *(len(shape) for shape in shapes))
    for operand in (query, key, value, mask):
        if isinstance(operand, torch.fx.Node):
            full = operand
            for _ in range(rank - operand.meta["val"].dim()):
                full = _put_before(node, aten.unsqueeze.default, full, 0)
            _replace(node, operand, full)
    groups = bool(argument(node, 7, "enable_gqa", False))
    _share_batches(node, range(3), rank - 2 - groups)
    if node.meta["val"].dim() < rank:
        with node.graph.inserting_before(node):
            batched = node.graph.call_function(node.target, node.args, node.kwargs)
        batched.meta = {key: node.meta[key] for key in PLACES if key in node.meta}
        batched.meta["val"] = node.meta["val"].unsqueeze(0)
        node.target, node.args, node.kwargs = aten.squeeze.dim, (batched, 0), {}


def _share_batches(node: torch.fx.Node, places: Iterable[int], count: int) -> None:
    """Repeats operands along the dims in front that they have once and others more often."""
    nodes = [node.args[place] for place in places]
    shapes = [operand.meta["val"].shape for operand in nodes]
    for operand, shape in zip(nodes, shapes, strict=True):
        sizes = [
            next((other[dim] for other in shapes if not _is_one(other[dim])), 1)
            for dim in range(count)
        ]
        repeated = [
            size if _is_one(own) and isinstance(size, int) else -1
            for own, size in zip(shape[:count], sizes, strict=True)
        ]
        if any(size not in (-1, 1) for size in repeated):
            sizes = [*repeated, *[-1] * (len(shape) - count)]
            _replace(node, operand, _put_before(node, aten.expand.default, operand, sizes))


def _is_one(size: int | torch.SymInt) -> bool:
    return isinstance(size, int) and size == 1


def _replace(node: torch.fx.Node, old: torch.fx.Node, new: torch.fx.Node) -> None:
    if old is not new:
        node.replace_input_with(old, new)


def _put_before(
    node: torch.fx.Node, target: Any, operand: torch.fx.Node, argument: Any
) -> torch.fx.Node:
    """A node in front of another: `target` of an operand."""
    value = target(operand.meta["val"], argument)
    with node.graph.inserting_before(node):
        made = node.graph.call_function(target, (operand, argument))
    made.meta = {key: operand.meta[key] for key in PLACES if key in operand.meta}
    made.meta["val"] = value
    return made


def argument(node: torch.fx.Node, place: int, name: str, default: Any) -> Any:
    """An argument of a call by its place, or by its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
