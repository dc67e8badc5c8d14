"""Targets: what a machine is like, and what V^T is worth on it.

One file a family. A target is found from its name (`sm_80`, `gfx942`, `znver4`, `llvm-cpu`)
or from the `#hal.executable.target` attributes of a module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import AttnError

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts


@dataclass(frozen=True)
class Worth:
    """What a change saves this attention: seconds (negative: it costs) and why.

    `seconds` is None where nothing was measured for the target.
    """

    seconds: float | None
    reason: str


@dataclass(frozen=True)
class Target:
    """A machine that a module is compiled for.

    `bytes_per_second` is the memory bandwidth, `launch_seconds` what one more dispatch
    costs, `compute_units` the number of multiprocessors, compute units or threads,
    `shared_bytes` what IREE lets a GPU's workgroup have of shared memory.
    """

    backend: str
    arch: str
    bytes_per_second: float
    launch_seconds: float
    compute_units: int
    features: tuple[str, ...] = ()
    shared_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.backend} {self.arch}".strip()

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        """What it is worth to this attention to have k2 innermost in V."""
        return Worth(None, f"nothing was measured for {self.name}")

    def worth_of_widening(self, facts: AttentionFacts) -> Worth:
        """What it is worth to this attention, which IREE makes the code of, to have its 8-bit
        operands cast to 16 bits in front of it, the casts included."""
        del facts
        return Worth(None, f"nothing was measured for {self.name}")

    def kernel_for(self, facts: AttentionFacts) -> str:
        """Name of the kernel that will be taken for this attention, which reads its operands
        in one order alone; '' where IREE makes the code, which reads any."""
        del facts
        return ""


# Stands in where no target is known: a machine whose launches cost as much as 4 MB moved.
DEFAULT_TARGET = Target("unknown", "", 1e12, 4e-6, 64)


def named_target(name: str) -> Target:
    """The target of this name; AttnError lists those that are known."""
    from .amd import machine as amd
    from .cpu import machine as cpu
    from .nvidia import machine as nvidia

    for family in (nvidia, amd, cpu):
        target = family.find(name)
        if target is not None:
            return target
    known = ", ".join([*nvidia.NAMES, *amd.NAMES, *cpu.NAMES])
    raise AttnError(f"unknown target '{name}' (known: {known}, or a CPU name after 'llvm-cpu:')")


def resolve_target(module: ir.Operation, name: str | None = None) -> Target | None:
    """The target named, or the one that the module's executable targets say.

    None where the module names no target, or names several that differ.
    """
    if name:
        return named_target(name)
    found = {target for text in _target_attributes(module) if (target := parse_target(text))}
    return found.pop() if len(found) == 1 else None


def backends(module: ir.Operation) -> set[str]:
    """The names of all backends that the module's executable targets are for."""
    from ..ir import printed

    texts = _target_attributes(module)
    return {name for text in texts for name in printed.backends(text)}


def check_backend(module: ir.Operation, target: Target | None) -> None:
    """AttnError if the module is compiled for backends that we know, and not for the target's."""
    known = backends(module) & {"cuda", "rocm", "llvm-cpu"}
    if target is not None and known and target.backend not in known:
        names = ", ".join(sorted(known))
        raise AttnError(f"the target '{target.arch}' is none of {names}, as the module's are")


def _target_attributes(module: ir.Operation) -> list[str]:
    texts: list[str] = []
    block = module.regions[0].blocks[0]
    for op in block.operations:
        if op.operation.name == "util.global" and "initial_value" in op.operation.attributes:
            texts.append(str(op.operation.attributes["initial_value"]))
    attributes = module.attributes
    if "hal.device.targets" in attributes:
        texts.append(str(attributes["hal.device.targets"]))
    return texts


def parse_target(text: str) -> Target | None:
    """The target that text with a `#hal.executable.target` attribute names; None for none."""
    from ..ir import printed
    from .amd import machine as amd
    from .cpu import machine as cpu
    from .nvidia import machine as nvidia

    backend = next(iter(printed.backends(text)), "")
    if backend == "cuda":
        return nvidia.find(printed.entry(text, "arch", "sm_80"))
    if backend == "rocm":
        return amd.find(printed.entry(text, "arch"))
    if backend == "llvm-cpu":
        # IREE takes 8 bytes where the attribute does not say.
        return cpu.describe(
            printed.entry(text, "cpu", "generic"),
            printed.entry(text, "cpu_features"),
            printed.number(text, "native_vector_size", 8),
        )
    return None


def widening_seconds(elements: float, target: Target) -> float:
    """What the cast of so many elements of 8 bits to 16 costs: a byte read and two written for
    each, and a launch. Less where IREE computes it with what makes the tensor."""
    return 3 * elements / target.bytes_per_second + target.launch_seconds
