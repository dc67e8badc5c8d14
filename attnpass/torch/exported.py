"""Models as programs that IREE can import: exported, decomposed, and without hidden state."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram, default_decompositions
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from ..errors import AttnError, first_line
from .flex import write_out
from .recipes import COMPOSED, DECOMPOSED, RECIPES, library_recipes
from .views import split_views

aten = torch.ops.aten

# What gives other numbers at each call.
_RANDOM = ("dropout", "native_dropout", "bernoulli", "rand_like", "randn_like", "rand", "randn")
# What says where an op comes from.
_PLACES = ("stack_trace", "nn_module_stack")
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
    try:
        with torch.no_grad(), _masks_are_not_looked_at():
            program = torch.export.export(
                model,
                tuple(args),
                dict(kwargs or {}),
                dynamic_shapes=dynamic_shapes,
                strict=strict,
            )
    except Exception as error:
        raise AttnError(
            f"torch.export cannot export {type(model).__name__}: {first_line(error)}"
        ) from error
    _refuse_random(program)
    return program


@contextlib.contextmanager
def _masks_are_not_looked_at() -> Iterator[None]:
    """torch.nn.TransformerDecoder looks whether its mask is the causal one, to say so beside it: a
    look at numbers, which torch.export refuses. With the mask alone they are the same."""
    module = torch.nn.modules.transformer
    original = module._detect_is_causal_mask

    def detect(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        return bool(is_causal)

    module._detect_is_causal_mask = detect
    try:
        yield
    finally:
        module._detect_is_causal_mask = original


def decomposed(program: ExportedProgram, more: Collection[str] = ()) -> ExportedProgram:
    """The program without the ops that IREE's import lacks; those named in `more` (as
    `aten.foo.default`), too, where torch says what they are made of."""
    table = dict(torch._decomp.get_decompositions(DECOMPOSED))
    known = {**torch._decomp.decomposition_table, **default_decompositions()}
    table |= {op: parts for op, parts in known.items() if str(op) in (*COMPOSED, *more)}
    table |= RECIPES | library_recipes()
    _join_names(program)
    write_out(program, _PLACES)
    try:
        with torch.no_grad():
            return program.run_decompositions(table)
    except Exception as error:
        raise AttnError(f"torch cannot decompose the program: {first_line(error)}") from error


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


def normalize(program: ExportedProgram) -> ExportedProgram:
    """The program as IREE 3.13 imports it right, changed in place.

    1. The operands of attention have the same dims in front, masks as many as queries, and there is
       a batch: the import fails on fewer, which torch broadcasts.
    2. FlexAttention has no tensors of blocks, and no mask that hides nothing: the import reads its
       functions alone, and lacks ops that compute these (argsort, new_ones).
    3. Views of unknown sizes change one run of dims each.
    """
    for node in program.graph.nodes:
        if node.target is aten.scaled_dot_product_attention.default:
            _give_all_dims(node)
        elif node.target is torch.ops.higher_order.flex_attention:
            _forget_blocks(node)
        elif node.target is aten._assert_tensor_metadata.default:
            # It keeps what computes blocks.
            program.graph.erase_node(node)
    split_views(program.graph, _PLACES)
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
    mask = _argument(node, 3, "attn_mask", None)
    shapes = [operand.meta["val"].shape for operand in (query, key, value)]
    rank = max(3, *(len(shape) for shape in shapes))
    for operand in (query, key, value, mask):
        if isinstance(operand, torch.fx.Node):
            full = operand
            for _ in range(rank - operand.meta["val"].dim()):
                full = _put_before(node, aten.unsqueeze.default, full, 0)
            _replace(node, operand, full)
    groups = bool(_argument(node, 7, "enable_gqa", False))
    _share_batches(node, range(3), rank - 2 - groups)
    if node.meta["val"].dim() < rank:
        with node.graph.inserting_before(node):
            batched = node.graph.call_function(node.target, node.args, node.kwargs)
        batched.meta = {key: node.meta[key] for key in _PLACES if key in node.meta}
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
    made.meta = {key: operand.meta[key] for key in _PLACES if key in operand.meta}
    made.meta["val"] = value
    return made


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
        spec
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


def _refuse_random(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "").partition(".")[0]
        drops = name == "scaled_dot_product_attention" and _argument(node, 4, "dropout_p", 0.0)
        keeps = name == "dropout" and not _argument(node, 2, "train", True)
        if (name in _RANDOM and not keeps) or drops:
            raise AttnError(
                f"the model draws random numbers ({node.target}): call model.eval() before it is "
                "compiled"
            )


def _argument(node: torch.fx.Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
