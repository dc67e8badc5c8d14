"""`torch.compile(model, backend="attnpass")`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch.export import Dim

from ..errors import AttnError
from ..program.front_ends import require
from .compiled import CompiledModel, compile_program, device_of, refuse_gradients
from .exported import export, is_said_causal

# Dynamo loads this file before it traces.
torch.compiler.substitute_in_graph(
    torch.nn.modules.transformer._detect_is_causal_mask,
    skip_signature_check=True,
)(is_said_causal)


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """A graph that TorchDynamo found, compiled; `options` (of torch.compile) are `device` and those
    of `attnpass.compile_str`.

    Weights are arguments of such a graph, read where they lie at each call. Floats that Dynamo
    leaves open are compiled for their values, again for others. Raises AttnError where gradients
    are wanted, since attnpass compiles inference, and for a `mode`, which is Inductor's.
    """
    require("torch")
    if mode is not None:
        raise AttnError(
            f"mode={mode!r} is of torch.compile's own backend; attnpass takes options={{...}}"
        )
    refuse_gradients(example_inputs)
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    chosen = dict(options or {})
    device = chosen.pop("device", None) or device_of(tensors)
    example = [_plain(value) for value in example_inputs]
    open_numbers = _open_numbers(module, example)
    kept = [place for place in range(len(example)) if place not in open_numbers]

    @functools.cache
    def compiled(*numbers: float) -> CompiledModel:
        graph = _with_numbers(module, dict(zip(open_numbers, numbers, strict=True)))
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        shapes = {"inputs": tuple(map(_dynamic, nodes))} if nodes else None
        # What is exported is not part of what Dynamo traces.
        with tracing(None), torch.utils._python_dispatch._disable_current_modes():
            given = [example[place] for place in kept]
            program = export(_Graph(graph), given, None, shapes, strict=False)
            return compile_program(program, device, None, dict(chosen))

    compiled(*(example[place].item() for place in open_numbers))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    own = [
        number
        for number, place in enumerate(kept)
        if _is_static(placeholders[place], example[place])
    ]

    def call(*arguments: Any) -> Any:
        program = compiled(*(arguments[place].item() for place in open_numbers))
        return program.call([arguments[place] for place in kept], {}, own)

    return call


def _open_numbers(module: torch.fx.GraphModule, example: Sequence[Any]) -> list[int]:
    """The places of arguments that are Python's floats, which `torch.compile(..., dynamic=True)`
    leaves open (the eps of a norm): tensors of f64 of which nothing is read but their `item`."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [
        place
        for place, (node, value) in enumerate(zip(nodes, example, strict=True))
        if isinstance(value, torch.Tensor)
        and value.dtype == torch.float64
        and value.dim() == 0
        and node.users
        and all(user.op == "call_method" and user.target == "item" for user in node.users)
    ]


def _with_numbers(module: torch.fx.GraphModule, numbers: Mapping[int, float]) -> Any:
    """The graph with these numbers in the place of its arguments at their places."""
    if not numbers:
        return module
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    for place, number in numbers.items():
        for user in list(nodes[place].users):
            user.replace_all_uses_with(number)  # pyright: ignore[reportArgumentType]
            graph.erase_node(user)
        graph.erase_node(nodes[place])
    return torch.fx.GraphModule(module, graph)


class _Graph(torch.nn.Module):
    """A graph as a module whose arguments are one list: they have no names that torch.export
    could ask for."""

    def __init__(self, graph: torch.fx.GraphModule):
        super().__init__()
        self.graph_module = graph.eval()

    def forward(self, *inputs: Any) -> Any:
        return self.graph_module(*inputs)


def _plain(value: Any) -> Any:
    """An example argument: numbers that Dynamo made symbols of as the numbers that they were."""
    return value.node.hint if isinstance(value, torch.SymInt) else value


def _dynamic(node: torch.fx.Node) -> Any:
    """Which dims of an argument Dynamo left open."""
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt):
        return Dim.AUTO
    if not isinstance(value, torch.Tensor):
        return None
    open_dims = [place for place, size in enumerate(value.shape) if isinstance(size, torch.SymInt)]
    return dict.fromkeys(open_dims, Dim.AUTO) or None


def _is_static(node: torch.fx.Node, value: Any) -> bool:
    """Whether an argument is a weight or a buffer, the same at each call."""
    marked = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return bool(marked) or isinstance(value, torch.nn.Parameter)
