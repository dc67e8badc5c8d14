"""attn-lone-lanes: sums over no more subgroups than IREE adds up, for CUDA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, KernelsPass, configured
from ..ir import collect, printed, set_attribute
from ..report.records import Report

_PRODUCTS = "decomposition_config"
# The second product of attention, of weights and values.
_OF_VALUES = "pv_attrs"
_PARTS = "partial_reduction"
_TILES = (_PARTS, "reduction", "serial")


class LoneLanes(KernelsPass):
    """Gives kernels that IREE configures for more subgroups along a summed dim than each has lanes
    there fewer subgroups, and fewer terms at a time.

    1. A reduction: IREE 3.13 has lanes that all do the same, or few that do not, where the
       innermost reduced dim is a few odd numbers (a head of 64 x 3, its factors in different
       orders), or 72, and adds up as many subgroups as lanes alone. It gets no more of them.
    2. Attention: the lanes of a subgroup that lie along the keys read one number of each subgroup.
       Where there are more subgroups than such lanes, IREE 3.13 lets each lane read the first
       subgroup's alone. It gets as many subgroups as lanes.
    """

    name = "attn-lone-lanes"
    summary = "CUDA: sums over no more subgroups than IREE adds up"
    mends = "sums over few numbers, and attention, lack terms on CUDA"
    backends = ("cuda",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        factor = _mend_reduction(function) or _mend_attention(function)
        if not factor:
            return False
        info = printed.with_numbers(
            function.attributes["translation_info"],
            {"workgroup_size": lambda size: [size[0] // factor, *size[1:]]},
        )
        set_attribute(function, "translation_info", info)
        report.record(
            function,
            "repaired",
            f"it has one in {factor} of the subgroups of IREE's own configuration: with more along "
            "what it sums over than lanes there IREE 3.13 makes wrong numbers",
            factor=factor,
        )
        return True


def _mend_reduction(function: ir.Operation) -> int:
    """Case 1: by how much the subgroups of a kernel without attention were too many; 0 where it is
    left."""
    ops = configured(function)
    configurations = [op.attributes[CONFIGURATION] for op in ops]
    size = printed.numbers(function.attributes["translation_info"], "workgroup_size")
    subgroups = {math.prod(_first(each, "subgroup_basis")) for each in configurations}
    if size[1:] != [1, 1] or not any(printed.lists(each, _PARTS) for each in configurations):
        return 0
    if len(subgroups) != 1 or subgroups == {1}:
        return 0
    (count,) = subgroups
    lanes = min(math.prod(_first(each, "lane_basis")) for each in configurations)
    factor = next(by for by in range(1, count + 1) if count % by == 0 and count // by <= lanes)
    if factor == 1:
        return 0
    places = [_places(each, count, factor) for each in configurations]
    if not all(places):
        return 0
    for op, each, factors in zip(ops, configurations, places, strict=True):
        fewer = _with_fewer_subgroups(each, factors)
        set_attribute(op, CONFIGURATION, _with_fewer_terms(fewer, factors, _TILES))
    return factor


def _places(configuration: ir.Attribute, count: int, factor: int) -> dict[int, int]:
    """By which `factor`s the counts of subgroups, `count` in all, are divided, by their places:
    each by itself where all lanes do the same, else that of the summed dim that has them all; none
    where there is no such."""
    counts = _first(configuration, "subgroup_basis")
    if math.prod(_first(configuration, "lane_basis")) == 1:
        return dict(enumerate(counts))
    if count not in counts:
        return {}
    place = counts.index(count)
    tiles = [printed.numbers(configuration, name) for name in _TILES]
    return {place: factor} if any(tile[place] for tile in tiles if tile) else {}


def _first(configuration: ir.Attribute, name: str) -> list[int]:
    """The counts of a basis, which stand before the dims that they are for."""
    return next(iter(printed.numbers(configuration, name)), [])


def _mend_attention(function: ir.Operation) -> int:
    """Case 2: by how much the subgroups of an attention kernel were too many; 0 where it is
    left."""
    attentions = collect(function, lambda op: op.name == "iree_linalg_ext.online_attention")
    found = [op for op in attentions if {_PRODUCTS, CONFIGURATION} <= {*op.attributes}]
    if len(attentions) != 1 or not found:
        return 0
    (op,) = found
    products, steps = op.attributes[_PRODUCTS], op.attributes[CONFIGURATION]
    fewer = _too_many(products, steps)
    if not fewer:
        return 0
    keys = len(printed.numbers(steps, _PARTS)) - len(fewer)
    by_basis = dict(fewer)
    by_dim = {keys + number: factor for number, (_, factor) in enumerate(fewer)}
    set_attribute(op, _PRODUCTS, _with_fewer_subgroups(products, by_basis))
    set_attribute(op, CONFIGURATION, _with_fewer_terms(steps, by_dim, (_PARTS,)))
    return math.prod(by_basis.values())


def _too_many(products: ir.Attribute, steps: ir.Attribute) -> list[tuple[int, int]]:
    """Of each key dim, where it stands in the bases and by how much its subgroups are too many;
    nothing where none are, or where it cannot be told."""
    of_values = printed.behind(products, _OF_VALUES)
    lanes, subgroups = (
        printed.numbers(of_values, name) for name in ("lane_basis", "subgroup_basis")
    )
    keys = [size for size in printed.numbers(steps, _PARTS) if size]
    if not keys or len(lanes) != 2 or len(subgroups) != 2:
        return []
    places = lanes[1][-len(keys) :]
    if places != subgroups[1][-len(keys) :]:
        return []
    factors = [-(-subgroups[0][at] // lanes[0][at]) for at in places]
    return list(zip(places, factors, strict=True)) if set(factors) != {1} else []


def _with_fewer_subgroups(configuration: ir.Attribute, factors: Mapping[int, int]) -> str:
    """A configuration whose counts of subgroups are divided, by their places."""
    fewer = {"subgroup_basis": lambda basis: [_divided(basis[0], factors), *basis[1:]]}
    return printed.with_numbers(configuration, fewer)


def _with_fewer_terms(
    configuration: object, factors: Mapping[int, int], tiles: Sequence[str]
) -> str:
    """A configuration with `tiles` whose sizes are divided, by the dims that they are of."""
    fewer = dict.fromkeys(tiles, lambda tile: _divided(tile, factors))
    return printed.with_numbers(configuration, fewer)


def _divided(sizes: Sequence[int], factors: Mapping[int, int]) -> list[int]:
    return [size // factors.get(place, 1) for place, size in enumerate(sizes)]
