"""Models as programs that IREE can import: exported, decomposed, and without hidden state."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram, default_decompositions
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from ..errors import AttnError, first_line
from .control_flow import scans_as_loops
from .flex import write_out
from .known import KnownNumbers
from .normalize import PLACES, argument
from .recipes import COMPOSED, DECOMPOSED, RECIPES, library_recipes

aten = torch.ops.aten

# The arguments by which ops draw random numbers or do not.
_DRAWS = ("train", "training", "dropout", "dropout_p")
_MUTATIONS = {
    OutputKind.BUFFER_MUTATION: InputKind.BUFFER,
    OutputKind.USER_INPUT_MUTATION: InputKind.USER_INPUT,
    OutputKind.PARAMETER_MUTATION: InputKind.PARAMETER,
}


@dataclass
class StatelessProgram:
    """An exported program whose state goes in and out: what IREE's importer reads of one.

    Each tensor that the model changes is an argument, in front of the user's, and its new value a
    result, in front of the user's; `changed` has the tensors that callers do not give (buffers),
    and the places of those that they do, in the order of these results.
    """

    graph: torch.fx.Graph
    graph_signature: ExportGraphSignature
    state_dict: Mapping[str, Any]
    constants: Mapping[str, Any]
    range_constraints: Mapping[Any, Any]
    hidden: list[torch.Tensor] = field(default_factory=list)
    changed: list[torch.Tensor | int] = field(default_factory=list)


def export(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    strict: bool,
) -> ExportedProgram:
    """The model as torch.export sees it; AttnError, with torch's words, where it does not."""

    def exported() -> ExportedProgram:
        return torch.export.export(
            model,
            tuple(args),
            dict(kwargs or {}),
            dynamic_shapes=dynamic_shapes,
            strict=strict,
        )

    with torch.no_grad(), _masks_are_not_looked_at():
        try:
            program = exported()
        except Exception as error:
            said = f"torch.export cannot export {type(model).__name__}: {_reason(error)}"
            try:
                with KnownNumbers(model) as known:
                    program = exported()
                known.check(program.graph_signature.buffers_to_mutate.values())
            except Exception:
                raise AttnError(said, _place_of(error)) from error
    _refuse_random(program)
    return program


def _reason(error: Exception) -> str:
    """The first paragraph of an error of torch's, in a line, without where to read more."""
    paragraph = str(error).strip().split("\n\n")[0]
    # A size that several arguments have is told of once.
    lines = dict.fromkeys(line.strip() for line in paragraph.splitlines())
    said = " ".join(lines) or type(error).__name__
    said = said.replace(' For more information, run with TORCH_LOGS="+dynamic".', "")
    # Of caches that grow torch asks whether 12 + 12 n is less than 24 + 24 n.
    if said.startswith("Constraints violated") and "Suggested fixes" not in said:
        said += (
            " torch.export.export(..., prefer_deferred_runtime_asserts_over_guards=True) may "
            "export it: attnpass.torch.compile takes what that returns"
        )
    return said


def _place_of(error: Exception) -> str:
    """The line of a model that an error was raised in, as `file:line:col`; empty where none was."""
    frames = [
        (Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    torchs = Path(torch.__file__).parent
    others = (torchs, Path(sympy.__file__).parent)
    # In front of torch's own are those that called us.
    inside = itertools.dropwhile(lambda frame: torchs not in frame[0].parents, frames)
    places = [
        f"{path}:{line}:0"
        for path, line in inside
        if path.parent != Path(contextlib.__file__).parent
        and path.is_absolute()
        and not any(package in path.parents for package in others)
    ]
    return places[-1] if places else ""


def is_said_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """What torch.nn.TransformerEncoder and TransformerDecoder ask of their masks: whether one is
    the causal one, to say so beside it. torch looks at its numbers, which breaks a graph; with the
    mask alone they are the same."""
    return bool(is_causal)


@contextlib.contextmanager
def _masks_are_not_looked_at() -> Iterator[None]:
    module = torch.nn.modules.transformer
    original = module._detect_is_causal_mask
    module._detect_is_causal_mask = is_said_causal
    try:
        yield
    finally:
        module._detect_is_causal_mask = original


def decomposed(program: ExportedProgram, more: Collection[str] = ()) -> ExportedProgram:
    """The program without the ops that IREE's import lacks; those named in `more` (as
    `aten.foo.default`), too, where torch says what they are made of."""
    table = dict(torch._decomp.get_decompositions(DECOMPOSED))
    # Others than torch's own may have been registered since.
    composed = default_decompositions() if more else _torchs_own()
    known = {**torch._decomp.decomposition_table, **composed}
    table |= {op: parts for op, parts in known.items() if str(op) in (*COMPOSED, *more)}
    table |= RECIPES | library_recipes()
    _join_names(program)
    write_out(program, PLACES)
    scans_as_loops(program.graph_module, PLACES)
    try:
        with torch.no_grad():
            made = program.run_decompositions(table)
    except Exception as error:
        raise AttnError(f"torch cannot decompose the program: {first_line(error)}") from error
    _refuse_effects(made.graph)
    return made


@functools.cache
def _torchs_own() -> Mapping[Any, Any]:
    """What torch's own ops are made of, which it takes 0.1 s to list."""
    return dict(default_decompositions())


def _join_names(program: ExportedProgram) -> None:
    """A tensor that the model knows by several names (a cache of transformers: a buffer, and a
    plain tensor of its layer) goes by the first, in place: torch takes none apart that changes."""
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    first: dict[Any, str] = {}
    kept = []
    for spec in signature.input_specs:
        target = str(spec.target)
        value = program.state_dict.get(target, program.constants.get(target))
        if (
            isinstance(value, torch.Tensor)
            and value.numel()
            and isinstance(spec.arg, TensorArgument)
        ):
            key = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
            name = first.setdefault(key, spec.arg.name)
            if name != spec.arg.name and spec.kind == InputKind.CONSTANT_TENSOR:
                node = nodes[spec.arg.name]
                node.replace_all_uses_with(nodes[name])
                program.graph.erase_node(node)
                continue
        kept.append(spec)
    if len(kept) < len(signature.input_specs):
        signature.input_specs[:] = kept
        program.graph_module.recompile()


def has_doubles(program: ExportedProgram) -> bool:
    """Whether the program computes in f64."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.dtype == torch.float64 for v in values)


def stateless(program: ExportedProgram) -> StatelessProgram:
    """The program as a function: what it changes goes in as an argument, and out as a result."""
    signature = program.graph_signature
    inputs, outputs = list(signature.input_specs), list(signature.output_specs)
    found = StatelessProgram(
        program.graph,
        signature,
        program.state_dict,
        program.constants,
        program.range_constraints,
    )
    user = [spec.arg.name for spec in inputs if spec.kind == InputKind.USER_INPUT]
    results, hidden = [], []
    for spec in outputs:
        if spec.kind == OutputKind.USER_OUTPUT:
            continue
        if spec.kind not in _MUTATIONS or not isinstance(spec.arg, TensorArgument):
            raise AttnError(f"the program has a result that is none of a model: {spec.kind.name}")
        results.append(OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None))
        if spec.kind == OutputKind.USER_INPUT_MUTATION:
            found.changed.append(user.index(spec.target))
            continue
        target = str(spec.target)
        values = program.state_dict if target in program.state_dict else program.constants
        hidden.append(target)
        found.hidden.append(values[target])
        found.changed.append(values[target])
    results += [
        _number(spec)
        for spec in outputs
        if spec.kind == OutputKind.USER_OUTPUT and not isinstance(spec.arg, ConstantArgument)
    ]
    by_target = {spec.target: spec for spec in inputs if spec.target in hidden}
    first = [InputSpec(InputKind.USER_INPUT, by_target[name].arg, None) for name in hidden]
    rest = [spec for spec in inputs if spec.target not in hidden]
    found.graph_signature = ExportGraphSignature([*first, *rest], results)
    return found


def user_inputs(program: ExportedProgram) -> list[Any]:
    """What the program was traced with, for each leaf of its arguments: a fake tensor, a symbolic
    number, or a constant's ConstantArgument."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [
        spec.arg if isinstance(spec.arg, ConstantArgument) else nodes[spec.arg.name].meta["val"]
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    ]


def user_outputs(program: ExportedProgram) -> list[Any]:
    """What each leaf of the results is: as `user_inputs`."""
    nodes = {node.name: node for node in program.graph.nodes}
    return [
        spec.arg if isinstance(spec.arg, ConstantArgument) else nodes[spec.arg.name].meta["val"]
        for spec in program.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT
    ]


def _number(spec: OutputSpec) -> OutputSpec:
    """A result that is a float, as the importer knows numbers: by the name of their node."""
    if isinstance(spec.arg, SymBoolArgument):
        raise AttnError(
            f"IREE 3.13 returns no truth value of Python's ({spec.arg.name}): return the tensor, "
            "without item()"
        )
    if not isinstance(spec.arg, SymFloatArgument):
        return spec
    return OutputSpec(spec.kind, SymIntArgument(spec.arg.name), spec.target)


def _refuse_effects(graph: torch.fx.Graph) -> None:
    """What torch runs in an order of its own: checks of matrices that `recipes` leave to it."""
    for node in graph.nodes:
        if str(node.target) == "with_effects":
            # A check says in words what it is of.
            words = [str(argument) for argument in node.args[1:]]
            name = next((word for word in words if word.startswith("torch.")), words[0])
            places = re.findall(r'File "(.+)", line (\d+)', node.stack_trace or "")
            raise AttnError(
                f"IREE 3.13 has no {name}; put other ops in its place",
                f"{':'.join(places[-1])}:0" if places else "",
            )


def _refuse_random(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            continue
        arguments = enumerate(node.target._schema.arguments)
        if all(
            argument(node, place, each.name, each.default_value)
            for place, each in arguments
            if each.name in _DRAWS
        ):
            raise AttnError(
                f"the model draws random numbers ({node.target}): call model.eval() before it is "
                "compiled"
            )
