"""attn-lone-lanes: reductions stay in a subgroup whose lanes share nothing, for CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

_CONFIGURATION = "lowering_config"
_TILES = ("partial_reduction", "reduction", "serial")


@dataclass(frozen=True)
class LoneLanes(Pass):
    """Gives a reduction that IREE configures for several subgroups, each of whose lanes is to do
    the same, a single subgroup.

    IREE 3.13 does so where the innermost reduced dim is a few odd numbers (a head of 64 x 3, its
    factors in different orders), and makes of such kernels the sum of the first subgroup alone.
    """

    name: ClassVar[str] = "attn-lone-lanes"
    summary: ClassVar[str] = "CUDA: reductions over a few odd numbers stay in one subgroup"
    phase: ClassVar[str] = "executable-configurations"
    mends: ClassVar[str] = "sums over two dims lack terms where the inner one is small, on CUDA"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..gpu.lowered.kernel import cuda_kernels

        with module.context:
            return any([_mend(one) for one in cuda_kernels(module)])


def _mend(function: ir.Operation) -> bool:
    from ..ir import collect, printed, set_attribute

    ops = collect(function, lambda op: _CONFIGURATION in op.attributes, bodies=False)
    told = [op.attributes[_CONFIGURATION] for op in ops]
    info = function.attributes["translation_info"]
    size = printed.numbers(info, "workgroup_size")
    subgroups = {math.prod(_first(each, "subgroup_basis")) for each in told}
    if size[1:] != [1, 1] or not any(printed.lists(each, _TILES[0]) for each in told):
        return False
    if len(subgroups) != 1 or subgroups == {1} or any(map(_shares, told)):
        return False
    for op, each in zip(ops, told, strict=True):
        set_attribute(op, _CONFIGURATION, _alone(each))
    threads = size[0] // subgroups.pop()
    info = printed.with_numbers(info, "workgroup_size", lambda _: [threads, 1, 1])
    set_attribute(function, "translation_info", info)
    return True


def _shares(configuration: ir.Attribute) -> bool:
    """Whether the lanes of a subgroup take different numbers."""
    return math.prod(_first(configuration, "lane_basis")) != 1


def _alone(configuration: ir.Attribute) -> str:
    """A lowering configuration with one subgroup, which takes what one of several did."""
    from ..ir import printed

    counts = _first(configuration, "subgroup_basis")

    def divide(tile: list[int]) -> list[int]:
        return [size // count for size, count in zip(tile, counts, strict=True)]

    ones = [1 for _ in counts]
    text = printed.with_numbers(configuration, "subgroup_basis", lambda basis: [ones, *basis[1:]])
    for name in _TILES:
        text = printed.with_numbers(text, name, divide)
    return text


def _first(configuration: ir.Attribute, name: str) -> list[int]:
    """The counts of a basis, which stand before the dims that they are for."""
    from ..ir import printed

    return next(iter(printed.numbers(configuration, name)), [])
