"""Machines: what they are like, what V^T is worth on them, and what they have for an attention.

One folder a family. A target is found from its name (`sm_80`, `gfx942`, `znver4`, `llvm-cpu`)
or from the `#hal.executable.target` attributes of a module. To add a family, from another
package, extend `Target` and `Family` and register the latter as an entry point of the group
`attnpass.machines` (value `module:Class`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .. import plugins
from ..errors import AttnError, PluginError
from ..ir import Refusal

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


# Configurations in words, each the attributes as text by name, or why it is none.
Offers = Iterator[tuple[str, "dict[str, str] | Refusal"]]
# An op, and the attributes to configure it with, or why it keeps IREE's own configuration.
Configured = tuple["ir.Operation", "dict[str, str] | Refusal"]


@dataclass(frozen=True)
class Target:
    """A machine that a module is compiled for; `backend` is IREE's name of what compiles for it.

    What a machine knows of an attention it says in the methods below, which know nothing here.
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

    # Workgroups that a compute unit wants of a decode step cut into chunks of its keys.
    chunk_waves: ClassVar[int] = 8
    # Whether a dispatch of no workgroup ends in an error.
    refuses_empty_grids: ClassVar[bool] = False
    # Whether attention reads a mask from memory alone, also one of positions.
    stores_masks: ClassVar[bool] = False
    # Whether scores that are sums of two products are one product of heads that are joined.
    joins_heads: ClassVar[bool] = False
    # Whether loops that copy were timed here, and are configured wherever attention is.
    copies_were_timed: ClassVar[bool] = False
    # Whether kernels pad an unknown number of keys in attention of every form.
    pads_keys: ClassVar[bool] = True
    # Whether attention of f32 is tiles of lanes.
    has_f32_lanes: ClassVar[bool] = False
    # Whether IREE reads a tuning spec here.
    reads_tuning_specs: ClassVar[bool] = True
    # What of a configuration our own lowering reads: iree-compile would not know it.
    lowered_by_us: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return f"{self.backend} {self.arch}".strip()

    @property
    def is_gpu(self) -> bool:
        return self.backend in GPUS

    def worth_of_transposed_v(self, facts: AttentionFacts) -> Worth:
        """What it is worth to this attention to have k2 innermost in V."""
        return Worth(None, f"nothing was measured for {self.name}")

    def worth_of_widening(self, facts: AttentionFacts) -> Worth:
        """What it is worth to this attention, which IREE makes the code of, to have its 8-bit
        operands cast to 16 bits in front of it, the casts included."""
        return Worth(None, f"nothing was measured for {self.name}")

    def kernel_for(self, facts: AttentionFacts) -> str:
        """Name of the kernel that will be taken for this attention, which reads its operands
        in one order alone; '' where IREE makes the code, which reads any."""
        return ""

    def configuration(self, facts: AttentionFacts) -> dict[str, str] | Refusal:
        """The attributes to configure this attention with, as text by name, each known to give
        right numbers here; or why there are none."""
        return Refusal(f"there is no table for {self.name}")

    def own_is_wrong(self, facts: AttentionFacts) -> Refusal | None:
        """What is wrong with IREE's own code for an attention as it is in a dispatch, or None."""
        return None

    def tuning_refusal(self, facts: AttentionFacts) -> Refusal | None:
        """Why no configuration of this attention is known to be right, or None."""
        return Refusal(f"there are no configurations for {self.name}")

    def candidates(self, facts: AttentionFacts, known: dict[str, str]) -> Offers:
        """What attn-tune is to try for this attention beside the built-in configuration, `known`;
        what is nearest to that first."""
        return iter(())

    def projections(self, function: ir.Operation) -> Sequence[Configured]:
        """The products of a dispatch's function that have tiles by their size, beside attention."""
        return ()

    def plain_products(self, function: ir.Operation) -> Sequence[Configured]:
        """The products there that no tensor core multiplies and that have tiles, whether there is
        attention or not: of f32, and of few rows with weights that are taken by index."""
        return ()

    def loops_refusal(self, facts: AttentionFacts) -> Refusal | None:
        """Why this attention has a configuration without vector loops of ours, or None where there
        are none such."""
        return None

    def prepare(self, module: ir.Operation) -> bool:
        """Rewrites what stands around attention, in a module at IREE's phase flow, so that
        configurations fit; returns whether IR changed."""
        return False

    def decode_refusal(self, facts: AttentionFacts) -> Refusal | None:
        """Why chunks of this attention's keys would get no decode configuration, or None."""
        return Refusal(f"no decode kernel was measured for {self.name}")

    def slower_than_decomposed(self, facts: AttentionFacts) -> Refusal | None:
        """Why this attention op would be slower than the products and the softmax that say the
        same, or None."""
        return None

    def padded_keys(self, facts: AttentionFacts) -> int | None:
        """The number of keys, above that of this attention, that has a configuration where its
        own has none; None where there is no such number, or none is needed."""
        return None

    def padded_heads(self, facts: AttentionFacts) -> tuple[int, int] | None:
        """Head dims of Q and V, above those of this attention, that have a configuration where
        its own have none; None where there are none such, or none are needed."""
        return None

    def cut_head(self, facts: AttentionFacts) -> int | None:
        """The part of the head dim of Q and K that a configuration is to take where it takes not
        all, the other part being few scores that are added; None where nothing is to be cut."""
        return None

    def dynamic_tiles(self, facts: AttentionFacts) -> dict[int, int] | Refusal:
        """Sizes, by iteration dim, of the tiles that an attention over an unknown number of keys,
        or of grouped rows, needs for a configuration; or why tiles would not help."""
        return Refusal(f"there is no table for {self.name}")

    @property
    def subgroup(self) -> int | None:
        """Threads of a GPU's subgroup, for loops that copy; None where IREE's own stay."""
        return None


class Family:
    """Machines of one kind: finds them by name, and in what a module says.

    `names` are some that users may give, for a reader; `backends` those of IREE whose modules
    may be for these machines. Another package's families are asked before ours, so that they can
    say more of a machine than its kind.
    """

    names: ClassVar[tuple[str, ...]] = ()
    backends: ClassVar[tuple[str, ...]] = ()

    def find(self, name: str) -> Target | None:
        """The machine that users call so; None for another family's."""
        raise NotImplementedError

    def claim(self, attribute: str) -> Target | None:
        """The machine of `#hal.executable.target<"BACKEND", ...>`, one of `backends`, as text;
        None for another family's."""
        return None


FAMILIES = {
    "nvidia": "attnpass.machines.nvidia.machine:NvidiaGpus",
    "amd": "attnpass.machines.amd.machine:AmdGpus",
    "cpu": "attnpass.machines.cpu.machine:Cpus",
}


@functools.cache
def families() -> tuple[Family, ...]:
    """All families, those of other packages first. PluginError for one that is none, and for
    names that two have."""
    found = plugins.entries("attnpass.machines", FAMILIES)
    ordered = sorted(found.values(), key=lambda entry: entry.is_ours)
    made = {entry: entry.make(Family) for entry in ordered}
    owners: dict[str, plugins.Plugin] = {}
    for entry, family in reversed(made.items()):
        for name in family.names:
            if owners.setdefault(name, entry) is not entry:
                raise PluginError(f"{entry}: the name '{name}' is taken by {owners[name]}")
    return tuple(made.values())


# The backends of IREE that compile for GPUs that we know.
GPUS = ("cuda", "rocm")
# Stands in where no target is known: a machine whose launches cost as much as 4 MB moved.
DEFAULT_TARGET = Target("unknown", "", 1e12, 4e-6, 64)


def named_target(name: str) -> Target:
    """The target of this name; AttnError lists those that are known."""
    for family in families():
        target = family.find(name)
        if target is not None:
            return target
    known = ", ".join(each for family in families() for each in family.names)
    raise AttnError(f"unknown target '{name}' (known: {known}, or a CPU name after 'llvm-cpu:')")


def resolve_target(module: ir.Operation, name: str | None = None) -> Target | None:
    """The target named, or the one that the module's executable targets say.

    None where the module names no target, or names several that differ.
    """
    if name:
        return named_target(name)
    found = {target for text in target_texts(module) if (target := parse_target(text))}
    return found.pop() if len(found) == 1 else None


def backends(module: ir.Operation) -> set[str]:
    """The names of all backends that the module's executable targets are for; behind the `hal`
    phase, where targets are gone, of the GPUs that its binaries are for."""
    from iree.compiler import ir

    from ..ir import descendants, printed

    texts = target_texts(module)
    named = {name for text in texts for name in printed.backends(text)}
    binaries = descendants(module, "hal.executable", "hal.executable.binary")
    formats = {ir.StringAttr(binary.attributes["format"]).value for binary in binaries}
    return named | {name for name in GPUS if any(one.startswith(f"{name}-") for one in formats)}


def names_backend(op: ir.Operation, backend: str) -> bool:
    """Whether the module that holds `op` names this backend as its target."""
    while op.parent is not None:
        op = op.parent.operation
    return backend in backends(op)


def is_for_cpus(op: ir.Operation) -> bool:
    """Whether the module that holds `op` names CPUs as its target."""
    return names_backend(op, "llvm-cpu")


def check_backend(module: ir.Operation, target: Target | None) -> None:
    """AttnError if the module is compiled for backends that we know, and not for the target's."""
    known = backends(module) & {name for family in families() for name in family.backends}
    if target is not None and known and target.backend not in known:
        names = ", ".join(sorted(known))
        raise AttnError(f"the target '{target.arch}' is none of {names}, as the module's are")


def target_texts(module: ir.Operation) -> list[str]:
    """The attributes of a module that may hold its `#hal.executable.target`s, as text."""
    from ..ir import known_attribute

    texts: list[str] = []
    block = module.regions[0].blocks[0]
    for op in block.operations:
        if op.operation.name == "util.global":
            texts.append(str(known_attribute(op.operation, "initial_value") or ""))
    attributes = module.attributes
    if "hal.device.targets" in attributes:
        texts.append(str(attributes["hal.device.targets"]))
    return texts


def parse_target(text: str) -> Target | None:
    """The target that text with a `#hal.executable.target` attribute names; None for none."""
    from ..ir import printed

    backend = next(iter(printed.backends(text)), "")
    claims = (family.claim(text) for family in families() if backend in family.backends)
    return next((target for target in claims if target is not None), None)


def widening_seconds(elements: float, target: Target) -> float:
    """What the cast of so many elements of 8 bits to 16 costs: a byte read and two written for
    each, and a launch. Less where IREE computes it with what makes the tensor."""
    return 3 * elements / target.bytes_per_second + target.launch_seconds
