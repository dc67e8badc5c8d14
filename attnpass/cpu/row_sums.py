"""Gives kernels that sum up rows, as norms do, wide steps.

IREE 3.13 takes 8 rows by one vector a step and folds each row's vector into a number: 119
instructions for 128 elements. A row by eight vectors is added up lane by lane, and folded once.
"""

from __future__ import annotations

from iree.compiler import ir

from ..ir import collect, iterator_kinds, maps, printed, ranked_shape, reduces, set_attribute
from ..ir.contractions import is_contraction

_CONFIGURATION = "lowering_config"
_ROWS, _SUMMED, _COLUMNS = "vector_common_parallel", "vector_reduction", "vector_inner_parallel"
MOST_VECTORS = 8


def widen_row_sums(function: ir.Operation, lanes: int) -> int:
    """Configures a kernel of sums over rows that go by a vector or two so that they go by more, and
    what is computed of whole rows beside them, too; the elements of a step, or 0 for another."""
    configured = collect(function, lambda op: _CONFIGURATION in op.attributes, bodies=False)
    ops = [op for op in configured if op.name != "linalg.fill"]
    if not any(reduces(op) for op in ops) or any(is_contraction(op) for op in ops):
        return 0
    widths = {_width(op) for op in ops} - {1}
    width = widths.pop() if len(widths) == 1 else 0
    counts = range(MOST_VECTORS, MOST_VECTORS // 4, -1) if width else ()
    step = next((count * lanes for count in counts if width % (count * lanes) == 0), 0)
    changes = {
        _ROWS: lambda sizes: [min(size, 1) for size in sizes],
        _SUMMED: lambda sizes: [*sizes[:-1], step],
        _COLUMNS: lambda sizes: [*sizes[:-1], step],
    }
    for op in configured if step else ():
        text = printed.with_numbers(op.attributes[_CONFIGURATION], changes)
        set_attribute(op, _CONFIGURATION, text)
    return step


def _width(op: ir.Operation) -> int:
    """The length of the rows of which an op takes some elements a step; 1 for one that computes a
    number a row, 0 where it does neither."""
    config, kinds = op.attributes[_CONFIGURATION], iterator_kinds(op)
    if not kinds or "reduction" in kinds[:-1] or len(op.results) != 1:
        return 0
    *others, step = printed.numbers(config, _SUMMED if reduces(op) else _COLUMNS) or [0]
    if not step:
        return 1 if all(printed.numbers(config, _ROWS)) else 0
    positions, last = maps.positions_of(op.attributes["indexing_maps"]), len(kinds) - 1
    if positions is None or any(others) or any(last in dims[:-1] for dims in positions):
        return 0
    read = zip(op.operands, positions, strict=True)
    found = {ranked_shape(value)[-1] for value, dims in read if last in dims}
    return found.pop() or 0 if len(found) == 1 else 0
