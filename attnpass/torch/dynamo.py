"""`torch.compile(model, backend="attnpass")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch.export import Dim

from ..errors import AttnError
from ..program.front_ends import require
from .compiled import CompiledModel, compile_program
from .exported import export


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A graph that TorchDynamo found, compiled; `options` (of torch.compile) are `device` and those
    of `attnpass.compile_str`.

    Weights are arguments of such a graph, read where they lie at each call. Raises AttnError where
    gradients are wanted: attnpass compiles inference.
    """
    require("torch")
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise AttnError(
            "attnpass compiles inference, not gradients: call the model under torch.no_grad() or "
            "torch.inference_mode()"
        )
    chosen = dict(options or {})
    device = chosen.pop("device", None) or _device_of(tensors)
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    shapes = {"inputs": tuple(map(_dynamic, nodes))}
    example = [_plain(value) for value in example_inputs]
    # What is exported is not part of what Dynamo traces.
    with tracing(None), torch.utils._python_dispatch._disable_current_modes():
        program = export(_Graph(module), example, None, shapes, strict=False)
        compiled = compile_program(program, device, None, chosen)
    own = [place for place, node in enumerate(nodes) if _is_static(node, example[place])]
    return _as_dynamo_calls(compiled, own)


class _Graph(torch.nn.Module):
    """A graph as a module whose arguments are one list: they have no names that torch.export
    could ask for."""

    def __init__(self, graph: torch.fx.GraphModule):
        super().__init__()
        self.graph_module = graph.eval()

    def forward(self, *inputs: Any) -> Any:
        return self.graph_module(*inputs)


def _as_dynamo_calls(compiled: CompiledModel, own: Sequence[int]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return compiled.call(arguments, {}, own)

    return call


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


def _device_of(tensors: Sequence[torch.Tensor]) -> str:
    for tensor in tensors:
        if tensor.is_cuda:
            return f"{'hip' if torch.version.hip else 'cuda'}:{tensor.device.index or 0}"
    return "cpu"
