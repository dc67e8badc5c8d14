"""What a graph's program depends on, so that equal graphs have one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch

# What an argument of an op may be, beside nodes and lists of these: equal if its text is.
_PLAIN = (bool, int, float, complex, str, type(None), type(...), torch.dtype, torch.device)
_PLAIN += (torch.layout, torch.memory_format)


class _NoKey(Exception):
    """Something in a graph that has no key."""


def program_key(
    module: torch.fx.GraphModule, device: str, options: Mapping[str, Any]
) -> Hashable | None:
    """A key of TorchDynamo's graph, compiled with these options; None where parts of it may differ
    though they look alike (tensors that it holds, modules, objects)."""
    places: dict[torch.fx.Node, int] = {}
    lines: list[Hashable] = [device, repr(sorted(options.items())), *_surroundings()]
    try:
        for place, node in enumerate(module.graph.nodes):
            if node.op == "placeholder":
                lines.append(_argument_key(node))
            elif node.op in ("call_function", "call_method", "output"):
                operands = _operand_key(node.args, places), _operand_key(node.kwargs, places)
                lines.append((node.op, node.target, operands))
            else:
                return None
            places[node] = place
    except _NoKey:
        return None
    return tuple(lines)


def _surroundings() -> list[Hashable]:
    """What ops ask for beside their arguments."""
    return [torch.get_default_dtype(), str(torch.get_default_device()), *autocasts()]


def autocasts() -> list[torch.dtype | None]:
    """The types that autocast makes of f32, on CPUs and on GPUs; None where it is off."""
    return [
        torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        for kind in ("cpu", "cuda")
    ]


def _argument_key(node: torch.fx.Node) -> Hashable:
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt):
        return str(value.node.expr), value.node.hint
    if not isinstance(value, torch.Tensor):
        raise _NoKey
    sizes = [
        (str(size), getattr(getattr(size, "node", size), "hint", size)) for size in value.shape
    ]
    is_parameter = isinstance(value, torch.nn.Parameter)
    return value.dtype, str(value.device), value.layout, tuple(sizes), is_parameter


def _operand_key(value: Any, places: Mapping[torch.fx.Node, int]) -> Hashable:
    if isinstance(value, torch.fx.Node):
        return "node", places[value]
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_operand_key(one, places) for one in value)
    if isinstance(value, dict):
        return tuple((name, _operand_key(one, places)) for name, one in value.items())
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return "slice", tuple(_operand_key(one, places) for one in parts)
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    raise _NoKey
