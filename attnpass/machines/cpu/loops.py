"""Which attention on a CPU becomes vector loops of our own, and how they cut it.

Measured with AVX-512 (see docs/notes/cpu.md). With many rows, a row of the query stands in each
lane of a vector of scores, so that everything but a few loads is multiply-adds; with few, elements
of the head dim do, so that K and V are read once, from one end to the other. Either way for any
number of keys and rows, and for head dims that no tile of IREE's takes whole. The sizes hardly
matter as long as sums stay in registers and buffers within IREE's limit for the stack.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...ir import Refusal, body_ops

# Where `attn-configure` leaves the tiles for `attn-vectorize`: in the op's
# `decomposition_config`, whose other entries IREE reads.
MARK = "attnpass.loops"
# IREE's default limit, and what its own code around the loops may take of it: maxima and sums.
STACK_BYTES = 32768
STACK_RESERVE = 1024
# IREE refuses vectors of so many registers, and makes one of a group's results.
TOO_MANY_REGISTERS = 512
# Rows that reading K and V once more pays for, where all rows together need too much of it.
LEAST_GROUP = 4
INPUT_TYPES = frozenset({"f32", "f16", "bf16"})
MASK_TYPES = INPUT_TYPES | {"i1"}


@dataclass(frozen=True)
class LoopTiles:
    """How an attention is cut: `lanes` of a vector, `row_vectors` of them side by side in a
    tile of rows (0 where rows are few), `keys` in a block, `score_keys` of those at a time in
    Q K^T, `output_rows` x `output_vectors` sums at a time in P V. Few rows go by `output_rows`
    in Q K^T as well."""

    lanes: int
    row_vectors: int
    keys: int
    score_keys: int
    output_rows: int
    output_vectors: int

    @property
    def rows(self) -> int:
        """Rows of a tile; 0 where all rows make one."""
        return self.lanes * self.row_vectors

    def from_best(self) -> list[LoopTiles]:
        """These tiles, then smaller ones that need less of the stack."""
        return [self, *([replace(self, row_vectors=1)] if self.row_vectors > 1 else [])]

    def to_attribute(self) -> str:
        """The `decomposition_config` that asks for these loops."""
        return f"{{{MARK} = array<i64: {', '.join(map(str, astuple(self)))}>}}"


def marked(op: ir.Operation) -> LoopTiles | None:
    """The tiles that an attention op asks for."""
    if "decomposition_config" not in op.attributes:
        return None
    config = ir.DictAttr(op.attributes["decomposition_config"])
    return LoopTiles(*ir.DenseI64ArrayAttr(config[MARK])) if MARK in config else None


def tiles(
    facts: AttentionFacts, register_bytes: int, transposed: bool | None = None
) -> LoopTiles | Refusal:
    """The tiles for an attention that `cpu` has a configuration for, on vector registers of so
    many bytes, or why it gets no loops. `transposed` has keys innermost in V, or the head dim,
    whichever is there; None takes V as it lies."""
    row, lanes, registers = row_dim(facts), register_bytes // 4, 32 if register_bytes >= 64 else 16
    rows, why = 1 if row is None else facts.sizes[row], _refusal(facts, transposed)
    if transposed is None:
        transposed = _keys_innermost(facts, "value")
    if rows is not None and rows <= lanes:
        candidates = [_decode_tiles(facts, rows, lanes, registers, transposed)]
    else:
        # Two vectors of rows, unless one leaves fewer lanes empty.
        fuller = rows is not None and -rows % (2 * lanes) > -rows % lanes
        candidates = [
            LoopTiles(lanes, row_vectors, keys, registers // 4, 4, registers // 8)
            for row_vectors, keys in ((2, 64), (1, 64), (1, 32))[fuller:]
        ]
        # A head too wide for a vector of rows: groups of few.
        candidates += [
            _decode_tiles(facts, group, lanes, registers, transposed)
            for group in _groups(rows or 0, lanes)[:1]
        ]
    if why:
        return why
    fitting = (found for found in candidates if not problem(facts, found, transposed))
    depth, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    none = f"head dim {max(depth, width)} needs more than {STACK_BYTES} bytes of stack"
    return next(fitting, Refusal(none))


def problem(
    facts: AttentionFacts, found: LoopTiles, transposed: bool | None = None
) -> Refusal | None:
    """Why an attention cannot be cut into these tiles, or None; `transposed` as for `tiles`."""
    if transposed is None:
        transposed = _keys_innermost(facts, "value")
    why = misfit(facts, found, transposed)
    if why:
        return why
    if not tile_rows(facts, found, transposed):
        return Refusal(f"loops that need more than {STACK_BYTES} bytes of stack")
    return None


def tile_rows(
    facts: AttentionFacts,
    found: LoopTiles,
    transposed: bool | None = None,
    in_place: bool | None = None,
) -> list[int]:
    """Rows that may go through these loops together, best first: where they are few and the
    stack has no room for all of them, groups of several that divide them. A result in f32 is
    summed up in its place, if `in_place` does not say otherwise."""
    if transposed is None:
        transposed = _keys_innermost(facts, "value")
    if in_place is None:
        in_place = facts.element_types["output"] == "f32"
    width = max(facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0)
    counts = [found.rows]
    if not found.rows:
        most = TOO_MANY_REGISTERS * found.lanes // max(width, 1)
        groups = _groups(row_size(facts), found.lanes)
        counts = [count for count in groups if count < most or count == row_size(facts)]
    return [
        count
        for count in counts
        if _stack_bytes(facts, found, count, transposed, in_place) <= STACK_BYTES
    ]


def _groups(rows: int, lanes: int) -> list[int]:
    """All rows, where there are no more than lanes, then smaller groups of them of equal size; K
    and V are read for each again."""
    largest = min(rows // 2, lanes)
    smaller = [count for count in range(largest, LEAST_GROUP - 1, -1) if rows % count == 0]
    return [rows, *smaller] if 0 < rows <= lanes else smaller if rows else []


def fits_beside_result(facts: AttentionFacts, found: LoopTiles) -> bool:
    """Whether there is room on the stack for the sums, too, where the result is copied."""
    return bool(tile_rows(facts, found, in_place=False))


def _stack_bytes(
    facts: AttentionFacts, found: LoopTiles, rows: int, transposed: bool, in_place: bool
) -> int:
    depth, width = facts.sizes[facts.k1[0]] or 0, facts.sizes[facts.n[0]] or 0
    summed = 0 if in_place else width
    decays, widened = rows if found.row_vectors else rows * found.lanes, 1
    if found.row_vectors and transposed:
        summed, widened = summed + width, 2
    kept = rows * (depth + found.keys + summed) + decays
    kept += widened * found.score_keys * found.lanes
    return 4 * kept + STACK_RESERVE


def misfit(
    facts: AttentionFacts, found: LoopTiles, transposed: bool | None = None
) -> Refusal | None:
    """Why these tiles would be computed wrong, or None; `transposed` as for `tiles`."""
    if found.row_vectors:
        return None
    if transposed is None:
        transposed = _keys_innermost(facts, "value")
    if found.keys % _unit(facts, found):
        return Refusal("blocks of keys that are no whole vectors")
    sums = found.output_rows * found.output_vectors
    if transposed and sums > found.lanes:
        return Refusal(f"{sums} sums to be folded into a vector of {found.lanes}")
    return None


def _decode_tiles(
    facts: AttentionFacts, rows: int, lanes: int, registers: int, transposed: bool
) -> LoopTiles:
    """The more keys in a block the longer K and V are read in one go: 4 KB of weights."""
    together = next(size for size in (1, 2, 4) if size >= min(rows, 4))
    vectors = min(8, registers // 2 // together)
    if transposed:
        # Sums of rows times columns are folded into one vector.
        vectors = min(vectors, max(1, lanes // together))
    found = LoopTiles(lanes, 0, lanes, 1, together, vectors)
    unit, keys = _unit(facts, found), facts.sizes[facts.k2[0]]
    block = max(1024 // max(rows, 4) // unit, 1) * unit
    if keys is not None:
        block = min(block, -(-keys // unit) * unit)
    return replace(found, keys=block)


def _unit(facts: AttentionFacts, found: LoopTiles) -> int:
    """What blocks of keys of few rows must be a multiple of: the keys that are read at once."""
    return found.lanes * (found.output_vectors if _keys_innermost(facts, "key") else 1)


def _keys_innermost(facts: AttentionFacts, operand: str) -> bool:
    return facts.is_innermost(operand, facts.k2)


def _refusal(facts: AttentionFacts, transposed: bool | None) -> Refusal | None:
    """Why the loops cannot compute this attention, or would be slower."""
    problem = _score_problem(facts)
    if problem:
        return problem
    if facts.has_mask and {*facts.k2} & {*facts.map_of("mask")[:-1]}:
        # What IREE 3.13 makes of a read of such keys that goes beyond their end is wrong.
        return Refusal("the keys of its mask do not lie side by side")
    if any(None in facts.map_of(name) for name in facts.tensor_operands):
        return Refusal("a map reads a dim at the constant 0")
    operands = [("key", facts.k1), *([("value", facts.n)] if transposed is None else [])]
    for name, head in operands:
        if not facts.is_innermost(name, (*head, *facts.k2)):
            return Refusal(f"neither keys nor the head dim are innermost in its {name}")
    if not facts.is_innermost("output", facts.n):
        return Refusal("the head dim is not innermost in its result")
    types = facts.element_types
    names = [name for name in ("query", "key", "value") if types[name] not in INPUT_TYPES]
    if facts.has_mask and types["mask"] not in MASK_TYPES:
        names.append("mask")
    return Refusal(f"its {names[0]} is of {types[names[0]]}") if names else None


def _score_problem(facts: AttentionFacts) -> Refusal | None:
    """Why the region cannot be computed for a vector of scores at once."""
    *steps, _ = body_ops(facts.op)
    for op in steps:
        if op.name.partition(".")[0] not in ("arith", "math") or len(op.regions):
            return Refusal(f"{op.name} is in its score function")
        if any(not isinstance(value.type, ir.FloatType | ir.IntegerType) for value in op.results):
            return Refusal(f"its score function computes {op.results[0].type}")
    return None


def row_dim(facts: AttentionFacts) -> int | None:
    """The dim of rows that is cut into tiles, the others go one by one; None for a single row."""
    return facts.m[-1] if facts.m else None


def row_size(facts: AttentionFacts) -> int:
    """The size of that dim, 1 without one; 0 if it is known only at run time."""
    row = row_dim(facts)
    return 1 if row is None else facts.sizes[row] or 0
