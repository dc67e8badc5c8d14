"""attn-use-kernels: kernels of providers in place of IREE's own attention."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts, find
from ..ir import Refusal, erase_dead, maps
from ..machines import DEFAULT_TARGET, Target
from ..passes import PassContext, TargetPass, option
from ..report.entries import OperandRecord
from ..report.records import Report
from . import (
    MODES,
    KernelProvider,
    Offer,
    best_offer,
    mode_for,
    note_default,
    providers,
    providers_for,
)


def use_kernels(
    module: ir.Operation,
    target: Target | None,
    mode: str,
    report: Report,
    pass_name: str,
    elsewhere: bool,
    only: str,
) -> bool:
    """Returns whether IR changed; with `elsewhere` the module also runs on other devices;
    `only` names the one kernel that may be taken. Needs a current context."""
    attentions = find(module)
    found = providers_for(module, target)
    device = target or DEFAULT_TARGET
    taken = []
    for facts in attentions:
        order = maps.show(facts.map_of("output"))
        record = OperandRecord("output", "refused", "", order, order, pass_name=pass_name)
        offer = found if isinstance(found, Refusal) else best_offer(found, facts, device, only=only)
        if _take(offer, facts, mode, record, elsewhere):
            taken.append(facts.op)
        of_attention = facts.record_in(report)
        # Where no kernel fits any more, the price that one had is the better reason.
        if record.decision != "refused" or not of_attention.has_decision(record):
            of_attention.decide(record)
    erase_dead(taken)
    return bool(taken)


def _take(
    offer: Offer | Refusal,
    facts: AttentionFacts,
    mode: str,
    record: OperandRecord,
    elsewhere: bool,
) -> bool:
    """Takes an offer where it pays; returns whether it did, and records why."""
    if isinstance(offer, Refusal):
        record.reason = str(offer)
        return False
    why = offer.why_not(mode)
    if why:
        record.decision, record.reason = "kept", str(why)
        return False
    record.decision, record.reason = "kernel", str(offer)
    record.launches = len({*offer.moved, *offer.widened})
    if elsewhere:
        record.reason += "; IREE's own code elsewhere"
    offer.replace(facts, elsewhere)
    return True


def note_priced_out(
    module: ir.Operation,
    sources: Sequence[KernelProvider],
    target: Target,
    mode: str,
    report: Report,
    pass_name: str,
) -> None:
    """Records attention that a kernel fits now and does not win, before layouts change that no
    kernel may fit afterwards."""
    for facts in find(module):
        offer = best_offer(sources, facts, target)
        why = None if isinstance(offer, Refusal) else offer.why_not(mode)
        if why:
            order = maps.show(facts.map_of("output"))
            record = OperandRecord("output", "kept", str(why), order, order, pass_name=pass_name)
            of_attention = facts.record_in(report)
            if not of_attention.has_decision(record):
                of_attention.decide(record)


@dataclass(frozen=True)
class KernelPass(TargetPass):
    """A pass that takes kernels of providers, for `taken_for`; `switch` is its option in default
    pipelines."""

    taken_for = ""
    switch = ""

    mode: str = option("cost", "where a kernel is taken", MODES)

    @classmethod
    def concerns(cls, backends: Collection[str]) -> bool:
        return not backends or any({*each.backends} & {*backends} for each in providers())

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        mode = mode_for(self.mode, module, target)
        if not mode:
            return False
        changed = self.take(module, target, mode, context.report)
        if changed and self.mode == "auto":
            note_default(context.report, self.taken_for, self.switch)
        return changed

    def take(self, module: ir.Operation, target: Target | None, mode: str, report: Report) -> bool:
        """Takes kernels; returns whether IR changed. In a current context."""
        raise NotImplementedError


@dataclass(frozen=True)
class UseKernels(KernelPass):
    """Replaces attention by the best kernel that a provider offers for it: ours are precompiled
    ones for Hopper, each a `hal.dispatch.extern`.

    `mode=cost` takes a kernel where it is estimated to win, `always` wherever one fits,
    `never` only reports; `auto` is `cost` where the target has kernels. A module that is compiled
    for an older architecture says `target=sm_90` to promise that it runs on Hopper. With
    `elsewhere=iree` it runs elsewhere, too: it asks the device at run time, and holds IREE's own
    attention beside the kernel.
    `kernel` is for measuring one kernel where another would be taken; `decode_*` are all of these.
    """

    name = "attn-use-kernels"
    summary = "replace attention by precompiled Hopper kernels where they win"
    taken_for = "attention"
    switch = "kernels"

    elsewhere: str = option(
        "refuse",
        "what a device without the kernels does: refuse to load, or run IREE's code",
        ("refuse", "iree"),
    )

    kernel: str = option("", "the name of the one kernel that may be taken, or of some; empty: any")

    def take(self, module: ir.Operation, target: Target | None, mode: str, report: Report) -> bool:
        elsewhere = self.elsewhere == "iree"
        return use_kernels(module, target, mode, report, self.name, elsewhere, self.kernel)
