"""attn-compile: iree-compile with our passes between its phases."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..driver.fallbacks import LEVEL, FallbackSearch
from ..driver.files import (
    STANDARD,
    check_all_differ,
    check_temporary_folder,
    check_writable,
    decode,
    is_bytecode,
    read_input,
    write_output,
)
from ..driver.flags import CompileOptions, backends_of, iree_compile, parse_arguments
from ..driver.modules import may_need_import
from ..errors import AttnError, CompileError, PassError
from ..passes import REGISTRY
from ..pipeline import choices, shown
from ..pipeline import usage as pipeline_usage
from ..report.entries import Event
from ..report.page import page
from ..report.records import Report
from ..report.remarks import remarks
from ..runner import stage_name
from .attempts import CompileState, Done, Failed, Tell, compile_in_children
from .diagnostics import run_tool, split_chunks
from .dialects import search_here
from .guard import guarded
from .version import version_text

if TYPE_CHECKING:
    from iree.compiler.api import Invocation, Session

    from ..driver.hook import PipelineHook

# Without it IREE loads the dialects of all front ends: a seventh of a small compile.
NO_FRONT_END = "--iree-input-type=none"
_ABOUT_INPUTS = ("iree-input-type", "iree-plugin", "iree-load-plugin")

USAGE = f"""\
usage: attn-compile FILE|- [-o FILE] [flags]

iree-compile with attnpass's passes between its phases. It takes every flag that
iree-compile takes (--help lists them), and:

{pipeline_usage(CompileOptions)}

IREE's own transpose of V is off, since the passes decide, unless
--iree-global-opt-enable-attention-v-transpose is given. Where no --iree-opt-level is given, it
is O2: IREE's own default, O0, is up to 21 times as slow on CPUs.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_tool("attn-compile", lambda: _main(given))


def _main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    if options.help:
        print(USAGE, end="")
        return 0
    if options.show_pipeline:
        print(_shown(options), end="")
        return 0
    if options.disable or options.handed_on:
        return guarded("attn-compile", lambda: _iree_compile(options))
    _check_outputs(options)
    check_temporary_folder()
    if options.output == STANDARD and options.is_binary and sys.stdout.isatty():
        raise AttnError("the output is no text for a terminal; give a file with -o")
    job = _CompileJob(options, _chunks(options))
    return compile_in_children(
        job.name,
        [FallbackSearch(not options.pipeline) for _ in job.chunks],
        lambda searches, tell: run_tool("attn-compile", lambda: job.run(searches, tell)),
    )


def _check_outputs(options: CompileOptions) -> None:
    """AttnError where a file could not be written, or would be written over another."""
    asked = {"report": options.report, "page": options.explain}
    written = {name: path for name, path in asked.items() if path}
    for path in (options.output, *written.values()):
        check_writable(path)
    if options.report == STANDARD:
        # It goes to standard error.
        del written["report"]
    check_all_differ({"output": options.output, **written}, [options.input])


def _shown(options: CompileOptions) -> str:
    """What would run with these flags."""
    if options.disable:
        return "nothing: --attn-disable is plain iree-compile\n"
    backends = backends_of(options.compiler_flags)
    return shown(options, backends, options.pipeline, options.phase or None)


def _iree_compile(options: CompileOptions) -> int:
    """Becomes iree-compile, without our flags; help and version begin with ours."""
    asked = {word.lstrip("-") for word in options.without_ours if word.startswith("-")}
    if asked & {"h", "help", "help-hidden"}:
        print(f"{USAGE}\nAnd those of iree-compile:\n")
    if "version" in asked:
        print(version_text(), end="")
    if options.report or options.summary or options.remarks or options.explain:
        report = Report(mode="disabled" if options.disable else options.mode)
        report.not_run("iree-compile was called as it is, without the passes")
        _write_report(options, report)
    sys.stdout.flush()
    tool = iree_compile()
    os.execv(tool, [tool, *options.without_ours])


def _write_report(options: CompileOptions, report: Report) -> None:
    if options.report and options.report != STANDARD:
        write_output(options.report, report.to_json().encode())
    if options.explain:
        write_output(options.explain, page(report).encode())
    if options.summary or options.report == STANDARD:
        print(report.to_text(), end="", file=sys.stderr)
    if options.remarks:
        for remark in remarks(report):
            print(remark.line(options.input_name), file=sys.stderr)


def _hook(options: CompileOptions) -> PipelineHook:
    from ..driver.hook import pipeline_hook

    return pipeline_hook(
        options.pipeline or None,
        target=options.target or None,
        phase=options.phase or None,
        dump_ir=options.dump_ir or None,
        **{field.name: getattr(options, field.name) for field in choices()},
    )


def _chunks(options: CompileOptions) -> list[bytes]:
    """The modules of the input."""
    data = read_input(options.input)
    name = options.input_name
    if not data.strip():
        raise AttnError("the file is empty; an MLIR module is needed", f"{name}:1:1")
    if is_bytecode(data):
        return [data]
    text = decode(data, name)
    return [chunk.encode() for chunk in split_chunks(text)] if options.split_input else [data]


@dataclass(frozen=True)
class _CompileJob:
    """A command line and the modules that it is to compile."""

    options: CompileOptions
    chunks: list[bytes]

    @property
    def name(self) -> str:
        """What messages call the input."""
        return self.options.input_name

    def run(self, searches: Sequence[FallbackSearch], tell: Tell) -> int:
        """Compiles each module as its search says, in this process, and `tell`s what becomes of
        each; writes the output if all of them are as wanted."""
        from ..driver.session import check_backends, set_global_flags

        options = self.options
        search_here()
        hook = _hook(options)
        added = {
            name: flag
            for name, flag in options.added_flags.items()
            if not all(search.leaves_out(name) for search in searches)
        }
        hook.added_level = LEVEL in added
        hook.keeps_steps = options.report not in ("", STANDARD) or bool(options.explain)
        flags = [*options.compiler_flags, *added.values()]
        if self._holds_no_front_end(hook):
            flags.append(NO_FRONT_END)
        hook.global_flags = flags
        check_backends(flags)
        set_global_flags(*flags)
        found = self._outputs(hook, searches, tell)
        if found is None:
            return 1
        outputs, report = found
        for event in report.events:
            print(warning_text(event), file=sys.stderr)
        failure = _failure(report, options.fail_on)
        _write_report(options, report)
        if failure:
            raise AttnError(failure[1], failure[0])
        write_output(options.output, b"".join(outputs))
        return 0

    def _holds_no_front_end(self, hook: PipelineHook) -> bool:
        """Whether IREE, which looks for ops of front ends unless told what there is, finds none."""
        if any(flag.lstrip("-").startswith(_ABOUT_INPUTS) for flag in self.options.compiler_flags):
            return False
        known = all(stage_name(stage) in REGISTRY for stage in hook.stages.get("start", ()))
        return known and not any(map(may_need_import, self.chunks))

    def _outputs(
        self, hook: PipelineHook, searches: Sequence[FallbackSearch], tell: Tell
    ) -> tuple[list[bytes], Report] | None:
        """What all modules have become, and the report; None where one is not as wanted."""
        from iree.compiler.api import Session

        session = Session()
        report = Report(mode=self.options.mode)
        outputs: list[bytes] = []
        as_wanted = True
        for number, (chunk, search) in enumerate(zip(self.chunks, searches, strict=True)):
            hook.on_progress = lambda number=number: tell(
                CompileState(number, hook.changed | hook.running, *hook.running)
            )
            try:
                outputs.append(_compile(session, self.options, hook, chunk, search))
            except (CompileError, PassError) as error:
                as_wanted = False
                self._complain(hook, error)
                tell(Failed(number, hook.failure(error)))
                continue
            as_wanted &= not search.is_probe
            tell(Done(number))
            search.tell(hook.report)
            report.extend(hook.report)
        return (outputs, report) if as_wanted else None

    def _complain(self, hook: PipelineHook, error: CompileError | PassError) -> None:
        """Says what IREE has not."""
        if isinstance(error, PassError):
            print(error if error.location else f"attn-compile: {error}", file=sys.stderr)
        elif hook.has_entry is False:
            text = "no function is public and has a body: there is nothing to compile"
            print(f"{self.name}: note: {text}", file=sys.stderr)


def _compile(
    session: Session,
    options: CompileOptions,
    hook: PipelineHook,
    data: bytes,
    search: FallbackSearch,
) -> bytes:
    from ..driver.session import drive, open_source, output_bytes, output_vm_c

    def configure(invocation: Invocation) -> None:
        _configure(invocation, options)

    hooks = hook.hooks(session, options.compile_from, options.compile_to, search, keep_v=False)
    first = session.invocation()
    configure(first)
    if not first.parse_source(open_source(session, options.input, data)):
        raise CompileError("the input does not parse")
    phases = options.compile_from, options.compile_to
    last = drive(first, *phases, hooks, configure, hook.alone_at)
    if options.compile_to == "end" and options.output_format == "vm-bytecode":
        return output_bytes(last.output_vm_bytecode)
    if options.compile_to == "end" and options.output_format == "vm-c":
        return output_bytes(lambda output: output_vm_c(last, output))
    if options.emit_bytecode:
        version = int(options.bytecode_version)
        return output_bytes(lambda output: last.output_ir_bytecode(output, version))
    return output_bytes(last.output_ir)


def _configure(invocation: Invocation, options: CompileOptions) -> None:
    from ..driver.session import library

    dylib = library()
    invocation.enable_console_diagnostics()
    dylib.ireeCompilerInvocationSetVerifyIR(invocation._inv_p, options.verify)
    if options.dump_phases:
        folder = options.dump_phases.encode()
        dylib.ireeCompilerInvocationSetDumpCompilationPhasesTo(invocation._inv_p, folder)
    if options.remarks_filter:
        dylib.ireeCompilerInvocationSetupRemarks(
            invocation._inv_p, options.remarks_filter.encode(), options.remarks_file.encode()
        )


def warning_text(event: Event) -> str:
    """An event as a compiler's warning, with its place where it has one."""
    return f"{event.location or 'attn-compile'}: warning: {event}"


def _failure(report: Report, fail_on: Sequence[str]) -> tuple[str, str] | None:
    """(location, why) of the first decision that --attn-fail-on does not allow."""
    for event in report.events:
        if event.kind in fail_on:
            return event.location, f"--attn-fail-on={event}"
    for record in report.attentions:
        for operand in record.operands:
            if "refused" in fail_on and operand.decision == "refused":
                return (
                    record.location,
                    f"--attn-fail-on=refused: {operand.operand}: {operand.reason}",
                )
            if "moved" in fail_on and (operand.bytes_after or 0) > 0:
                return record.location, (
                    f"--attn-fail-on=moved: {operand.operand} moves {operand.bytes_after} bytes"
                )
    return None


if __name__ == "__main__":
    sys.exit(main())
