"""attn-use-kernels: precompiled Hopper kernels in place of IREE's own attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from .. import machines as targets
from ..attention.facts import AttentionFacts, find
from ..ir import erase_dead, maps
from ..machines import Target
from ..passes import Pass, PassContext, option
from ..report.records import OperandRecord, Report
from .choose import KernelPlan, choose
from .dispatch import replace_by_kernel


def use_kernels(
    module: ir.Operation,
    target: Target | None,
    mode: str,
    report: Report,
    pass_name: str,
    elsewhere: bool,
    only: str = "",
) -> bool:
    """Returns whether IR changed; with `elsewhere` the module also runs on other devices;
    `only` names the one kernel that may be taken. Needs a current context."""
    attentions = find(module)
    problem = unfit_target(module, target)
    taken = []
    for facts in attentions:
        order = maps.show(facts.map_of("output"))
        record = OperandRecord("output", "refused", problem, order, order, pass_name=pass_name)
        device = None if problem else target
        if device and _use_kernel(facts, device, mode, record, elsewhere, only):
            taken.append(facts.op)
        of_attention = report.record_of(facts)
        # Where no kernel fits any more, the price that one had is the better reason.
        if record.decision != "refused" or not of_attention.has_decision(record):
            of_attention.decide(record)
    erase_dead(taken)
    return bool(taken)


def _use_kernel(
    facts: AttentionFacts,
    target: Target,
    mode: str,
    record: OperandRecord,
    elsewhere: bool,
    only: str,
) -> bool:
    plan = choose(facts, target, only=only)
    if isinstance(plan, str):
        record.reason = plan
        return False
    why = _not_taken(plan, mode)
    if why:
        record.decision, record.reason = "kept", why
        return False
    record.decision, record.reason, record.launches = (
        "kernel",
        _words(plan),
        len({*plan.moved, *plan.widened}),
    )
    if elsewhere:
        record.reason += "; IREE's own code elsewhere"
    replace_by_kernel(facts, plan, elsewhere)
    return True


def note_priced_out(
    module: ir.Operation, target: Target, mode: str, report: Report, pass_name: str
) -> None:
    """Records attention that a kernel fits now and does not win, before layouts change that no
    kernel may fit afterwards."""
    for facts in find(module):
        plan = choose(facts, target)
        why = "" if isinstance(plan, str) else _not_taken(plan, mode)
        if why:
            order = maps.show(facts.map_of("output"))
            record = OperandRecord("output", "kept", why, order, order, pass_name=pass_name)
            report.record_of(facts).decide(record)


def _not_taken(plan: KernelPlan, mode: str) -> str:
    """Why a kernel that fits is not taken; empty if it is."""
    if mode == "never":
        return f"{_words(plan)}, not taken: mode=never"
    return f"{_words(plan)}, no win" if mode == "cost" and plan.seconds <= 0 else ""


def _words(plan: KernelPlan) -> str:
    return f"{plan.kernel.name}: {plan.reason}"


def unfit_target(module: ir.Operation, target: Target | None) -> str:
    """Why the kernels cannot run on the target; empty if they can."""
    if target is None:
        return "the target is unknown; say target=sm_90 if the module runs on Hopper"
    own = targets.resolve_target(module)
    if own is not None and own.backend != "cuda":
        return f"the module is compiled for {own.name}, the kernels are CUDA's"
    if target.backend != "cuda" or not target.arch.startswith("sm_90"):
        return f"the kernels need sm_90; the target is {target.name} (say target=sm_90 if it is)"
    return ""


@dataclass(frozen=True)
class UseKernels(Pass):
    """Replaces attention by a `hal.dispatch.extern` of a kernel from the manifest.

    `mode=cost` takes a kernel where it is estimated to win, `always` wherever one fits,
    `never` only reports. A module that is compiled for an older architecture says
    `target=sm_90` to promise that it runs on Hopper. With `elsewhere=iree` it runs elsewhere,
    too: it asks the device at run time, and holds IREE's own attention beside the kernel.
    `kernel` is for measuring one kernel where another would be taken.
    """

    name: ClassVar[str] = "attn-use-kernels"
    summary: ClassVar[str] = "replace attention by precompiled Hopper kernels where they win"
    backends: ClassVar[tuple[str, ...]] = ("cuda",)

    target: str = option("", "device the module will run on, instead of the module's target")
    mode: str = option("cost", "where a kernel is taken", ("cost", "always", "never"))

    elsewhere: str = option(
        "refuse",
        "what a device without the kernels does: refuse to load, or run IREE's code",
        ("refuse", "iree"),
    )

    kernel: str = option("", "the name of the one kernel that may be taken; empty: any")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.device(module, context)
        with module.context:
            return use_kernels(
                module,
                target,
                self.mode,
                context.report,
                self.name,
                self.elsewhere == "iree",
                self.kernel,
            )

    def device(self, module: ir.Operation, context: PassContext) -> Target | None:
        """The target whose kernels are taken."""
        return context.target_for(module, self.target)
