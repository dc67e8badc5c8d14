"""attn-explicit-repeats: repeats that a program spells as reads by index are broadcasts, which the
rules of layouts know.

A grouped-query repeat may arrive as `x[.., i / group, ..]`, with the index computed in a
loop nest or read from a table of constants (`Gather` of an ONNX model). What it reads is no
operand of the loop nest, so no rule can hand a demand on to it. The broadcast computes the
same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..analysis.trace import Tracer
from ..analysis.values import Indices, Linear, Value
from ..attention.facts import AttentionFacts, find
from ..ir import (
    Builder,
    Size,
    defining_op,
    element_type,
    erase_dead,
    ranked_shape,
    sizes_of,
)
from ..ir.bodies import read_elementwise
from ..ir.contractions import is_contraction
from ..passes import Pass, PassContext

# An index of a source dim, as a function of the indices of the result.
Index = Callable[[Tracer, Indices], "Value | None"]

# Heads are few: longer dims are not tried index by index.
_MOST_HEADS = 1024


@dataclass(frozen=True)
class Read:
    """A source dim that follows dim `dim` of the result: index i of the result reads
    i // `times` of it, or, where it is `tiled`, i modulo its size."""

    dim: int
    times: int = 1
    tiled: bool = False


class ExplicitRepeats(Pass):
    """Puts broadcasts in the place of the repeats by index that K and V of attention come
    through, where those read each element of another tensor, a whole number of times."""

    name = "attn-explicit-repeats"
    summary = "repeats that K and V read by index as broadcasts"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        indexed = [
            (op, reads) for op in _producers(find(module)) if (reads := _reads_of(op)) is not None
        ]
        for op, reads in indexed:
            why = "repeats what it reads by index, as a broadcast does that stands for it now"
            context.report.record(op, "fitted", why)
            _broadcast(op, *reads)
        erase_dead([op for op, _ in indexed])
        return bool(indexed)


def _producers(found: Sequence[AttentionFacts]) -> Iterator[ir.Operation]:
    """The ops between K and V of attention and what they are projected from, each once."""
    seen: set[ir.Value] = set()
    ahead = [facts.value(name) for facts in found for name in ("key", "value")]
    while ahead:
        value = ahead.pop()
        op = defining_op(value)
        if value in seen or op is None or is_contraction(op):
            continue
        seen.add(value)
        yield op
        ahead += op.operands


def _reads_of(op: ir.Operation) -> tuple[ir.Value, list[Read | None]] | None:
    """The tensor that `op` only reads elements of, and how each of its dims is read (None: a
    dim of size one); None for any other op."""
    indexed = None
    if op.name == "linalg.generic" and len(op.results) == 1:
        indexed = _indexed_nest(op)
    elif op.name == "iree_linalg_ext.gather" and len(op.operands) == 3:
        indexed = _indexed_gather(op)
    if indexed is None:
        return None
    source, indices = indexed
    sizes = ranked_shape(op.results[0])
    reads: list[Read | None] = []
    for index, old, new in zip(indices, ranked_shape(source), sizes_of(source), strict=True):
        read = _read(index, old, new, sizes, sizes_of(op.results[0]))
        if isinstance(read, str):
            return None
        reads.append(read)
    dims = [read.dim for read in reads if read is not None]
    return (source, reads) if len(set(dims)) == len(dims) else None


def _indexed_nest(op: ir.Operation) -> tuple[ir.Value, list[Index]] | None:
    """What a loop nest yields an element of, and the indices of that."""
    made = read_elementwise(op)
    extract = None if made is None else defining_op(made.scalar, "tensor.extract")
    if made is None or extract is None:
        return None
    source, *scalars = extract.operands

    def index_of(scalar: ir.Value) -> Index:
        return lambda tracer, indices: tracer.scalar(scalar, tracer.scope(made, indices))

    return source, [index_of(scalar) for scalar in scalars]


def _indexed_gather(op: ir.Operation) -> tuple[ir.Value, list[Index]] | None:
    """What a gather by a table of one index an element reads, and the indices of that."""
    source, table = op.operands[0], op.operands[1]
    if list(op.attributes["dimension_map"]) != [0]:
        return None
    batch = len(ranked_shape(op.results[0])) - len(ranked_shape(source)) + 1
    component = (Linear(0),) * (len(ranked_shape(table)) - batch)

    def from_table(tracer: Tracer, indices: Indices) -> Value | None:
        return tracer.element(table, (*indices[:batch], *component))

    def of_slice(dim: int) -> Index:
        return lambda _, indices: indices[batch + dim]

    return source, [from_table, *(of_slice(dim) for dim in range(len(ranked_shape(source)) - 1))]


def _read(
    index: Index,
    length: int | None,
    size: Size,
    shape: Sequence[int | None],
    sizes: Sequence[Size],
) -> Read | str | None:
    """How a source dim of this size is read by a result of this shape, or "other"."""
    tracer = Tracer(dict(enumerate(shape)))
    variables = tuple(Linear(0, ((dim, 1),)) for dim in range(len(shape)))
    whole = index(tracer, variables)
    if whole == Linear(0) and length == 1:
        return None
    if whole in variables:
        dim = variables.index(whole)  # type: ignore[arg-type]
        return Read(dim) if sizes[dim] == size else "other"
    for dim, wide in enumerate(shape):
        if length is None or wide is None or not length < wide <= _MOST_HEADS or wide % length:
            continue
        times = wide // length
        for read in (Read(dim, times), Read(dim, times, tiled=True)):
            places = (i % length if read.tiled else i // times for i in range(wide))
            at = (
                index(tracer, (*variables[:dim], Linear(i), *variables[dim + 1 :]))
                for i in range(wide)
            )
            if all(found == Linear(place) for found, place in zip(at, places, strict=True)):
                return read
    return "other"


def _broadcast(op: ir.Operation, source: ir.Value, reads: Sequence[Read | None]) -> None:
    """Gives the users of `op` a broadcast of `source`, and a collapse of what it repeats."""
    build = Builder(op)
    repeats = {read.dim: read for read in reads if read is not None and read.times > 1}
    sizes: list[Size] = []
    counts: list[int] = []
    loop_of: dict[int, int] = {}
    for dim, size in enumerate(sizes_of(op.results[0])):
        read = repeats.get(dim)
        loop_of[dim] = len(sizes) + (read is not None and read.tiled)
        parts = [size] if read is None else _parts(size, read)
        sizes += parts
        counts.append(len(parts))
    positions = tuple(None if read is None else loop_of[read.dim] for read in reads)
    kind = element_type(op.results[0])
    value = build.computed(sizes, kind, lambda _, x: x[0], (source, positions))
    value = build.join_dims(value, counts, sizes_of(op.results[0]))
    op.results[0].replace_all_uses_with(value)


def _parts(size: Size, read: Read) -> list[Size]:
    """The dims that a repeated dim consists of."""
    assert isinstance(size, int)
    length = size // read.times
    return [read.times, length] if read.tiled else [length, read.times]
