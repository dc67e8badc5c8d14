"""`attnpass.pipeline_hook`: our passes in a script that drives IREE's compiler API itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AttnError, CompileError, InternalError, PassError
from ..machines.user_specs import UserSpecs, specs_in
from ..passes import PassContext
from ..phases import HAL_PHASE, by_phase, phase_index
from ..pipeline import PipelineOptions, text_of
from ..report.records import Report
from ..runner import Instrumentation, Stage, parse_pipeline, run_pipeline, stage_name
from .cuda_target import describe_targets, undescribed_arch
from .fallbacks import BARRIERS, LEVEL, UNKNOWN, Failure, FallbackSearch, left_out_at, mended_by
from .flags import level_of
from .session import configure_nothing, drive
from .steps import StepWatch

if TYPE_CHECKING:
    from iree.compiler import ir
    from iree.compiler.api import Invocation, Session


# The last phase before IREE's own transpose of V.
BARRIER_PHASE = "preprocessing"
# The pass that makes attention ops of what is written out.
RAISE = "attn-raise"
# The first phase at whose end the module names the targets it is compiled for.
TARGET_PHASE = "preprocessing"
# The first phase at whose end the functions consist of dispatches.
DISPATCH_PHASE = "flow"
# The passes that decide on the order of V's dims.
_MOVE_V = (
    "attn-transpose-caches",
    "attn-propagate-layout",
    "attn-bubble-transpose-v",
    "attn-fuse-transpose",
)
# Between these attention is an op in the open.
_FIRST_OPEN, _LAST_OPEN = "input", "global-optimization"
# Those that have IREE's transpose behind them and attention still in the open.
LATE_PHASES = ("global-optimization", "dispatch-creation")


class PipelineHook:
    """A pipeline to run between the phases of a compile; `report` holds what it decided.

    A hook may be used for many compiles, one after the other; `report` is of the last. One that
    `falls_back` leaves out passes with which a compile fails.
    """

    def __init__(
        self,
        stages: dict[str, list[Stage]],
        mode: str,
        target: str,
        dump_ir: str,
        falls_back: bool = False,
    ):
        self.stages = stages
        self.mode = mode
        self.target = target
        self.dump_ir = dump_ir
        self.falls_back = falls_back
        self.report = Report(mode=mode)
        # Flags of the compiler that a session does not know of: those global to the process.
        self.global_flags: Sequence[str] = ()
        # Whether the level of optimisation is ours, and not what the user named.
        self.added_level = False
        # Whether the report gets what each step does to the IR, which takes time to print.
        self.keeps_steps = False
        # What has changed the module in the present compile, with what goes wrong without it.
        self.changed: dict[str, str] = {}
        # The pass that runs, if one does, with what goes wrong without it.
        self.running: dict[str, str] = {}
        # Called whenever more is known of the present compile.
        self.on_progress: Callable[[], object] = lambda: None
        # Phases of the present compile that must run in one thread.
        self.alone_at: tuple[str, ...] = ()
        # Whether a function can be called from outside; None until that is known.
        self.has_entry: bool | None = None

    def execute(
        self, invocation: Invocation, compile_from: str = "start", compile_to: str = "end"
    ) -> Invocation:
        """Stands in for `invocation.execute()`: compiles the module that `invocation` has
        parsed or imported, with our passes at their phases.

        Returns the invocation to take output from. Raises AttnError or CompileError on failure.
        Where IREE, or a pass of the default pipeline, fails on the module, it is compiled again
        without one thing or another (see `fallbacks`), at last by IREE alone; what had to be
        left out is an event of the report. Each event is a RuntimeWarning. A crash of IREE ends
        the process, which only a compile in a process of its own survives: attn-compile,
        `compile_file` and `compile_str`.

        IREE's own transpose of V cannot be switched off on a session, so a compute barrier
        below each V that stays keeps IREE from moving it. The barrier also stands in the way
        of IREE's folding and fusion: k2 stays where attn-compile leaves it, but V's other
        dims may come in another order, with a dispatch or two more or fewer.
        """
        from ..ir import detached_copy

        session = invocation.session
        spare = _copy_of_module(invocation) if self.falls_back else None
        search = FallbackSearch(self.falls_back)
        while True:
            hooks = self.hooks(session, compile_from, compile_to, search, keep_v=True)
            try:
                last = drive(invocation, compile_from, compile_to, hooks, alone_at=self.alone_at)
            except (CompileError, PassError) as error:
                if not search.failed(self.failure(error)):
                    raise
            else:
                if search.succeeded():
                    break
            assert spare is not None
            invocation = session.invocation()
            configure_nothing(invocation)
            invocation.import_module(detached_copy(spare))
        search.tell(self.report)
        for event in self.report.events:
            place = f"{event.location}: " if event.location else ""
            warnings.warn(f"{place}{event}", RuntimeWarning, stacklevel=2)
        return last

    def failure(self, error: CompileError | PassError) -> Failure:
        """What a compile with these hooks failed with, for the search of another."""
        if isinstance(error, CompileError):
            why = f"IREE fails: {error.why or error.message}"
            return Failure(why, error.place, self.changed)
        changed = self.changed if error.name else {**self.changed, UNKNOWN: ""}
        if error.name:
            stages = [stage for group in self.stages.values() for stage in group]
            mends = {stage_name(stage): mended_by(stage) for stage in stages}
            changed = {**self.changed, error.name: mends.get(error.name, "")}
        return Failure(error.message, error.location, changed, error.name)

    def hooks(
        self,
        session: Session,
        compile_from: str,
        compile_to: str,
        search: FallbackSearch,
        keep_v: bool,
    ) -> dict[str, Callable[[ir.Operation], None]]:
        """The functions to call at the ends of phases, for a new compile that leaves out what
        `search` says; notes in its report what is skipped."""
        self.report, self.changed = Report(mode=self.mode), {}
        wanted: dict[str, Callable[[ir.Operation], None]] = {}
        first, last = phase_index(compile_from), phase_index(compile_to)
        flags = [*session.get_flags(non_default_only=False), *self.global_flags]
        self.report.level, specs = level_of(flags), specs_in(flags)
        self.alone_at = specs.alone_at
        groups = {phase: search.kept(stages) for phase, stages in self.stages.items()}
        groups = {phase: stages for phase, stages in groups.items() if stages}
        cuda = undescribed_arch(session)
        keep_v &= not search.leaves_out(BARRIERS)
        if cuda and first <= phase_index(TARGET_PHASE) <= last:
            groups.setdefault(TARGET_PHASE, [])
        if keep_v and first <= phase_index(BARRIER_PHASE) <= last:
            # IREE moves V right after this phase, whatever phases the passes work at.
            groups.setdefault(BARRIER_PHASE, [])
            if late := [phase for phase in LATE_PHASES if _move_v(groups.get(phase, []))]:
                self.report.note(
                    f"the passes at '{late[0]}' see V behind a barrier, since IREE's own "
                    "transpose of V can be switched off in attn-compile only",
                    phase=late[0],
                )
        is_open = range(phase_index(_FIRST_OPEN), phase_index(_LAST_OPEN) + 1)
        reached = [index for index in map(phase_index, groups) if first <= index <= last]
        first_open = min((index for index in reached if index in is_open), default=None)
        for phase, stages in groups.items():
            if phase_index(phase) in reached:
                wanted[phase] = self._at(
                    phase, stages, keep_v, cuda, phase_index(phase) == first_open, specs
                )
            elif stages:
                names = ", ".join(stage_name(stage) for stage in stages)
                self.report.not_run(
                    f"{names} works at phase '{phase}', outside '{compile_from}' to '{compile_to}'",
                    passes=names,
                    phase=phase,
                )
        return wanted

    def _at(
        self,
        phase: str,
        stages: list[Stage],
        keep_v: bool,
        cuda: tuple[str, str] | None,
        tells_what_is_missing: bool,
        specs: UserSpecs,
    ) -> Callable[[ir.Operation], None]:
        def run(module: ir.Operation) -> None:
            from ..ir import collect, location_text
            from ..machines import check_backend, resolve_target
            from ..raising.decomposed import tell_what_is_missing

            if cuda:
                describe_targets(module, *cuda, self.report)
            if self.dump_ir:
                self._dump(f"{phase}-before", module)
            if tells_what_is_missing:
                self.has_entry = _has_entry(module)
                raises = any(stage_name(stage) == RAISE for stage in stages)
                tell_what_is_missing(module, self.report, raises)
            if self.has_entry is False and phase_index(phase) >= phase_index(HAL_PHASE):
                # IREE says so itself, if it is not stopped here.
                raise AttnError(
                    "no function is public and has a body: there is nothing to compile; make one "
                    "public",
                    location_text(module.location),
                )
            if stages:
                target = resolve_target(module, self.target or None)
                if self.target:
                    check_backend(module, target)
                self._run(module, stages, PassContext(self.report, target, specs=specs), phase)
            if phase == DISPATCH_PHASE:
                self.report.dispatches = len(collect(module, lambda op: op.name == "flow.dispatch"))
            if self.added_level and phase_index(phase) >= phase_index(TARGET_PHASE):
                self.changed[LEVEL] = ""
            if keep_v and phase == BARRIER_PHASE:
                from ..attention.barrier import keep_v_layouts

                if keep_v_layouts(module):
                    self.changed[BARRIERS] = ""
            if self.dump_ir:
                self._dump(f"{phase}-after", module)

        def call(module: ir.Operation) -> None:
            try:
                run(module)
            except AttnError:
                raise
            except Exception as error:
                raise InternalError(error) from error
            self.on_progress()

        return call

    def _run(
        self, module: ir.Operation, stages: list[Stage], context: PassContext, phase: str
    ) -> None:
        steps = StepWatch(self.report, phase, stages)
        mends = {stage_name(stage): mended_by(stage) for stage in stages}

        def tell_of(name: str, module: ir.Operation) -> None:
            if self.keeps_steps:
                steps.before(module)
            self.running = {name: mends[name]}
            self.on_progress()

        watch = Instrumentation(before=tell_of)
        if self.keeps_steps:
            watch.after = lambda name, module: steps.after(name, module, watch)
        try:
            run_pipeline(module, stages, context, instrumentation=watch)
            if self.falls_back:
                self.changed |= left_out_at(module, stages)
        finally:
            self.running = {}
            self.changed |= {stage_name(stage): mended_by(stage) for stage in watch.changed}

    def _dump(self, name: str, module: ir.Operation) -> None:
        try:
            folder = Path(self.dump_ir)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.mlir").write_text(str(module))
        except OSError as error:
            why = (error.strerror or "").lower()
            raise AttnError(f"cannot write IR there: {why}", self.dump_ir) from None


def _move_v(stages: list[Stage]) -> bool:
    return any(stage_name(stage) in _MOVE_V for stage in stages)


def _has_entry(module: ir.Operation) -> bool:
    """Whether a function of the module is public."""
    from ..analysis.boundary import FUNCTIONS, public_function
    from ..ir import body_ops

    return any(op.name in FUNCTIONS and public_function(op) for op in body_ops(module))


def _copy_of_module(invocation: Invocation) -> ir.Operation:
    """A copy of the module that an invocation holds, and goes on holding."""
    from ..ir import detached_copy

    try:
        module = invocation.export_module()
    except RuntimeError:
        raise CompileError("there is no module to compile: parse or import one first") from None
    invocation.import_module(module)
    return detached_copy(module)


def pipeline_hook(
    pipeline: str | None = None,
    *,
    target: str | None = None,
    phase: str | None = None,
    dump_ir: str | None = None,
    **options: Any,
) -> PipelineHook:
    """A hook that runs `pipeline` within a compile; by default the steps that attn-compile runs,
    with `options` (mode, cache, kernels, configure, ...) as `attnpass.PipelineOptions` has them.

        session = Session()
        session.set_flags("--iree-hal-target-device=local", ...)
        invocation = session.invocation()
        invocation.parse_source(source)
        hook = attnpass.pipeline_hook(mode="cost")
        hook.execute(invocation).output_vm_bytecode(output)
        print(hook.report.to_text())

    `target` names the machine to price for, where the module does not; `phase` moves all
    passes on tensors to one phase; `dump_ir` is a folder for the IR before and after them. Raises
    PipelineError for a bad pipeline, phase or option. A pass of the default pipeline with which
    the compile fails is left out (see `PipelineHook.execute`); what `pipeline` names is not.
    """

    chosen = PipelineOptions(**options)
    if target:
        from ..machines import named_target

        named_target(target)
    if chosen.table:
        from ..machines.table import read_table

        # Long before the compile comes to it.
        read_table(chosen.table)
    stages = by_phase(parse_pipeline(pipeline or text_of(chosen)), phase)
    # The passes that a user asks for are not left out.
    return PipelineHook(stages, chosen.mode, target or "", dump_ir or "", falls_back=not pipeline)
