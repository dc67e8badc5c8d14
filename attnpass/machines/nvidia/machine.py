"""NVIDIA GPUs through IREE's cuda backend.

Measured on an H200 run through sm_80 code (docs/notes/cost-model.md). With 16 bits V and V^T are
as fast up to head dim 192, and V^T costs more beyond, in f32, and with one query row. `mma.sync`
has no 8-bit products on Hopper: operands of 8 bits are cast to f16 once, in front.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...attention.widening import cast_operands, narrow_operands, wide_type
from ...ir import Refusal, printed
from .. import Configured, Family, Offers, Target, Worth, widening_seconds
from ..gpu.lanes import LANES
from ..gpu.machine import Gpu
from . import candidates, configurations, contractions, f32_products, taken_weights

# Multiply-adds of the shape that was measured, head dim 128.
_MEASURED_WORK = 32 * 4096 * 4096 * (128 + 128)
# Milliseconds of that shape: in 16 bits, and in types that IREE has no tile for; what 8 bits in Q
# and K cost more on Hopper, and in V; and what their casts to 16 bits within attention cost.
_WIDE, _NO_TILE = 0.90, 3.99
_NARROW_KEY, _NARROW_VALUE = 0.21, 0.53
_CAST_KEY, _CAST_VALUE = 0.13, 0.29
# What IREE and LLVM take as the oldest.
_FIRST_VERSION = 50
# The longest head dim that attention has a precompiled kernel for, however few its keys are.
_LONG_HEAD = 128
# Fewer query rows than one tensor-core tile: decode.
_TILE_ROWS = 16


@dataclass(frozen=True)
class Nvidia(Gpu):
    """A CUDA device."""

    # Seen on an H200: INVALID_ARGUMENT, and the context is lost.
    refuses_empty_grids: ClassVar[bool] = True
    # A second product as a mask would be written and read, of each head, also of shared keys.
    joins_heads: ClassVar[bool] = True
    copies_were_timed: ClassVar[bool] = True
    pads_keys: ClassVar[bool] = False
    has_f32_lanes: ClassVar[bool] = True
    reads_tuning_specs: ClassVar[bool] = False

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        rows, keys = facts.assumed_extent(facts.m), facts.assumed_extent(facts.k2)
        batch = facts.assumed_extent(facts.batch)
        head = facts.assumed_extent(facts.k1) + facts.assumed_extent(facts.n)
        if rows < _TILE_ROWS:
            bytes_read = batch * keys * head * 2
            return Worth(
                -0.37 * bytes_read / self.bytes_per_second,
                f"with {rows} query row(s) the kernel reads row-major V faster (measured on an "
                "H200: 3541 against 2584 GB/s)",
            )
        types = facts.element_types
        if (self.worth_of_widening(facts).seconds or 0) > 0:
            types |= dict.fromkeys(narrow_operands(facts), wide_type(facts))
        milliseconds, words = _saved(types, facts.assumed_extent(facts.n))
        return Worth(milliseconds * 1e-3 * _share(facts), words)

    def worth_of_widening(self, facts: AttentionFacts) -> Worth:
        narrow, casts = narrow_operands(facts), cast_operands(facts)
        if narrow and not wide_type(facts):
            return Worth(0.0, "no 16-bit type holds its operands")
        rows = facts.assumed_extent(facts.m)
        if rows < _TILE_ROWS:
            return Worth(0.0, f"with {rows} query row(s) the bytes of K and V are what counts")
        if not narrow:
            saved = _CAST_KEY * ("key" in casts) + _CAST_VALUE * ("value" in casts)
            words = "within it, each tile would be widened again"
        elif not self._has_tile(facts):
            saved, words = _NO_TILE - _WIDE, "IREE has no tensor-core tile for its types"
        elif not self.arch.startswith("sm_90"):
            return Worth(None, f"the 8-bit tensor cores of {self.arch} were not measured")
        else:
            saved = _NARROW_KEY * ("key" in narrow) + _NARROW_VALUE * ("value" in narrow)
            words = "Hopper's mma.sync has no 8-bit products, it widens the factors of each"
        spent = sum(widening_seconds(_elements(facts, name), self) for name in (*narrow, *casts))
        seconds = saved * 1e-3 * _share(facts) - spent
        return Worth(
            seconds, words if seconds > 0 else "the casts would take longer than they save"
        )

    def slower_than_decomposed(self, facts: AttentionFacts) -> Refusal | None:
        """Attention over channels, whose head dim is a sequence: its scores are few, and products
        need no tile as wide as that (an H200: 0.20 ms for 0.27 of a block with 48 keys of 196)."""
        sizes = [[facts.sizes[dim] for dim in dims] for dims in (facts.k1, facts.n, facts.k2)]
        head, width, keys = (math.prod(size or 0 for size in dims) for dims in sizes)
        longest = max(head, width)
        if not keys or longest <= max(_LONG_HEAD, 4 * keys):
            return None
        return Refusal(
            f"a head dim of {longest} is long beside {keys} keys: products around a softmax of so "
            "few scores are faster"
        )

    def configuration(self, facts: AttentionFacts) -> dict[str, str] | Refusal:
        return configurations.configuration(facts, self)

    def loses_lanes(self, facts: AttentionFacts) -> bool:
        return configurations.own_loses_lanes(facts)

    def tuning_refusal(self, facts: AttentionFacts) -> Refusal | None:
        return configurations.refusal(facts, self)

    def candidates(self, facts: AttentionFacts, known: dict[str, str]) -> Offers:
        return candidates.candidates(facts, self)

    def projections(self, function: ir.Operation) -> Sequence[Configured]:
        facts = contractions.find(function)
        return [] if facts is None else [(facts.op, contractions.configuration(facts, self))]

    def plain_products(self, function: ir.Operation) -> Sequence[Configured]:
        taken = taken_weights.find(function)
        found = [(facts.op, taken_weights.configuration(facts)) for facts in taken]
        facts = None if found else f32_products.find(function)
        return found if facts is None else [(facts.op, f32_products.configuration(facts, self))]

    def decode_refusal(self, facts: AttentionFacts) -> Refusal | None:
        return configurations.chunks_refusal(facts, self)

    def padded_keys(self, facts: AttentionFacts) -> int | None:
        return configurations.padded_keys(facts, self)

    def padded_heads(self, facts: AttentionFacts) -> tuple[int, int] | None:
        return configurations.padded_heads(facts, self)

    def cut_head(self, facts: AttentionFacts) -> int | None:
        return configurations.cut_head(facts, self)

    def dynamic_tiles(self, facts: AttentionFacts) -> dict[int, int] | Refusal:
        return configurations.dynamic_tiles(facts, self)

    @property
    def subgroup(self) -> int | None:
        return LANES

    def _has_tile(self, facts: AttentionFacts) -> bool:
        """Whether IREE has tensor-core instructions for the types of Q, K and V."""
        types = facts.element_types
        version = int("".join(digit for digit in self.arch if digit.isdigit()))
        return version >= 89 and types["query"] == types["key"] and "f8E5M2" not in types.values()


def _elements(facts: AttentionFacts, operand: str) -> int:
    return facts.assumed_extent(tuple(dim for dim in facts.map_of(operand) if dim is not None))


def _share(facts: AttentionFacts) -> float:
    """The work of an attention as a share of what was measured."""
    dims = (facts.batch, facts.m, facts.k2)
    work = math.prod(facts.assumed_extent(each) for each in dims)
    head = facts.assumed_extent(facts.k1) + facts.assumed_extent(facts.n)
    return work * head / _MEASURED_WORK


def _saved(types: dict[str, str], head: int) -> tuple[float, str]:
    """What V^T saves of the measured shape of these types and V's head dim, in milliseconds, and
    the measurement in words."""
    if types["value"].startswith("f8"):
        return 0.25, "measured on an H200: V^T saves 15% with an fp8 V"
    if types["query"].startswith("f8"):
        return -0.07, "measured on an H200: V^T costs 7% with fp8 Q and K and a 16-bit V"
    if types["value"] == "f32":
        return -15.4, "measured on an H200: V^T halves the speed in f32, without tensor cores"
    if types["value"] not in ("f16", "bf16"):
        return 0.0, f"nothing was measured for {types['value']}"
    if head > 512:
        return -0.9, f"measured on an H200: V^T costs 22% at head dim {head}"
    if head > 256:
        return -0.15, f"measured on an H200: V^T costs 8% at head dim {head}"
    if head > 192:
        return -0.04, f"measured on an H200: V^T costs 4% at head dim {head}"
    return -0.02, f"measured on an H200: V^T costs up to 3% at head dim {head}"


class NvidiaGpus(Family):
    """NVIDIA's GPUs, called `sm_80` and so on."""

    names = ("sm_80", "sm_86", "sm_89", "sm_90")
    backends = ("cuda",)

    def find(self, name: str) -> Target | None:
        name = name.removeprefix("cuda:") if name != "cuda" else "sm_80"
        version = re.fullmatch(r"sm_(\d+)[af]?", name)
        if not version or int(version[1]) < _FIRST_VERSION:
            return None
        bandwidth, units = (4.3e12, 132) if name.startswith("sm_9") else (1.5e12, 108)
        # IREE 3.13 describes every card as it does an A100, but for those two (CUDA's limits).
        shared = 101376 if name in ("sm_86", "sm_89") else 166912
        return Nvidia("cuda", name, bandwidth, 3e-6, units, shared_bytes=shared)

    def claim(self, attribute: str) -> Target | None:
        return self.find(printed.entry(attribute, "arch", "sm_80"))
