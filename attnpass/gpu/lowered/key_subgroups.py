"""Fewer subgroups along the keys where IREE 3.13 adds up wrongly what each of them has found.

The lanes of a subgroup that lie along the keys read one number of each subgroup. Where there are
more subgroups than such lanes, IREE 3.13 lets each lane read the first subgroup's alone.
"""

from __future__ import annotations

import math

from iree.compiler import ir

from ...ir import collect, printed, set_attribute
from ...report.records import Report

_CONFIGURATIONS = ("decomposition_config", "lowering_config")
# The second product of attention, of weights and values.
_OF_VALUES, _STEPS = "pv_attrs = ", "partial_reduction"


def fit_key_subgroups(function: ir.Operation, report: Report) -> bool:
    """Gives each attention of a CUDA kernel that is yet to be lowered no more subgroups along the
    keys than lanes there, and fewer keys at a time; returns whether IR changed."""
    attentions = collect(function, lambda op: op.name == "iree_linalg_ext.online_attention")
    if len(attentions) != 1 or any(
        name not in attentions[0].attributes for name in _CONFIGURATIONS
    ):
        return False
    (op,) = attentions
    products, steps = (op.attributes[name] for name in _CONFIGURATIONS)
    fewer = _fewer(products, steps)
    if not fewer:
        return False
    keys = len(printed.numbers(steps, _STEPS)) - len(fewer)
    by_basis = {place: factor for place, factor in fewer.values()}
    by_dim = {keys + number: factor for number, (_, factor) in fewer.items()}
    products = printed.with_numbers(
        products, "subgroup_basis", lambda basis: [_divided(basis[0], by_basis), *basis[1:]]
    )
    steps = printed.with_numbers(steps, _STEPS, lambda sizes: _divided(sizes, by_dim))
    set_attribute(op, "decomposition_config", products)
    set_attribute(op, "lowering_config", steps)
    factor = math.prod(by_basis.values())
    info = printed.with_numbers(
        function.attributes["translation_info"],
        "workgroup_size",
        lambda size: [size[0] // factor, *size[1:]],
    )
    set_attribute(function, "translation_info", info)
    report.record(
        function,
        "repaired",
        f"it has one in {factor} of the subgroups of IREE's own configuration: with more along "
        "the keys than lanes there IREE 3.13 makes wrong numbers",
        factor=factor,
    )
    return True


def _fewer(products: ir.Attribute, steps: ir.Attribute) -> dict[int, tuple[int, int]]:
    """Of each key dim, where it stands in the bases and by how much its subgroups are too many;
    nothing where none are, or where it cannot be told."""
    of_values = str(products).partition(_OF_VALUES)[2]
    lanes, subgroups = (
        printed.numbers(of_values, name) for name in ("lane_basis", "subgroup_basis")
    )
    keys = [size for size in printed.numbers(steps, _STEPS) if size]
    if not keys or len(lanes) != 2 or len(subgroups) != 2:
        return {}
    places = lanes[1][-len(keys) :]
    if places != subgroups[1][-len(keys) :]:
        return {}
    factors = [-(-subgroups[0][at] // lanes[0][at]) for at in places]
    if all(factor == 1 for factor in factors):
        return {}
    return dict(enumerate(zip(places, factors, strict=True)))


def _divided(sizes: list[int], factors: dict[int, int]) -> list[int]:
    """A list of numbers with some of them divided, by their places."""
    return [size // factors.get(place, 1) for place, size in enumerate(sizes)]
