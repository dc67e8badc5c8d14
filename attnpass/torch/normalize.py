"""Exported programs in the forms that IREE 3.13 imports right."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ..errors import AttnError
from .control_flow import carry_all, drop_unused, graphs_of
from .unsigned import widen_bytes
from .views import split_views

aten = torch.ops.aten

_SCATTERS = [
    getattr(op, name)
    for op in (aten.scatter, aten.scatter_add, aten.scatter_reduce)
    for name in op.overloads()
    if not name.endswith(("out", "dimname"))
]
# What the importer lacks of arithmetic on sizes, by what it has: `op(target, x, y)` makes a step.
_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    torch.sym_sum: lambda op, terms: functools.reduce(functools.partial(op, operator.add), terms),
    torch.sym_max: lambda op, x, y: op(torch.ops.prim.max.int, x, y),
    torch.sym_min: lambda op, x, y: op(torch.ops.prim.min.int, x, y),
    torch.sym_float: lambda op, x: op(aten.Float.Scalar, x),
    torch._sym_sqrt: lambda op, x: _power(op, x, 0.5),
    operator.mod: lambda op, x, y: op(
        operator.sub, x, op(operator.mul, op(operator.floordiv, x, y), y)
    ),
    operator.pow: lambda op, x, y: _power(op, x, y),
}
_IN_PYTHON: dict[Any, Callable[..., Any]] = {
    torch.ops.prim.max.int: torch.sym_max,
    torch.ops.prim.min.int: torch.sym_min,
    aten.Float.Scalar: torch.sym_float,
    aten.sqrt.int: lambda x: torch._sym_sqrt(torch.sym_float(x)),
}
# The importer lacks these, which only stand in checks.
_OF_TRUTHS = (operator.or_, operator.and_, torch.sym_ite)
# What says where an op comes from.
PLACES = ("stack_trace", "nn_module_stack")


def normalize(program: ExportedProgram) -> ExportedProgram:
    """The program as IREE 3.13 imports it right, changed in place.

    1. The dim of a scatter is counted from the front: of -1 the import makes a crash of IREE.
    2. Views of unknown sizes change one run of dims each.
    3. Arithmetic on sizes is what the importer has.
    4. Unsigned bytes are computed with in 32 bits.
    5. Loops carry all that they read.
    6. Sizes that torch has found out to be one number are that number.
    7. What has no elements is computed of nothing.
    """
    for graph in graphs_of(program.graph_module):
        _normalize(graph)
    carry_all(program.graph_module)
    drop_unused(program.graph_module)
    return program


def _normalize(graph: torch.fx.Graph) -> None:
    """`normalize` of one graph: a program's, or that of a loop or a branch."""
    for node in list(graph.nodes):
        _say_sizes(node)
        _leave_empty(node)
        if node.target in _SCATTERS:
            node.update_arg(1, node.args[1] % max(node.meta["val"].dim(), 1))
        elif node.target in _ARITHMETIC:
            _spell(node)
        elif node.target is aten._assert_tensor_metadata.default:
            # It keeps what computes blocks.
            graph.erase_node(node)
        elif node.target is aten._assert_scalar.default and _is_of_truths(node.args[0]):
            graph.erase_node(node)
    split_views(graph, PLACES)
    widen_bytes(graph, PLACES)
    graph.eliminate_dead_code()


def _say_sizes(node: torch.fx.Node) -> None:
    """Has what a node was traced as say sizes as numbers where torch allows no others: an argument
    says symbols still, of which the program is right for one size."""

    def said(value: torch.Tensor) -> torch.Tensor:
        if not any(isinstance(size, torch.SymInt) and _is_known(size) for size in value.shape):
            return value
        node.meta.pop("tensor_meta", None)
        sizes, strides = (
            [int(size) if _is_known(size) else size for size in numbers]
            for numbers in (value.shape, value.stride())
        )
        with getattr(value, "fake_mode", nullcontext()):
            return torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)

    if "val" in node.meta:
        node.meta["val"] = pytree.tree_map_only(torch.Tensor, said, node.meta["val"])


def _leave_empty(node: torch.fx.Node) -> None:
    """A tensor of known sizes without elements is made anew: the import fails on, or makes a crash
    of IREE of, writes by index, windows and pads of none."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.is_complex():
        return
    sizes = list(value.shape)
    # First the kinds: to compare a size that only the data give is refused.
    if all(isinstance(size, int) for size in sizes) and 0 in sizes:
        node.target, node.args = aten.zeros.default, (sizes,)
        node.kwargs = {"dtype": value.dtype, "device": value.device, "pin_memory": False}


def _is_known(size: int | torch.SymInt) -> bool:
    """Whether torch knows the one number that a size is."""
    return isinstance(size, int) or size.node.expr.is_Integer


def _is_of_truths(checked: Any) -> bool:
    """Whether what a check asks for, or what that compares, is made of truths: whether all elements
    of a tensor are true, as a number."""
    if not isinstance(checked, torch.fx.Node):
        return False
    return any(node.target in _OF_TRUTHS for node in (checked, *checked.all_input_nodes))


def _power(op: Callable[..., Any], size: Any, exponent: float) -> Any:
    """A size to a whole power, or 1/2: what heads are scaled by; either may be below 0."""
    if exponent < 0:
        return op(operator.truediv, 1.0, _power(op, size, -exponent))
    if exponent == 0.5:
        return op(aten.sqrt.int, size.args[0] if size.target is aten.Float.Scalar else size)
    if exponent == 0 or exponent != int(exponent):
        raise AttnError(f"IREE cannot compute a size to the power of {exponent}")
    return functools.reduce(functools.partial(op, operator.mul), [size] * int(exponent))


def _spell(node: torch.fx.Node) -> None:
    """Puts steps that the importer has in the place of one of arithmetic on sizes."""
    graph = node.graph

    def op(target: Any, *terms: Any) -> Any:
        values = [term.meta["val"] if isinstance(term, torch.fx.Node) else term for term in terms]
        with graph.inserting_before(node):
            made = graph.call_function(target, terms)
        made.meta = {key: node.meta[key] for key in PLACES if key in node.meta}
        in_python: Any = _IN_PYTHON.get(target, target)
        made.meta["val"] = in_python(*values)
        return made

    node.replace_all_uses_with(_ARITHMETIC[node.target](op, *node.args))
    graph.erase_node(node)


def argument(node: torch.fx.Node, place: int, name: str, default: Any) -> Any:
    """An argument of a call by its place, or by its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
