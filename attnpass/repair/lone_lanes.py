"""attn-lone-lanes: reductions stay in a subgroup whose lanes share nothing, for CUDA."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext

if TYPE_CHECKING:
    from iree.compiler import ir

_SIZES = re.compile(r"workgroup_size = \[(\d+), 1, 1\]")
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
    from ..ir import collect, set_attribute

    ops = collect(function, lambda op: "lowering_config" in op.attributes, bodies=False)
    texts = [str(op.attributes["lowering_config"]) for op in ops]
    info = str(function.attributes["translation_info"])
    size = _SIZES.search(info)
    subgroups = [math.prod(_numbers(text, "subgroup_basis")) for text in texts]
    if not size or not any("partial_reduction" in text for text in texts):
        return False
    if len({*subgroups}) != 1 or subgroups[0] == 1 or any(map(_shares, texts)):
        return False
    for op, text in zip(ops, texts, strict=True):
        set_attribute(op, "lowering_config", _alone(text))
    threads = int(size[1]) // subgroups[0]
    info = _SIZES.sub(f"workgroup_size = [{threads}, 1, 1]", info)
    set_attribute(function, "translation_info", info)
    return True


def _shares(text: str) -> bool:
    """Whether the lanes of a subgroup take different numbers."""
    return math.prod(_numbers(text, "lane_basis")) != 1


def _alone(text: str) -> str:
    """A lowering configuration with one subgroup, which takes what one of several did."""
    counts = _numbers(text, "subgroup_basis")
    ones = ", ".join("1" for _ in counts)
    text = re.sub(r"subgroup_basis = \[\[[\d, ]+\]", f"subgroup_basis = [[{ones}]", text)
    for name in _TILES:
        tile = _numbers(text, name)
        if tile:
            new = [size // count for size, count in zip(tile, counts, strict=True)]
            text = re.sub(rf"\b{name} = \[[\d, ]+\]", f"{name} = {new}", text)
    return text


def _numbers(text: str, name: str) -> list[int]:
    """The first list of numbers of an entry, or none."""
    found = re.search(rf"\b{name} = \[+([\d, ]+)\]", text)
    return [int(number) for number in found[1].split(",")] if found else []
