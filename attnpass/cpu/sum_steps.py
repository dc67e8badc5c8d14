"""Gives kernels that sum up rows or columns, as norms do, wide steps.

Of rows IREE 3.13 takes 8 by one vector a step and folds each row's vector into a number: 119
instructions for 128 elements. A row by eight vectors is added up lane by lane, and folded once. Of
columns it takes one vector down all rows, so that each row's page is visited for 32 bytes.
"""

from __future__ import annotations

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, configured, reconfigure
from ..ir import iterator_kinds, loops_read, maps, printed, ranked_shape, reduces
from ..ir.contractions import is_contraction
from .open_sums import sums_read

_ROWS, _SUMMED, _COLUMNS = "vector_common_parallel", "vector_reduction", "vector_inner_parallel"
_PIECES = "distribution"
MOST_VECTORS = 8
# Of steps that leave a rest of the rows, and of columns: more make fewer workgroups of these.
VECTORS = 4


def widen_row_sums(function: ir.Operation, lanes: int) -> int:
    """Configures a kernel of sums over rows that go by a vector or two so that they go by more, and
    what is computed of whole rows beside them, too; the elements of a step, or 0 for another."""
    ops = _sums_and_more(function)
    widths = {_width(op) for op in ops} - {1}
    width = widths.pop() if len(widths) == 1 else 0
    step = row_step(width, lanes)
    if step and width % step and not sums_read(function):
        # Of a sum that nothing reads IREE masks all steps for a rest, and adds up one by one.
        step = 0
    changes = {
        _ROWS: lambda sizes: [min(size, 1) for size in sizes],
        _SUMMED: lambda sizes: [*sizes[:-1], step],
        _COLUMNS: lambda sizes: [*sizes[:-1], step],
    }
    for op in configured(function) if step else ():
        reconfigure(op, changes)
    return step


def row_step(width: int, lanes: int) -> int:
    """Elements of a step along rows of `width`; 0 where IREE's steps are left. Eight or four
    vectors where these divide a row: LLVM takes apart what a loop carries of other numbers of them.
    Else up to sixteen are one step, and of more, a rest is left if it is a small part."""
    wide, narrow = MOST_VECTORS * lanes, VECTORS * lanes
    for step in (wide, narrow):
        if width and width % step == 0:
            return step
    if width % lanes == 0 and 2 * lanes < width <= 2 * wide:
        return width
    small = 2 * wide + narrow if width % lanes == 0 else wide
    return narrow if width > small else 0


def widen_column_sums(function: ir.Operation, lanes: int) -> int:
    """Configures a kernel of sums over other dims than the last, of a vector of columns a step, so
    that a step has more; the columns of a step, or 0 for another."""
    ops, step = _sums_and_more(function), VECTORS * lanes
    if not ops or not all(_goes_by_columns(op, step) for op in ops):
        return 0
    for op in configured(function):
        steps = printed.numbers(op.attributes[CONFIGURATION], _ROWS)

        def pieces(sizes: list[int], steps: list[int] = steps) -> list[int]:
            each = zip(sizes, steps, strict=True)
            return [-(-size // step) * step if one > 1 else size for size, one in each]

        wide = {_ROWS: lambda sizes: [step if size > 1 else size for size in sizes]}
        reconfigure(op, {**wide, _PIECES: pieces})
    return step


def _goes_by_columns(op: ir.Operation, step: int) -> bool:
    """Whether an op goes by part of `step` elements of one dim, which lies innermost in all that
    has it, and holds a step or more."""
    steps = printed.numbers(op.attributes[CONFIGURATION], _ROWS)
    wide = [loop for loop, size in enumerate(steps) if size > 1]
    if len(wide) != 1 or steps[wide[0]] >= step or len(op.results) != 1:
        return False
    (column,) = wide
    reads = [(ranked_shape(value), dims) for value, dims in loops_read(op)]
    sizes = {shape[-1] for shape, dims in reads if column in dims}
    found = sizes.pop() if len(sizes) == 1 else 0
    return (found or 0) >= step and all(column not in dims[:-1] for _, dims in reads)


def _sums_and_more(function: ir.Operation) -> list[ir.Operation]:
    """The configured ops of a kernel that sums up, but for fills; none of another."""
    ops = [op for op in configured(function) if op.name != "linalg.fill"]
    return ops if any(map(reduces, ops)) and not any(map(is_contraction, ops)) else []


def _width(op: ir.Operation) -> int:
    """The length of the rows of which an op takes some elements a step; 1 for one that computes a
    number a row, 0 where it does neither."""
    config, kinds = op.attributes[CONFIGURATION], iterator_kinds(op)
    if not kinds or "reduction" in kinds[:-1] or len(op.results) != 1:
        return 0
    *others, step = printed.numbers(config, _SUMMED if reduces(op) else _COLUMNS) or [0]
    if not step:
        return 1 if all(printed.numbers(config, _ROWS)) else 0
    positions, last = maps.positions(op), len(kinds) - 1
    if positions is None or any(others) or any(last in dims[:-1] for dims in positions):
        return 0
    read = zip(op.operands, positions, strict=True)
    found = {ranked_shape(value)[-1] for value, dims in read if last in dims}
    return found.pop() or 0 if len(found) == 1 else 0
