"""attn-compile: iree-compile with our passes between its phases."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import AttnError, CompileError
from ..iree.flags import CompileOptions, iree_compile, parse_arguments
from ..report.records import Event, Report
from .diagnostics import run_tool, split_chunks
from .dialects import search_here
from .files import (
    STANDARD,
    check_different,
    check_temporary_folder,
    check_writable,
    decode,
    is_bytecode,
    read_input,
    write_output,
)
from .guard import guarded
from .version import version_text

if TYPE_CHECKING:
    from iree.compiler.api import Invocation, Session

    from ..iree.hook import PipelineHook

USAGE = """\
usage: attn-compile FILE|- [-o FILE] [flags]

iree-compile with attnpass's passes between its phases. It takes every flag that
iree-compile takes (--help lists them), and:

  --attn-mode=cost|always|never  what the layout pass commits (default: cost)
  --attn-cache=kept|transposed   whether V caches become V^T for the caller, too
  --attn-kernels=cost|always|never
                                 where precompiled Hopper kernels are taken (default: never)
  --attn-pipeline=TEXT           passes to run instead of the default ones
  --attn-phase=PHASE             run the passes on tensors at this phase instead of their own
  --attn-configure=false         leave kernels and decode to IREE's own configurations
  --attn-table=FILE              configurations that attn-tune wrote, before the built-in ones
  --attn-hardware-exp2=false     leave CUDA kernels to IREE: no hardware exp2, no fp8 casts
  --attn-shared-memory=false     leave CUDA kernels' use of shared memory to IREE
  --attn-raise=false             leave attention that is written out as products and a softmax
  --attn-target=NAME             the target to price for, instead of the module's own
  --attn-report=FILE             write every decision as JSON (-: as --attn-summary does)
  --attn-summary                 print every decision, with its reason, to standard error
  --attn-dump-ir=DIR             write the IR before and after the passes
  --attn-fail-on=WORDS           exit with 1, by commas: refused (an operand), moved (bytes),
                                 known-wrong (numbers that nothing makes right), fallback (a
                                 step was left out because the compile failed with it),
                                 ignored (a flag without effect)
  --attn-disable                 plain iree-compile
  --attn-help                    print this

IREE's own transpose of V is off, since the passes decide, unless
--iree-global-opt-enable-attention-v-transpose is given. Where no --iree-opt-level is given, it
is O2: IREE's own default, O0, is up to 21 times as slow on CPUs.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    if arguments is None:
        return guarded("attn-compile", lambda: main(sys.argv[1:]))
    return run_tool("attn-compile", lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    if options.help:
        print(USAGE, end="")
        return 0
    if options.disable or options.handed_on:
        return _iree_compile(options)
    for path in (options.output, options.report):
        if path:
            check_writable(path)
    check_temporary_folder()
    if options.output == STANDARD and options.is_binary and sys.stdout.isatty():
        raise AttnError("the output is no text for a terminal; give a file with -o")
    if options.report not in ("", STANDARD):
        check_different(options.output, options.report)
    data = _read(options)
    search_here()
    hook = _hook(options)
    flags = [*options.compiler_flags, *options.added_flags]
    from ..iree.session import check_backends, set_global_flags

    hook.global_flags = flags
    check_backends(flags)
    set_global_flags(*flags)
    outputs = _compile_all(options, hook, data)
    if outputs is None:
        return 1
    for event in hook.report.events:
        print(warning_text(event), file=sys.stderr)
    failure = _failure(hook.report, options.fail_on)
    _write_report(options, hook.report)
    if failure:
        raise AttnError(failure[1], failure[0])
    write_output(options.output, b"".join(outputs))
    return 0


def _iree_compile(options: CompileOptions) -> int:
    """Becomes iree-compile, without our flags; help and version begin with ours."""
    asked = {word.lstrip("-") for word in options.without_ours if word.startswith("-")}
    if asked & {"h", "help", "help-hidden"}:
        print(f"{USAGE}\nAnd those of iree-compile:\n")
    if "version" in asked:
        print(version_text(), end="")
    if options.report or options.summary:
        report = Report(mode="disabled" if options.disable else options.mode)
        report.note("not run: iree-compile was called as it is, without the passes")
        _write_report(options, report)
    sys.stdout.flush()
    tool = iree_compile()
    os.execv(tool, [tool, *options.without_ours])


def _write_report(options: CompileOptions, report: Report) -> None:
    if options.report and options.report != STANDARD:
        write_output(options.report, report.to_json().encode())
    if options.summary or options.report == STANDARD:
        print(report.to_text(), end="", file=sys.stderr)


def _hook(options: CompileOptions) -> PipelineHook:
    from ..iree.hook import pipeline_hook

    return pipeline_hook(
        options.pipeline or None,
        mode=options.mode,
        cache=options.cache,
        kernels=options.kernels,
        target=options.target or None,
        phase=options.phase or None,
        dump_ir=options.dump_ir or None,
        configure=options.configure,
        hardware_exp2=options.hardware_exp2,
        shared_memory=options.shared_memory,
        raise_attention=options.raise_attention,
        table=options.table or None,
    )


def _read(options: CompileOptions) -> bytes:
    data = read_input(options.input)
    name = "<stdin>" if options.input == "-" else options.input
    if not data.strip():
        raise AttnError("the file is empty; an MLIR module is needed", f"{name}:1:1")
    if not is_bytecode(data):
        decode(data, name)
    return data


def _compile_all(options: CompileOptions, hook: PipelineHook, data: bytes) -> list[bytes] | None:
    from iree.compiler.api import Session

    chunks = [data]
    if options.split_input and not is_bytecode(data):
        chunks = [chunk.encode() for chunk in split_chunks(data.decode())]
    session = Session()
    report = Report(mode=options.mode)
    outputs: list[bytes] = []
    failed = False
    for chunk in chunks:
        try:
            outputs.append(_compile_somehow(session, options, hook, chunk))
            report.extend(hook.report)
        except CompileError:
            # IREE has printed why.
            failed = True
            if hook.has_entry is False:
                name = "<stdin>" if options.input == STANDARD else options.input
                text = "no function is public and has a body: there is nothing to compile"
                print(f"{name}: note: {text}", file=sys.stderr)
    hook.report = report
    return None if failed else outputs


def _compile_somehow(
    session: Session, options: CompileOptions, hook: PipelineHook, data: bytes
) -> bytes:
    """Compiles without configurations of ours what IREE cannot compile with them."""
    return hook.compile_somehow(
        lambda hook: _compile(session, options, hook, data),
        lambda text: print(f"attn-compile: warning: {text}", file=sys.stderr),
    )


def _compile(session: Session, options: CompileOptions, hook: PipelineHook, data: bytes) -> bytes:
    from ..iree.session import drive, open_source, output_bytes, output_vm_c

    def configure(invocation: Invocation) -> None:
        _configure(invocation, options)

    first = session.invocation()
    configure(first)
    if not first.parse_source(open_source(session, options.input, data)):
        raise CompileError("the input does not parse")
    hooks = hook.hooks(session, options.compile_from, options.compile_to, keep_v=False)
    last = drive(first, options.compile_from, options.compile_to, hooks, configure)
    if options.compile_to == "end" and options.output_format == "vm-bytecode":
        return output_bytes(last.output_vm_bytecode)
    if options.compile_to == "end" and options.output_format == "vm-c":
        return output_bytes(lambda output: output_vm_c(last, output))
    if options.emit_bytecode:
        version = int(options.bytecode_version)
        return output_bytes(lambda output: last.output_ir_bytecode(output, version))
    return output_bytes(last.output_ir)


def _configure(invocation: Invocation, options: CompileOptions) -> None:
    from ..iree.session import library

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
