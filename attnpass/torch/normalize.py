"""Exported programs in the forms that IREE 3.13 imports right."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ..errors import AttnError
from .control_flow import carry_all, drop_unused, graphs_of
from .unsigned import widen_bytes
from .views import VIEWS, split_views

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
    operator.abs: lambda op, x: op(torch.ops.prim.max.int, x, op(operator.mul, x, -1)),
    operator.rshift: lambda op, x, y: op(operator.floordiv, x, _power_of_two(y)),
    operator.lshift: lambda op, x, y: op(operator.mul, x, _power_of_two(y)),
    math.floor: lambda op, x: op(operator.floordiv, *_quotient(x)),
    math.ceil: lambda op, x: _up(op, *_quotient(x)),
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
    6. Sizes that torch has found out to be one number, or a view says, are that number.
    7. What has no elements is computed of nothing.
    """
    said = _sizes_of_views(program)
    for graph in graphs_of(program.graph_module):
        _normalize(graph, said)
    carry_all(program.graph_module)
    drop_unused(program.graph_module)
    return program


def _normalize(graph: torch.fx.Graph, said: Mapping[sympy.Expr, sympy.Expr]) -> None:
    """`normalize` of one graph: a program's, or that of a loop or a branch."""
    for node in list(graph.nodes):
        _say_sizes(node, said)
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


def _sizes_of_views(program: ExportedProgram) -> dict[sympy.Expr, sympy.Expr]:
    """What views say of sizes that torch has no proof of: rows that are padded to chunks of 4 and
    cut are `(n + -n % 4) // ((n + -n % 4) // 4)` wide, where the view says 4."""
    found = {}
    for graph in graphs_of(program.graph_module):
        for node in graph.nodes:
            if node.target in VIEWS:
                for size, said in zip(node.meta["val"].shape, node.args[1], strict=True):
                    if isinstance(size, torch.SymInt) and isinstance(said, int) and said >= 0:
                        found[size.node.expr] = sympy.Integer(said)
    return found


def _say_sizes(node: torch.fx.Node, said: Mapping[sympy.Expr, sympy.Expr]) -> None:
    """Has what a node was traced as say sizes as numbers where torch allows no others, or views
    have `said` them: an argument says symbols still, of which the program is right for one size,
    and IREE's import takes a view's size of two names for -1."""

    def named(value: torch.Tensor) -> torch.Tensor:
        numbers = [_number(size, said) for size in value.shape]
        if not any(
            isinstance(size, torch.SymInt) and isinstance(number, int)
            for size, number in zip(value.shape, numbers, strict=True)
        ):
            return value
        node.meta.pop("tensor_meta", None)
        strides = [_number(size, said) for size in value.stride()]
        with getattr(value, "fake_mode", nullcontext()):
            return torch.empty_strided(numbers, strides, dtype=value.dtype, device=value.device)

    value = node.meta.get("val")
    if isinstance(value, torch.SymInt) and value.node.expr in said and node.op != "placeholder":
        number: Any = int(said[value.node.expr])
        node.replace_all_uses_with(number)
    elif value is not None:
        node.meta["val"] = pytree.tree_map_only(torch.Tensor, named, value)


def _number(size: int | torch.SymInt, said: Mapping[sympy.Expr, sympy.Expr]) -> int | torch.SymInt:
    """A size as a number, if that is known."""
    if isinstance(size, int):
        return size
    number = size.node.expr.xreplace(dict(said)) if said else size.node.expr
    return int(number) if number.is_Integer else size


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


def _is_of_truths(checked: Any) -> bool:
    """Whether what a check asks for, or what that compares, is made of truths: whether all elements
    of a tensor are true, as a number."""
    if not isinstance(checked, torch.fx.Node):
        return False
    return any(node.target in _OF_TRUTHS for node in (checked, *checked.all_input_nodes))


def _power_of_two(exponent: Any) -> int:
    if not isinstance(exponent, int):
        raise AttnError("IREE cannot shift a number by a size")
    return 1 << exponent


def _quotient(value: torch.fx.Node) -> tuple[Any, Any]:
    """What a number is the quotient of: a number of sizes that is rounded is one, of integers."""
    terms: Any = value.args if value.target is operator.truediv else ()
    known = [term.meta["val"] if isinstance(term, torch.fx.Node) else term for term in terms]
    if not known or not all(isinstance(term, int | torch.SymInt) for term in known):
        raise AttnError("IREE cannot round a number made of sizes that is no quotient of integers")
    return terms[0], terms[1]


def _up(op: Callable[..., Any], size: Any, by: Any) -> Any:
    """A quotient rounded up."""
    below = op(operator.floordiv, op(operator.mul, size, -1), by)
    return op(operator.mul, below, -1)


def _power(op: Callable[..., Any], size: Any, exponent: Any) -> Any:
    """A size to a whole power, or 1/2: what heads are scaled by; either may be below 0."""
    if not isinstance(size, torch.fx.Node) or isinstance(exponent, torch.fx.Node):
        raise AttnError("IREE cannot compute a number to the power of a size")
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
