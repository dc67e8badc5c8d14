"""Models as programs that IREE can import: exported, decomposed, and without hidden state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from .views import split_views

aten = torch.ops.aten

# What IREE 3.13's import from torch leaves as it is, or lowers worse than what it is made of: the
# list of iree-turbine, which tests it against IREE.
_DECOMPOSED = (
    aten.norm.ScalarOpt_dim,
    aten.native_group_norm,
    aten.upsample_bilinear2d.vec,
    aten.native_layer_norm,
    aten.masked_fill.Tensor,
    aten.masked_fill.Scalar,
    aten.t,
    aten.addmm,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit.no_stats,
    aten.squeeze.dims,
    aten.soft_margin_loss,
    aten.im2col,
    aten._euclidean_dist,
    aten.index_copy,
    aten.index_copy_,
    aten.grid_sampler_2d,
    aten.log_sigmoid_forward,
    aten.unsafe_split.Tensor,
    aten.dot,
    aten._adaptive_avg_pool2d,
    aten._prelu_kernel,
    aten.full,
    aten._log_softmax,
    aten._to_copy,
    aten.lift_fresh_copy.default,
    aten._unsafe_index.Tensor,
    aten.unbind.int,
    aten.linspace.Tensor_Tensor,
)
# What torch makes of others by itself, and IREE 3.13's import fails on.
_COMPOSED = (
    *("aten._weight_norm.default", "aten._weight_norm_interface.default"),
    *("aten.meshgrid.default", "aten.meshgrid.indexing"),
    *("aten.logsumexp.default", "aten.instance_norm.default", "aten.isfinite.default"),
    *(f"aten._upsample_nearest_exact{dims}d.vec" for dims in (1, 2, 3)),
)


def _with_tensor(op: Any) -> Any:
    return lambda x, y: op(x, torch.full((), y, dtype=x.dtype, device=x.device))


def _fmod(x: Any, y: Any) -> Any:
    return x - torch.div(x, y, rounding_mode="trunc") * y


# What neither IREE nor torch takes apart.
_RECIPES = {
    aten.bitwise_or.Scalar: _with_tensor(aten.bitwise_or.Tensor),
    aten.bitwise_xor.Scalar: _with_tensor(aten.bitwise_xor.Tensor),
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.log10.default: lambda x: torch.log2(x) * 0.30102999566398120,
}
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
        with torch.no_grad():
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


def decomposed(program: ExportedProgram, more: Collection[str] = ()) -> ExportedProgram:
    """The program without the ops that IREE's import lacks; those named in `more` (as
    `aten.foo.default`), too, where torch says what they are made of."""
    table = dict(torch._decomp.get_decompositions(_DECOMPOSED))
    known = {**torch._decomp.decomposition_table, **default_decompositions()}
    table |= {op: parts for op, parts in known.items() if str(op) in (*_COMPOSED, *more)}
    table |= _RECIPES
    try:
        with torch.no_grad():
            return program.run_decompositions(table)
    except Exception as error:
        raise AttnError(f"torch cannot decompose the program: {first_line(error)}") from error


def has_doubles(program: ExportedProgram) -> bool:
    """Whether the program computes in f64."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.dtype == torch.float64 for v in values)


def normalize(program: ExportedProgram) -> ExportedProgram:
    """The program as IREE 3.13 imports it right, changed in place.

    1. Masks have as many dims as queries: the import fails on fewer, which torch broadcasts.
    2. FlexAttention has no tensors of blocks, and no mask that hides nothing: the import reads its
       functions alone, and lacks ops that compute these (argsort, new_ones).
    3. Views of unknown sizes change one run of dims each.
    """
    for node in program.graph.nodes:
        if node.target is aten.scaled_dot_product_attention.default:
            _give_mask_all_dims(node)
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


def _give_mask_all_dims(node: torch.fx.Node) -> None:
    mask = _argument(node, 3, "attn_mask", None)
    if not isinstance(mask, torch.fx.Node):
        return
    full = mask
    for _ in range(node.args[0].meta["val"].dim() - mask.meta["val"].dim()):
        value = aten.unsqueeze.default(full.meta["val"], 0)
        with node.graph.inserting_before(node):
            full = node.graph.call_function(aten.unsqueeze.default, (full, 0))
        full.meta = {key: mask.meta[key] for key in _PLACES if key in mask.meta}
        full.meta["val"] = value
    node.replace_input_with(mask, full)


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
