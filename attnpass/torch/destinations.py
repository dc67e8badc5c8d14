"""Results that a program writes to tensors of its caller's (destination passing).

On a GPU the runtime's own results lie in a pool that torch cannot read, so each would be copied
once more, behind the program. A result whose size the caller knows is an argument instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import sympy
import torch
from iree.compiler import ir
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from ..ir import erase, set_function_type
from .exported import StatelessProgram
from .importer import memory_type

# Integers that the runtime has no sign of, complex numbers and f64, which IREE may compute in f32,
# stay results.
_KINDS = frozenset(
    (
        *(torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.bool),
    )
)
# Where a size of the program's arguments is: an argument's place, and its dim.
Where = tuple[int, int]


@dataclass(frozen=True)
class _Size:
    """A sum of products of sizes of arguments, each with a factor."""

    terms: tuple[tuple[int, tuple[Where, ...]], ...]

    def of(self, values: Sequence[Any]) -> int:
        return sum(
            factor * prod(values[place].shape[dim] for place, dim in wheres)
            for factor, wheres in self.terms
        )


@dataclass(frozen=True)
class Destination:
    """A result's type and sizes."""

    dtype: torch.dtype
    shape: tuple[int | _Size, ...]

    def sizes(self, values: Sequence[Any]) -> list[int]:
        """Its sizes, in a call with these arguments."""
        return [size if isinstance(size, int) else size.of(values) for size in self.shape]


def take_destinations(module: ir.Module, program: StatelessProgram) -> list[Destination | None]:
    """Makes results arguments, behind all others and in their order, into which the function writes
    them; a destination for each of the results, None for what is returned as before."""
    (function,) = (op.operation for op in module.body if op.operation.name == "func.func")
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    returned = list(terminator.operands)
    found = _destinations(program, len(block.arguments), len(returned))
    point, location = ir.InsertionPoint(terminator), terminator.location
    kept = [value for value, to in zip(returned, found, strict=True) if to is None]
    for value, to in zip(returned, found, strict=True):
        if to is None:
            continue
        kind = ir.Type.parse(memory_type(str(value.type)), function.context)
        operands = [value, block.add_argument(kind, location)]
        name = "torch.overwrite.tensor.contents"
        ir.Operation.create(name, operands=operands, ip=point, loc=location)
    last = ir.Operation.create("func.return", operands=kept, ip=point, loc=location)
    erase(terminator)
    with module.context:
        set_function_type(function, [last])
    return found


def _destinations(
    program: StatelessProgram, arguments: int, results: int
) -> list[Destination | None]:
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    given, made = (
        [
            nodes[spec.arg.name].meta.get("val")
            for spec in specs
            if spec.kind == kind and not isinstance(spec.arg, ConstantArgument)
        ]
        for specs, kind in (
            (signature.input_specs, InputKind.USER_INPUT),
            (signature.output_specs, OutputKind.USER_OUTPUT),
        )
    )
    if len(given) != arguments or len(made) != results:
        return [None] * results
    known: dict[Any, Where] = {}
    for place, value in enumerate(given):
        for dim, size in enumerate(getattr(value, "shape", ())):
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                known.setdefault(size.node.expr, (place, dim))
    return [_destination(value, known) for value in made]


def _destination(value: Any, known: dict[Any, Where]) -> Destination | None:
    if not isinstance(value, torch.Tensor) or value.dtype not in _KINDS:
        return None
    sizes = [_size(size, known) for size in value.shape]
    shape = tuple(size for size in sizes if size is not None and size != 0)
    return Destination(value.dtype, shape) if len(shape) == len(sizes) else None


def _size(size: int | torch.SymInt, known: dict[Any, Where]) -> int | _Size | None:
    """A size in those of arguments; None where it is no polynomial of them."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols or not known.keys() >= set(symbols) or not expression.is_polynomial(*symbols):
        return None
    terms = [
        (
            factor,
            tuple(known[s] for s, power in zip(symbols, powers, strict=True) for _ in range(power)),
        )
        for powers, factor in sympy.Poly(expression, *symbols).terms()
    ]
    if not all(factor.is_Integer for factor, _ in terms):
        return None
    return _Size(tuple((int(factor), wheres) for factor, wheres in terms))
