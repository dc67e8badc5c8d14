"""What a compile leaves out, one thing after the other, where it fails with it.

A failure may be IREE's, with a message or by a crash, or that of a pass of ours. The passes that
changed nothing are no reason for it, so a module on which none did anything fails at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..forms.decompose import Decompose
from ..passes import Pass
from ..pipeline import left_out_by
from ..repair.keep_apart import KeepApart
from ..report.records import Report
from ..runner import Stage, stage_name

if TYPE_CHECKING:
    from iree.compiler import ir

# What changes the module beside the passes: what keeps IREE's own transpose off V, a level of
# optimisation that the user has not named, and what a fault between passes may have done.
BARRIERS = "the order of V"
LEVEL = "the level of optimisation"
UNKNOWN = "unknown changes"
# What the module holds, and can do without: attention ops, which are products and a softmax then,
# and kernels of several ops.
ATTENTION = "attention ops"
FUSION = "kernels of several ops"
_LAYOUT = frozenset(
    {"attn-explicit-repeats", "attn-transpose-caches", "attn-propagate-layout", BARRIERS}
)
# What is no step of ours.
_HELD = frozenset({LEVEL, ATTENTION, FUSION})


@dataclass(frozen=True)
class Fallback:
    """A thing to leave out: its name for a reader, the passes it stands for (None: all that is
    ours), and the flags that leave it out from the start."""

    name: str
    passes: frozenset[str] | None
    switch: str = ""

    def covers(self, name: str) -> bool:
        return self.passes is None or name in self.passes

    @property
    def writes_otherwise(self) -> bool:
        """Whether IREE gets other ops than the module's own."""
        return self.passes is not None and ATTENTION in self.passes


PLAIN = Fallback("all passes and the level O2, as by IREE alone", None, "--attn-disable")


def _without(name: str, switch: str, *more: str, **options: Any) -> Fallback:
    """The fallback that stands for such options of the default pipeline, and for `more`."""
    return Fallback(name, left_out_by(**options) | frozenset(more), switch)


def fallbacks(changed: Mapping[str, str]) -> list[Fallback]:
    """The list of what to leave out, in the order in which it is tried, each alone, of a module
    which so much has `changed` (see `Failure`)."""
    speed = frozenset(name for name, wrong in changed.items() if not wrong) - _HELD
    return [
        _without(
            "the precompiled kernels",
            "--attn-kernels=never --attn-products=never",
            kernels="never",
            products="never",
        ),
        _without("configurations", "--attn-configure=false", configure=False),
        _without(
            "its lowering steps",
            "--attn-hardware-exp2=false --attn-shared-memory=false",
            "attn-vectorize",
            "attn-vectorize-products",
            hardware_exp2=False,
            shared_memory=False,
        ),
        _without("attn-raise", "--attn-raise=false", raise_attention=False),
        Fallback("changes of layout", _LAYOUT, "--attn-mode=never"),
        # Before the level: at O0, IREE 3.13 computes wrong numbers of some graphs on CUDA.
        *_without_attention_ops(changed),
        Fallback("the level O2", frozenset({LEVEL}), "--iree-opt-level=O0"),
        Fallback("all steps for speed", speed),
        *_without_fusion(changed, speed),
        *(Fallback(name, frozenset({name})) for name, wrong in changed.items() if wrong),
        Fallback("all passes", frozenset(changed) - _HELD),
        PLAIN,
    ]


def _without_attention_ops(changed: Mapping[str, str]) -> list[Fallback]:
    if ATTENTION not in changed:
        return []
    for_ops = left_out_by(configure=False, hardware_exp2=False, shared_memory=False)
    return [Fallback(f"{ATTENTION}, which are products and a softmax now", for_ops | {ATTENTION})]


def _without_fusion(changed: Mapping[str, str], speed: frozenset[str]) -> list[Fallback]:
    """The last that keep the numbers right: no two ops in one kernel."""
    if FUSION not in changed:
        return []
    name, single = f"all steps for speed, {ATTENTION} and {FUSION}", speed | {ATTENTION, FUSION}
    return [Fallback(name, single), Fallback(f"the level O2, {name}", single | {LEVEL})]


@dataclass(frozen=True)
class Failure:
    """Why a compile failed: the first error, or the crash, with its place where that is known;
    what had changed the module, with what goes wrong without it (or ''); and the pass that
    failed itself, if one did."""

    why: str
    location: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)
    failed_pass: str = ""


class FallbackSearch:
    """Which compile of a module to try next.

    The first leaves nothing out. Behind it come those of `fallbacks` that stand for something
    that changed the module; a pass that fails itself is left out alone, from there on. Where two
    compiles fail with one error, the next is by IREE alone: if that fails so, too, the error is
    in the module, and only what writes its ops otherwise is tried. Else the search goes on behind
    it.
    """

    def __init__(self, may_go_on: bool = True) -> None:
        self.chosen: Fallback | None = None
        self.failures: list[Failure] = []
        self._may_go_on = may_go_on
        self._failed_passes: dict[str, Failure] = {}
        self._queue: list[Fallback] | None = None
        self._reason = Failure("")
        self._probes = self._has_probed = False

    @property
    def is_plain(self) -> bool:
        return self.chosen is PLAIN

    @property
    def is_probe(self) -> bool:
        """Whether the output of the present compile is not wanted."""
        return self._probes

    def leaves_out(self, name: str) -> bool:
        """Whether the present compile leaves out this pass, or these BARRIERS."""
        chosen = self.chosen is not None and self.chosen.covers(name)
        return chosen or name in self._failed_passes

    def kept(self, stages: Iterable[Stage]) -> list[Stage]:
        """Those of the stages that the present compile runs, and those that it runs besides."""
        kept = [stage for stage in stages if not self.leaves_out(stage_name(stage))]
        return [each for stage in kept for each in self._widened(stage)]

    def _widened(self, stage: Stage) -> list[Stage]:
        """A stage, which writes out all attention, or sets all ops apart, too, where these are
        left out."""
        if not isinstance(stage, Decompose) or not self.leaves_out(ATTENTION):
            return [stage]
        return [replace(stage, only="all"), *([KeepApart()] if self.leaves_out(FUSION) else [])]

    def failed(self, failure: Failure) -> bool:
        """Goes on to the next compile behind a failure; whether there is one."""
        self.failures.append(failure)
        if not self._may_go_on or (self.is_plain and not self._probes):
            return False
        if failure.failed_pass and not self.leaves_out(failure.failed_pass):
            self._failed_passes[failure.failed_pass] = failure
            return True
        if self._queue is None:
            self._queue, self._reason = _queue(failure.changed), failure
        if self._probes:
            self._probes = False
            if failure.why == self._reason.why:
                self._queue = [one for one in self._queue if one.writes_otherwise]
            return self._next()
        if not self._has_probed and len(self._queue) > 1 and self._failed_alike():
            self._probes = self._has_probed = True
            self.chosen = PLAIN
            return True
        return self._next()

    def succeeded(self) -> bool:
        """Whether the compile that succeeded is the one to take; else goes on to the next."""
        if not self._probes:
            return True
        self._probes = False
        return not self._next()

    def tell(self, report: Report) -> None:
        """Puts into the report what the present compile leaves out, and what is wrong then."""
        for name, failure in self._failed_passes.items():
            report.fallback(f"compiled without {name}: {failure.why}", failure.location)
        if self.chosen is not None:
            flags = f" ({self.chosen.switch})" if self.chosen.switch else ""
            reason = f"compiled without {self.chosen.name}{flags}: {self._reason.why}"
            report.fallback(reason, self._reason.location)
        changed = {name: why for each in self.failures for name, why in each.changed.items()}
        for name, wrong in changed.items():
            if wrong and self.leaves_out(name):
                report.known_wrong(f"{wrong}, since {name} is left out")

    def _failed_alike(self) -> bool:
        return len(self.failures) > 1 and self.failures[-1].why == self.failures[-2].why

    def _next(self) -> bool:
        if not self._queue:
            return False
        self.chosen = self._queue.pop(0)
        return True


def _queue(changed: Mapping[str, str]) -> list[Fallback]:
    """The fallbacks that leave out anything that changed the module; of those that come to the
    same, the one that says it best."""
    found: dict[frozenset[str], Fallback] = {}
    for fallback in fallbacks(changed):
        covered = frozenset(name for name in changed if fallback.covers(name))
        if covered and _says_less(fallback, found.get(covered)):
            found[covered] = fallback
    return list(found.values())


def _says_less(one: Fallback, other: Fallback | None) -> bool:
    """Whether `one`, which has a switch of its own, stands for fewer passes than `other`."""
    if other is None or not one.switch or one.passes is None:
        return other is None
    return other.passes is None or len(one.passes) < len(other.passes)


def left_out_at(module: ir.Operation, stages: Iterable[Stage]) -> dict[str, str]:
    """What a module holds behind these stages that another compile could do without."""
    from ..forms.decompose import may_be_decomposed
    from ..repair.keep_apart import any_computes

    if not any(isinstance(stage, Decompose) for stage in stages):
        return {}
    held = {ATTENTION: may_be_decomposed(module, Decompose().megabytes)}
    held[FUSION] = any_computes(module)
    return {name: "" for name, holds in held.items() if holds}


def mended_by(stage: Stage) -> str:
    """What goes wrong without a stage that changed the module; '' for nothing known."""
    return stage.mends if isinstance(stage, Pass) else ""
