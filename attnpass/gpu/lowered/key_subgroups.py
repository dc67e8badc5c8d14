"""Fewer subgroups along the keys where IREE 3.13 adds up wrongly what each of them has found.

The lanes of a subgroup that lie along the keys read one number of each subgroup. Where there are
more subgroups than such lanes, IREE 3.13 lets each lane read the first subgroup's alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from iree.compiler import ir

from ...ir import collect, set_attribute
from ...report.records import Report

_CONFIGURATIONS = ("decomposition_config", "lowering_config")
_BASES = r"pv_attrs = .*?{} = \[\[([\d, ]*)\], \[([\d, ]*)\]\]"
_SUBGROUPS = re.compile(r"(subgroup_basis = \[\[)([\d, ]*)(\])")
_STEPS = re.compile(r"(partial_reduction = \[)([\d, ]*)(\])")
_THREADS = re.compile(r"(workgroup_size = \[)(\d+)")


def fit_key_subgroups(function: ir.Operation, report: Report) -> bool:
    """Gives each attention of a CUDA kernel that is yet to be lowered no more subgroups along the
    keys than lanes there, and fewer keys at a time; returns whether IR changed."""
    attentions = collect(function, lambda op: op.name == "iree_linalg_ext.online_attention")
    if len(attentions) != 1 or any(
        name not in attentions[0].attributes for name in _CONFIGURATIONS
    ):
        return False
    (op,) = attentions
    products, steps = (str(op.attributes[name]) for name in _CONFIGURATIONS)
    fewer = _fewer(products, steps)
    if not fewer:
        return False
    keys = len(_numbers(_STEPS.search(steps), 2)) - len(fewer)
    by_basis = {place: factor for place, factor in fewer.values()}
    by_dim = {keys + number: factor for number, (_, factor) in fewer.items()}
    set_attribute(op, "decomposition_config", _SUBGROUPS.sub(_divided(by_basis), products))
    set_attribute(op, "lowering_config", _STEPS.sub(_divided(by_dim), steps))
    factor = math.prod(by_basis.values())
    info = str(function.attributes["translation_info"])
    info = _THREADS.sub(lambda found: f"{found[1]}{int(found[2]) // factor}", info)
    set_attribute(function, "translation_info", info)
    report.record(
        function,
        "repaired",
        f"it has one in {factor} of the subgroups of IREE's own configuration: with more along "
        "the keys than lanes there IREE 3.13 makes wrong numbers",
        factor=factor,
    )
    return True


def _fewer(products: str, steps: str) -> dict[int, tuple[int, int]]:
    """Of each key dim, where it stands in the bases and by how much its subgroups are too many;
    nothing where none are, or where it cannot be told."""
    lanes, subgroups = (
        re.search(_BASES.format(name), products) for name in ("lane_basis", "subgroup_basis")
    )
    keys = [size for size in _numbers(_STEPS.search(steps), 2) if size]
    if not keys or lanes is None or subgroups is None:
        return {}
    places = _numbers(lanes, 2)[-len(keys) :]
    if places != _numbers(subgroups, 2)[-len(keys) :]:
        return {}
    factors = [-(-_numbers(subgroups, 1)[at] // _numbers(lanes, 1)[at]) for at in places]
    if all(factor == 1 for factor in factors):
        return {}
    return dict(enumerate(zip(places, factors, strict=True)))


def _numbers(found: re.Match[str] | None, group: int) -> list[int]:
    return [int(number) for number in found[group].split(",")] if found else []


def _divided(factors: dict[int, int]) -> Callable[[re.Match[str]], str]:
    """What writes a list of numbers with some of them divided."""

    def write(found: re.Match[str]) -> str:
        numbers = [
            number // factors.get(place, 1) for place, number in enumerate(_numbers(found, 2))
        ]
        return f"{found[1]}{', '.join(map(str, numbers))}{found[3]}"

    return write
