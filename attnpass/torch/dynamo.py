"""`torch.compile(model, backend="attnpass")`."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.compiler.tools import CompilerToolError
from torch._guards import tracing
from torch.export import Dim

from ..errors import AttnError, InternalError
from ..program.compiler import ProgramCompiler
from ..program.front_ends import require
from ..report.records import Report
from .aliases import Aliases, share_elements
from .compiled import CompiledModel, compile_program, device_of, memory_of
from .exported import export, is_said_causal
from .gradients import REFUSED, REFUSED_CHANGES, Differentiable, are_wanted
from .graph_keys import autocasts, program_key

_VIEWS = frozenset(
    (
        *("getitem", "size", "view", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand"),
        *("flatten", "unflatten", "chunk", "split", "unbind", "narrow", "select", "detach"),
    )
)

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
    """A graph that TorchDynamo found, compiled; `options` (of torch.compile) are `device`, a
    `report`, to which each graph adds, and those of `attnpass.compile_str`.

    Weights are arguments of such a graph, read where they lie at each call. Floats that Dynamo
    leaves open are compiled for their values, again for others. Where gradients are asked for, and
    for a graph that cannot be compiled, PyTorch runs the graph: a RuntimeWarning says why. `mode`
    is Inductor's and has no effect. Raises AttnError for a device that does not exist and an
    option's wrong value, TypeError for an unknown option.
    """
    require("torch")
    if mode is not None:
        _warn(f"mode={mode!r} is of torch.compile's own backend: it has no effect on attnpass")
    chosen = dict(options or {})
    device = chosen.pop("device", None) or device_of(example_inputs)
    report = chosen.pop("report", None)
    ProgramCompiler(device, None, chosen)
    wants_gradients = are_wanted(example_inputs)
    try:
        if _leaves_grad_mode(module):
            raise AttnError("it switches gradients on or off for what comes behind it")
        aliases = Aliases(module)
        if not aliases.kept and _only_views(module):
            return module.forward
        if wants_gradients and (aliases or any(autocasts())):
            raise AttnError(f"{REFUSED} (of views, or under autocast)")
        graph = aliases.without(module) if aliases else module
        run = _TracedGraph(graph, example_inputs, device, chosen, report, not wants_gradients)
    except Exception as error:
        return _left(module, error)
    if wants_gradients:
        return Differentiable(run, module, aliases.results)
    if aliases:
        return lambda *arguments: aliases.restored(run(*arguments), arguments)
    return run


# Programs that are in use, none of which is called itself: it would hold a model's weights.
# TorchDynamo asks again for a graph that it knows, for arguments with other strides or that want
# gradients.
_programs: weakref.WeakValueDictionary[Any, CompiledModel] = weakref.WeakValueDictionary()


class _TracedGraph:
    """A graph as a program on `device`, of `options`; called as the graph is."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        device: str,
        options: dict[str, Any],
        report: Report | None,
        may_write: bool,
    ):
        self._module, self._device, self._options = module, device, options
        self._report, self._may_write = report, may_write
        self._example = [_plain(value) for value in example_inputs]
        self._numbers = _open_numbers(module, self._example)
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        # Sizes and strides that nothing computes with.
        self._idle = [
            place
            for place, node in enumerate(placeholders)
            if not node.users and isinstance(node.meta.get("example_value"), torch.SymInt)
        ]
        left_out = {*self._numbers, *self._idle}
        self._kept = [place for place in range(len(self._example)) if place not in left_out]
        self._own = [
            number
            for number, place in enumerate(self._kept)
            if _is_static(placeholders[place], self._example[place])
        ]
        self._programs: dict[str, CompiledModel] = {}
        self._tries = 0
        self._changed = self._program(example_inputs).changed
        # Weights are as long as their model is; without open numbers, no more is compiled.
        weights = {self._kept[number] for number in self._own}
        self._example = [
            None if place in weights or not self._numbers else value
            for place, value in enumerate(self._example)
        ]

    def __call__(self, *arguments: Any) -> Any:
        kept = arguments
        try:
            if len(self._kept) < len(arguments):
                kept = [arguments[place] for place in self._kept]
            program = self._program(arguments) if self._numbers else self._programs[""]
            if self._changed and share_elements(kept, self._changed):
                raise AttnError("it changes an argument that has elements of another argument")
        except Exception as error:
            return _left(self._module, error)(*arguments)
        try:
            return program.call(kept, {}, self._own)
        except AttnError as error:
            # It has not begun: arguments that torch.export took more for granted of than Dynamo.
            return _left(self._module, error)(*arguments)

    def _program(self, arguments: Sequence[Any]) -> CompiledModel:
        """The program for the values that open numbers have in these arguments."""
        numbers = [arguments[place].item() for place in self._numbers]
        # As text, a NaN is one number, and 0.0 is not -0.0.
        key = ", ".join(map(repr, numbers))
        if key not in self._programs:
            self._tries += 1
            if self._tries > torch._dynamo.config.recompile_limit:
                raise AttnError("a number has another value at each call: pass it as a tensor")
            program = self._programs[key] = self._compiled(numbers, arguments)
            if self._report is not None:
                self._report.extend(program.report)
        return self._programs[key]

    def _compiled(self, numbers: Sequence[float], arguments: Sequence[Any]) -> CompiledModel:
        known = dict(zip(self._numbers, numbers, strict=True))
        graph = _with_numbers(self._module, known, self._idle)
        key = program_key(graph, self._device, self._options)
        program = _programs.get(key)
        if program is None:
            program = self._compiled_anew(graph, arguments)
            if key is not None:
                _programs[key] = program
        elif program.changed and not self._may_write:
            raise AttnError(REFUSED_CHANGES)
        return program.twin()

    def _compiled_anew(
        self, graph: torch.fx.GraphModule, arguments: Sequence[Any]
    ) -> CompiledModel:
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        shapes = {"inputs": tuple(map(_dynamic, nodes))} if nodes else None
        # What is exported is not part of what Dynamo traces.
        with tracing(None), torch.utils._python_dispatch._disable_current_modes():
            given = [
                arguments[place] if self._example[place] is None else self._example[place]
                for place in self._kept
            ]
            program = export(_Graph(graph), _apart(given), None, shapes, strict=False)
            return compile_program(
                program, self._device, None, dict(self._options), self._may_write
            )


def _left(module: torch.fx.GraphModule, error: Exception) -> Callable[..., Any]:
    """The graph as PyTorch runs it, since it cannot be compiled."""
    known = isinstance(error, AttnError | CompilerToolError)
    said = str(error if known else InternalError(error))
    if isinstance(error, CompilerToolError):
        lines = [line for line in said.splitlines() if "error:" in line]
        said = lines[0] if lines else said.partition("\n")[0]
    _warn(f"PyTorch runs a graph that attnpass does not compile: {said}")
    return module.forward


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def _leaves_grad_mode(module: torch.fx.GraphModule) -> bool:
    """Whether a graph leaves gradients on where they were off, or off where they were on."""
    modes = [
        node.args[0] for node in module.graph.nodes if node.target is torch._C._set_grad_enabled
    ]
    return modes[-1:] == [not torch.is_grad_enabled()]


def _only_views(module: torch.fx.GraphModule) -> bool:
    """Whether a graph moves no byte."""
    return all(
        node.op in ("placeholder", "output")
        or str(getattr(node.target, "__name__", node.target)) in _VIEWS
        for node in module.graph.nodes
    )


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


def _with_numbers(
    module: torch.fx.GraphModule, numbers: Mapping[int, float], idle: Sequence[int]
) -> torch.fx.GraphModule:
    """The graph with these numbers in the place of its arguments at their places, and without
    those that are `idle`."""
    if not numbers and not idle:
        return module
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    for place, number in numbers.items():
        for user in list(nodes[place].users):
            user.replace_all_uses_with(number)  # pyright: ignore[reportArgumentType]
            graph.erase_node(user)
    for place in (*numbers, *idle):
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


def _apart(values: Sequence[Any]) -> list[Any]:
    """Example arguments in memory of their own: a program must not depend on whether they share
    some, which each call asks."""
    found: list[Any] = []
    seen: set[int] = set()
    for value in values:
        memory = memory_of(value)
        found.append(value.clone() if memory in seen else value)
        seen |= set() if memory is None else {memory}
    return found


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
