"""Bytes (pixels, packed weights), computed with in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch

_CONVERT = torch.ops.prims.convert_element_type.default
_WIDE = torch.int32
# What IREE 3.13 gets right on bytes as they are: what moves them, ...
_MOVES = {
    *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "clone", "alias"),
    *("slice", "select", "split", "split_with_sizes", "unbind", "squeeze", "unsqueeze", "flip"),
    *("cat", "stack", "index", "index_select", "gather", "embedding", "index_put", "repeat"),
    *("slice_scatter", "select_scatter", "unfold", "diagonal", "lift_fresh_copy"),
    *("convert_element_type", "sym_size", "_assert_tensor_metadata", "detach", "constant_pad_nd"),
}
# (these among each other alone), ...
_JOINS = {"cat", "stack"}
# ... and arithmetic that does not ask for a sign.
_SIGNLESS = {
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "add", "sub", "mul"),
    *("__and__", "__or__", "__xor__"),
    *("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__"),
}
# IREE has no program of numbers above 127: these are written with a sign, by their bits.
_FILLS = {"full", "full_like"}
# Numbers that bytes are compared with, or bounded by, are bytes.
_WITH_BYTES = {"gt", "ge", "lt", "le", "eq", "ne", "clamp", "clamp_min", "clamp_max"}
# Its import has no programs of these with a number, ...
_OF_TENSORS = {"add", "sub", "mul", "rsub"}
# ... of bytes with a sign, either; nor of their quotients, of what they leave, of products of
# matrices, of one number in all places, of extremes of all.
_QUOTIENTS = {"div", "floor_divide", "remainder", "fmod"}
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "dot", "matmul"}
_SIGNED = {torch.ops.aten.fill.Scalar, torch.ops.aten.max.default, torch.ops.aten.min.default}


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
        if _name(node.target) in _FILLS and node.meta["val"].dtype == torch.uint8:
            number = node.args[1]
            node.update_arg(1, number - 256 if isinstance(number, int) and number > 127 else number)
            continue
        # Of elements or places: IREE fails where it makes bytes of a known number.
        kind, is_range = node.kwargs.get("dtype"), _name(node.target) == "arange"
        makes_bytes = is_range and kind == torch.int8
        makes_bytes |= kind == torch.uint8 and (is_range or bool(node.all_input_nodes))
        if not narrow and not makes_bytes:
            continue
        with graph.inserting_before(node):
            for value in narrow:
                node.replace_input_with(value, convert(value, _WIDE))
        if node.target is _CONVERT or _name(node.target) == "copy":
            continue
        if _name(node.target) in _WITH_BYTES or _is_whole_quotient(node):
            for place, number in enumerate(node.args[1:], 1):
                node.update_arg(place, number % 256 if isinstance(number, int) else number)
        if makes_bytes:
            node.update_kwarg("dtype", _WIDE)
        # Results keep their names, by which the program knows them.
        results = [node] if isinstance(node.meta["val"], torch.Tensor) else list(node.users)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda value: value.meta["val"])
        with getattr(_first(node.meta["val"]), "fake_mode", nullcontext()):
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


def _is_whole_quotient(node: torch.fx.Node) -> bool:
    """Whether it gives bytes without a sign, of what a number, a byte too, divides."""
    return _name(node.target) in _QUOTIENTS and node.meta["val"].dtype == torch.uint8


def _is_computed_with(node: torch.fx.Node, value: torch.fx.Node) -> bool:
    """Whether an op is to read 32 bits of an operand."""
    kind, name = getattr(value.meta.get("val"), "dtype", None), _name(node.target)
    if node.target is _CONVERT or name == "copy":
        # Bytes of floats.
        if node.meta["val"].dtype != torch.uint8:
            return name == "copy" and kind == torch.uint8
        return kind is not None and kind.is_floating_point
    if kind == torch.int8:
        of_number = name in _OF_TENSORS and not isinstance(node.args[1], torch.fx.Node)
        is_wide = node.target in _SIGNED or name in _QUOTIENTS | _PRODUCTS or of_number
        return is_wide and node.meta["val"].dtype == torch.int8
    if kind != torch.uint8 or name in _MOVES - _JOINS:
        return False
    values = [node.meta["val"], *(other.meta.get("val") for other in node.all_input_nodes)]
    is_plain = name in _SIGNLESS or name in _JOINS
    is_plain &= name not in _OF_TENSORS or isinstance(node.args[1], torch.fx.Node)
    return not is_plain or any(getattr(each, "dtype", kind) != kind for each in values)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def _name(target: Any) -> str:
    return target._schema.name.partition("::")[2]
