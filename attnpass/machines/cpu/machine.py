"""CPUs through IREE's llvm-cpu backend.

Measured on AVX-512 machines (docs/notes/cpu.md, docs/notes/cost-model.md). Loops of our own read
V^T nearly as fast as V; without them k2 innermost in V makes attention 1.7 to 2.3 times slower,
and where only V has them 3 to 4.7 times. So on a CPU V stays as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...ir import Refusal, element_bytes, printed
from .. import Family, Offers, Target, Worth
from .candidates import candidates
from .configurations import chunks_refusal, configuration, own_is_wrong, refusal
from .loops import LoopTiles, fits_beside_result, tiles
from .results import write_transposed

# One thread of a Zen 4: multiplications and additions a second in loops and in configured tiles.
_LOOPS_PER_SECOND, _TILES_PER_SECOND = 9e10, 3.5e10
# What V^T costs, as shares of the time with V: where both have loops, with many rows and with few
# (between what was measured on two machines); where neither has; where V alone has (the least).
_MANY_ROWS_LOSS, _FEW_ROWS_LOSS, _TILES_LOSS, _LOOPS_LOST = 0.07, 0.2, 0.7, 2.0


@dataclass(frozen=True)
class Cpu(Target):
    """A CPU; `arch` is LLVM's processor name, `features` its feature flags, `vector_bytes`
    what IREE takes a vector register to hold."""

    vector_bytes: int = 16

    chunk_waves: ClassVar[int] = 1
    stores_masks: ClassVar[bool] = True
    lowered_by_us: ClassVar[tuple[str, ...]] = ("decomposition_config",)

    @property
    def multiplies_pairs(self) -> bool:
        """Whether sums of two products of bf16 are worth an instruction: on a Zen 4 they make
        attention of many rows 1.5 times faster, on Emerald Rapids (12.3 against 7.8 ms) slower."""
        return self.arch.startswith("znver") and "+avx512bf16" in self.features

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        has_loops = all(len(dims) == 1 for dims in (facts.k1, facts.k2, facts.n)) and isinstance(
            tiles(facts, self.vector_bytes, transposed=False), LoopTiles
        )
        work = 2 * facts.assumed_extent((*facts.batch, *facts.m, *facts.k2))
        work *= facts.assumed_extent(facts.k1) + facts.assumed_extent(facts.n)
        if not has_loops:
            return Worth(
                -_TILES_LOSS * work / _TILES_PER_SECOND,
                "a CPU reads V along its head dim; measured with AVX-512, V^T makes attention "
                "1.7-2.3 times slower",
            )
        transposed = tiles(facts, self.vector_bytes, transposed=True)
        seconds = work / _LOOPS_PER_SECOND
        if not isinstance(transposed, LoopTiles):
            return Worth(
                -_LOOPS_LOST * seconds,
                "measured with AVX-512, V^T makes attention 3-4.7 times slower where it gets no "
                f"vector loops: {transposed}",
            )
        if transposed.row_vectors:
            return Worth(
                -_MANY_ROWS_LOSS * seconds,
                "measured with AVX-512, V^T costs loops of many rows 3% and more",
            )
        return Worth(
            -_FEW_ROWS_LOSS * max(seconds, self._reading(facts)),
            "measured with AVX-512, V^T costs loops of few rows up to 34%",
        )

    def configuration(self, facts: AttentionFacts) -> dict[str, str] | Refusal:
        return configuration(facts, self)

    def own_is_wrong(self, facts: AttentionFacts) -> Refusal | None:
        return own_is_wrong(facts, self)

    def tuning_refusal(self, facts: AttentionFacts) -> Refusal | None:
        return refusal(facts, self)

    def candidates(self, facts: AttentionFacts, known: dict[str, str]) -> Offers:
        return candidates(facts, self, known)

    def loops_refusal(self, facts: AttentionFacts) -> Refusal | None:
        loops = tiles(facts, self.vector_bytes)
        return loops if isinstance(loops, Refusal) else Refusal("the table has none for it")

    def prepare(self, module: ir.Operation) -> bool:
        return write_transposed(module, self.vector_bytes)

    def decode_refusal(self, facts: AttentionFacts) -> Refusal | None:
        return chunks_refusal(facts, self)

    def slower_than_decomposed(self, facts: AttentionFacts) -> Refusal | None:
        """IREE's own code for the op is slower, 1.2 to 12 times: attention needs loops of ours."""
        loops = tiles(facts, self.vector_bytes)
        if isinstance(loops, Refusal):
            return Refusal(
                f"an attention op has no vector loops on this CPU, and is slower then: {loops}"
            )
        partial = facts.kind == "online_attention"
        if partial and not any(fits_beside_result(facts, one) for one in loops.from_best()):
            # What a sink adds to stands behind the sums, which cannot lie where the result goes.
            width = facts.sizes[facts.n[0]]
            return Refusal(
                f"a head dim of {width} leaves vector loops no room on the stack for a sink's sums"
            )
        return None

    def _reading(self, facts: AttentionFacts) -> float:
        """Seconds that K and V take to come from memory."""
        keys = facts.assumed_extent((*facts.batch, *facts.k2))
        row = sum(
            facts.assumed_extent(dims) * element_bytes(facts.value(name))
            for name, dims in (("key", facts.k1), ("value", facts.n))
        )
        return keys * row / self.bytes_per_second


def describe(processor: str, features: str = "", vector_bytes: int = 16) -> Target:
    """The CPU with LLVM's processor name, comma-separated feature flags and vector size."""
    flags = tuple(flag for flag in features.split(",") if flag)
    return Cpu(
        "llvm-cpu",
        processor,
        bytes_per_second=2e10,
        launch_seconds=5e-6,
        compute_units=os.cpu_count() or 1,
        features=flags,
        vector_bytes=vector_bytes,
    )


class Cpus(Family):
    """CPUs: `llvm-cpu` is none in particular, `llvm-cpu:PROCESSOR` one by LLVM's name."""

    names = ("llvm-cpu", "host")
    backends = ("llvm-cpu",)

    def find(self, name: str) -> Target | None:
        if name in self.names:
            return describe("generic" if name == "llvm-cpu" else "host")
        if name.startswith("llvm-cpu:"):
            return describe(name.removeprefix("llvm-cpu:"))
        return None

    def claim(self, attribute: str) -> Target | None:
        # IREE takes 8 bytes where the attribute does not say.
        return describe(
            printed.entry(attribute, "cpu", "generic"),
            printed.entry(attribute, "cpu_features"),
            printed.number(attribute, "native_vector_size", 8),
        )
