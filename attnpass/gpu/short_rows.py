"""attn-short-rows: a workgroup reduces several short rows, for CUDA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..codegen.kernel import STORES, cuda_kernels, load_of
from ..ir import collect, element_bytes, maps, printed, ranked_shape, set_attribute, users
from ..ir.limits import ASSUMED_EXTENT
from ..passes import Pass, PassContext

_CONFIGURATION = "lowering_config"
_PIPELINE = "VectorDistribute"
_LANES = 32
# What a lane reads at once.
_READ_BYTES = 16
# Subgroups of a workgroup, and rows that each lane's part of a subgroup takes, at most.
_SUBGROUPS, _ROWS = 4, 4
# As many workgroups are left, to keep the multiprocessors of a large GPU busy.
_WORKGROUPS = 264


class ShortRows(Pass):
    """Has a workgroup reduce many rows at once where each is a head or less, as norms of Q and K
    do (Qwen3, Flux, ViT-22B).

    IREE 3.13 gives each row a workgroup of one subgroup, whose lanes read 8 bytes of it: 98,304
    rows of 128 numbers in f16 take an H200 61 us, of which memory needs 12. Here lanes read 16
    bytes, the lanes that are left take other rows, and a workgroup has up to four subgroups that
    take up to four times as many.
    """

    name = "attn-short-rows"
    summary = "CUDA: workgroups that reduce many short rows"
    phase = "executable-configurations"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        changed = False
        for function in cuda_kernels(module):
            rows = _configure(function)
            if rows is not None:
                what = f"a workgroup of it reduces {rows.count} rows of {rows.size}, not one"
                context.report.record(function, "fitted", what, rows=rows.count)
                changed = True
        return changed


@dataclass(frozen=True)
class _Rows:
    """How a kernel takes rows of `size`: `lanes` of a subgroup have `width` elements each of one,
    and a workgroup of `subgroups` takes `count` of them."""

    size: int
    width: int
    subgroups: int
    count: int

    @property
    def lanes(self) -> int:
        return self.size // self.width


def _configure(function: ir.Operation) -> _Rows | None:
    """Configures a kernel for several rows a workgroup; None where it is left:

    1. where IREE does not have one subgroup take a row of each of its ops;
    2. where no dim of the op that cuts the work into workgroups has enough rows;
    3. where one of its ops has not just one loop along that dim.
    """
    info = function.attributes["translation_info"]
    ops = collect(function, lambda op: _CONFIGURATION in op.attributes, bodies=False)
    if not ops or not _has_one_subgroup(info) or not all(map(_takes_a_row, ops)):
        return None
    roots = [op for op in ops if printed.numbers(op.attributes[_CONFIGURATION], "workgroup")]
    loops = _SharedLoops(function)
    along = _loop_over_rows(roots[0]) if len(roots) == 1 else None
    rows = None if along is None else _rows(roots[0], along, loops)
    if along is None or rows is None:
        return None
    places = [loops.along_the_same(roots[0], along, op) for op in ops]
    if any(len(each) != 1 for each in places):
        return None
    for op, (place,) in zip(ops, places, strict=True):
        set_attribute(op, _CONFIGURATION, _with_rows(op.attributes[_CONFIGURATION], place, rows))
    size = [_LANES * rows.subgroups, 1, 1]
    set_attribute(
        function, "translation_info", printed.with_numbers(info, {"workgroup_size": lambda _: size})
    )
    return rows


def _has_one_subgroup(info: ir.Attribute) -> bool:
    is_one = printed.numbers(info, "workgroup_size") == [_LANES, 1, 1]
    return is_one and _PIPELINE in printed.pipeline(info)


def _takes_a_row(op: ir.Operation) -> bool:
    """Whether a subgroup takes a row of a generic, its last loop, at once, and nothing beside
    it."""
    if op.name != "linalg.generic":
        return False
    config = op.attributes[_CONFIGURATION]
    rank = maps.num_dims(op.attributes["indexing_maps"])
    outer, dims = [1] * (rank - 1), list(range(rank))
    lanes, subgroups = (printed.numbers(config, name) for name in ("lane_basis", "subgroup_basis"))
    parts = printed.numbers(config, "partial_reduction") or printed.numbers(config, "serial")
    return (
        lanes == [[*outer, _LANES], dims]
        and subgroups == [[*outer, 1], dims]
        and bool(parts)
        and parts[:-1] == [0] * (rank - 1)
    )


class _SharedLoops:
    """Which loops of a kernel's `linalg.generic` ops run along one dim: those that index the same
    dim of a tensor, and so on."""

    def __init__(self, function: ir.Operation):
        self.generics = collect(function, lambda op: op.name == "linalg.generic", bodies=False)
        self._above: dict[object, object] = {}
        for op in self.generics:
            for value, dims in _tensors(op):
                for dim, loop in enumerate(dims):
                    if loop is not None:
                        self._join((value, dim), (op.results[0], "loop", loop))

    def along_the_same(self, op: ir.Operation, loop: int, other: ir.Operation) -> list[int]:
        """The loops of another op that run along the dim of this one's loop."""
        known = self._first((op.results[0], "loop", loop))
        count = maps.num_dims(other.attributes["indexing_maps"])
        return [at for at in range(count) if self._first((other.results[0], "loop", at)) == known]

    def tensors(self, op: ir.Operation, loop: int) -> list[ir.Value]:
        """The tensors with a dim along which the loop runs."""
        known = self._first((op.results[0], "loop", loop))
        values = [(value, dims) for each in self.generics for value, dims in _tensors(each)]
        return [
            value
            for value, dims in values
            if any(self._first((value, dim)) == known for dim in range(len(dims)))
        ]

    def _join(self, one: object, other: object) -> None:
        self._above[self._first(one)] = self._first(other)

    def _first(self, node: object) -> object:
        while (above := self._above.get(node, node)) != node:
            node = above
        return node


def _tensors(op: ir.Operation) -> list[tuple[ir.Value, maps.Positions]]:
    """The operands and results of a `linalg.generic`, each with its loops by dim; none of an op
    whose maps are no projected permutations."""
    positions = maps.positions_of(op.attributes["indexing_maps"])
    if positions is None:
        return []
    outer = len(op.operands) - len(op.results)
    return [
        *zip(op.operands, positions, strict=True),
        *zip(op.results, positions[outer:], strict=True),
    ]


def _sizes(op: ir.Operation) -> dict[int, int | None]:
    """How long the loops of an op run; None where that is known only at run time."""
    return {
        loop: size
        for value, dims in _tensors(op)
        for loop, size in zip(dims, ranked_shape(value) if dims else (), strict=True)
        if loop is not None
    }


def _loop_over_rows(op: ir.Operation) -> int | None:
    """The loop along whose dim a workgroup can best take several rows: that with the most factors
    of two, the last of those."""
    *outer, _ = sorted(_sizes(op).items())
    known = [(size & -size, loop) for loop, size in outer if size]
    return max(known)[1] if known else None


def _rows(op: ir.Operation, along: int, loops: _SharedLoops) -> _Rows | None:
    """How many rows a workgroup takes; None where a subgroup has no whole number of them, or where
    too few workgroups would be left."""
    sizes = _sizes(op)
    row = len(sizes) - 1
    size, number = sizes[row], sizes[along]
    parts = printed.numbers(op.attributes[_CONFIGURATION], "partial_reduction")
    if not size or not number or parts[-1:] != [size]:
        return None
    stored = [value for value in loops.tensors(op, row) if _is_in_memory(value)]
    width = _READ_BYTES // max(map(element_bytes, stored), default=_READ_BYTES)
    if size % width or _LANES % (size // width):
        return None
    beside = _LANES * width // size
    total = math.prod(each or ASSUMED_EXTENT for loop, each in sizes.items() if loop != row)
    ways = [
        _Rows(size, width, subgroups, beside * subgroups * each)
        for subgroups in _powers(_SUBGROUPS)
        for each in _powers(_ROWS)
    ]
    fit = [way for way in ways if not number % way.count and total // way.count >= _WORKGROUPS]
    best = max(fit, key=lambda way: (way.count, way.subgroups), default=None)
    return best if best is not None and best.count > 1 else None


def _powers(most: int) -> list[int]:
    return [1 << at for at in range(most.bit_length())]


def _is_in_memory(value: ir.Value) -> bool:
    return load_of(value) is not None or any(op.name in STORES for op in users(value))


def _with_rows(configuration: ir.Attribute, place: int, rows: _Rows) -> str:
    """The configuration of an op that takes rows along its loop `place`."""

    def put(numbers: Sequence[int], at_place: int, last: int) -> list[int]:
        return [*numbers[:place], at_place, *numbers[place + 1 : -1], last]

    # A basis is (counts, dims), a tile has a size a dim.
    changes = {
        "lane_basis": lambda basis: [put(basis[0], _LANES // rows.lanes, rows.lanes), basis[1]],
        "subgroup_basis": lambda basis: [put(basis[0], rows.subgroups, 1), basis[1]],
        "thread": lambda tile: put(tile, 1, rows.width),
        "workgroup": lambda tile: put(tile, rows.count, 0),
    }
    return printed.with_numbers(configuration, changes)
