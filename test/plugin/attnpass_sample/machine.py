"""A CPU that reads V along its keys, and has tiles of its own for attention."""

from __future__ import annotations

from dataclasses import dataclass

from attnpass.attention.facts import AttentionFacts
from attnpass.ir import Refusal, printed
from attnpass.machines import Family, Target, Worth
from attnpass.machines.cpu.configurations import compilation_info
from attnpass.machines.cpu.machine import Cpu

# LLVM's name of the processor.
PROCESSOR = "nehalem"


@dataclass(frozen=True)
class SampleCpu(Cpu):
    """A CPU as attnpass knows them, but for two things."""

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        elements = facts.assumed_extent((*facts.batch, *facts.k2, *facts.n))
        return Worth(1e-6 * elements, "a sample CPU reads V along its keys")

    def configuration(self, facts: AttentionFacts) -> dict[str, str] | Refusal:
        if facts.element_types["query"] != "f32":
            return Refusal("a sample CPU has tiles for f32 alone")
        return {"compilation_info": compilation_info(facts, step=(2, 4), workgroup_rows=16)}


class SampleCpus(Family):
    """The one machine: `sample-cpu`, or a module for its processor."""

    names = ("sample-cpu",)
    backends = ("llvm-cpu",)

    def find(self, name: str) -> Target | None:
        if name not in self.names:
            return None
        return SampleCpu("llvm-cpu", name, 1e10, 5e-6, compute_units=4)

    def claim(self, attribute: str) -> Target | None:
        return self.find("sample-cpu") if printed.entry(attribute, "cpu") == PROCESSOR else None
