"""IREE's compilation phases, and which of a pipeline's stages run after which."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import PipelineError
from .passes import Pass
from .runner import Foreign, Stage

# In the order of IREE 3.13; `start` is the parsed input, `end` the finished module.
PHASES = (
    "start",
    "input",
    "abi",
    "preprocessing",
    "global-optimization",
    "dispatch-creation",
    "flow",
    "stream",
    "executable-sources",
    "executable-configurations",
    "executable-targets",
    "hal",
    "vm",
    "end",
)

DEFAULT_PHASE = "preprocessing"
KERNEL_PHASE = "executable-sources"
HAL_PHASE = "hal"
V_TRANSPOSE_FLAG = "--iree-global-opt-enable-attention-v-transpose"


def phase_index(name: str) -> int:
    """Place of a phase; PipelineError lists the phases for an unknown one."""
    if name not in PHASES:
        raise PipelineError(f"unknown phase '{name}' (known: {', '.join(PHASES)})")
    return PHASES.index(name)


def by_phase(stages: Sequence[Stage], phase: str | None = None) -> dict[str, list[Stage]]:
    """Stages grouped by the phase they run after, in the order of the phases.

    A pass of ours runs where it declares, those on tensors at `phase` if that is given: the
    passes on kernels stay where there are kernels, those on what IREE imports where it has not
    done so yet. A foreign pass runs with the pass of ours that stands before it.
    """
    if phase is not None:
        phase_index(phase)
    groups: dict[str, list[Stage]] = {}
    current = phase or DEFAULT_PHASE
    for stage in stages:
        if isinstance(stage, Pass) and not isinstance(stage, Foreign):
            current = phase if phase and _works_on_tensors(stage) else stage.phase
        groups.setdefault(current, []).append(stage)
    return dict(sorted(groups.items(), key=lambda item: phase_index(item[0])))


def _works_on_tensors(stage: Pass) -> bool:
    return phase_index("start") < phase_index(stage.phase) < phase_index(KERNEL_PHASE)
