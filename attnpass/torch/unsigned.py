"""Unsigned bytes (pixels, packed weights), computed with in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

_CONVERT = torch.ops.prims.convert_element_type.default
_WIDE = torch.int32
# What IREE 3.13 gets right on bytes as they are: what moves them, ...
_MOVES = {
    *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "clone", "alias"),
    *("slice", "select", "split", "split_with_sizes", "unbind", "squeeze", "unsqueeze", "flip"),
    *("cat", "stack", "index", "index_select", "gather", "embedding", "index_put", "repeat"),
    *("slice_scatter", "select_scatter", "unfold", "diagonal", "copy", "lift_fresh_copy"),
    *("convert_element_type", "sym_size", "_assert_tensor_metadata", "detach", "constant_pad_nd"),
}
# ... and arithmetic that does not ask for a sign.
_SIGNLESS = {
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "add", "sub", "mul"),
    *("__and__", "__or__", "__xor__"),
    *("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__"),
}
# Its import has no quotients of bytes with a sign, either, nor what they leave.
_QUOTIENTS = {"div", "floor_divide", "remainder", "fmod"}


def widen_bytes(graph: torch.fx.Graph, kept: Iterable[str]) -> None:
    """Has ops on unsigned bytes read 32 bits, and makes bytes of their results.

    IREE 3.13 computes with them as if they had a sign (of `x / 255` a half is below 0), or has no
    program. A float becomes a byte by way of 32 bits, too: above 127 IREE's is 127. New steps
    have the metadata `kept` of what they stand beside.
    """

    def convert(value: torch.fx.Node, kind: torch.dtype) -> torch.fx.Node:
        made = graph.call_function(_CONVERT, (value, kind))
        made.meta = {key: value.meta[key] for key in kept if key in value.meta}
        made.meta["val"] = _CONVERT(value.meta["val"], kind)
        return made

    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        narrow = [value for value in node.all_input_nodes if _is_computed_with(node, value)]
        if not narrow:
            continue
        with graph.inserting_before(node):
            for value in narrow:
                node.replace_input_with(value, convert(value, _WIDE))
        if node.target is _CONVERT:
            continue
        # Results keep their names, by which the program knows them.
        results = [node] if isinstance(node.meta["val"], torch.Tensor) else list(node.users)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda value: value.meta["val"])
        values = node.target(*args, **kwargs)
        for result in results:
            value = values if result is node else values[result.args[1]]
            if value.dtype == result.meta["val"].dtype:
                continue
            with graph.inserting_before(result):
                wide = graph.call_function(result.target, result.args, result.kwargs)
            wide.meta = {key: result.meta[key] for key in kept if key in result.meta}
            wide.meta["val"] = value
            result.target, result.args, result.kwargs = (
                _CONVERT,
                (wide, result.meta["val"].dtype),
                {},
            )
        if results != [node]:
            node.meta["val"] = values
            node.meta.pop("tensor_meta", None)


def _is_computed_with(node: torch.fx.Node, value: torch.fx.Node) -> bool:
    """Whether an op is to read 32 bits of an operand."""
    kind, name = getattr(value.meta.get("val"), "dtype", None), _name(node.target)
    if node.target is _CONVERT:
        return node.args[1] == torch.uint8 and kind is not None and kind.is_floating_point
    if kind == torch.int8:
        return name in _QUOTIENTS and node.meta["val"].dtype == torch.int8
    if kind != torch.uint8 or name in _MOVES:
        return False
    return name not in _SIGNLESS or getattr(node.meta["val"], "dtype", None) != kind


def _name(target: Any) -> str:
    return target._schema.name.partition("::")[2]
