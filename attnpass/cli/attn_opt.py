"""attn-opt: passes on .mlir files, like mlir-opt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..driver.files import (
    STANDARD,
    check_all_differ,
    check_writable,
    decode,
    is_bytecode,
    printable,
    read_input,
    write_output,
)
from ..driver.modules import unconverted_for
from ..errors import AttnError, PipelineError
from ..report.text import sentences
from .arguments import ToolOptions, named, option, parse_options
from .diagnostics import Collector, Message, message_at, run_tool, split_chunks, verify_expected
from .dialects import search_here
from .guard import guarded

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..report.records import Report
    from ..runner import Stage

USAGE = """\
usage: attn-opt [FILE|-] [-o FILE] [--PASS[=OPTIONS] ... | -p PIPELINE] [options]

Runs passes on an MLIR file: attnpass's own (--attn-...) and IREE's and MLIR's by name.

  FILE, -                        the input, text or bytecode (default: standard input)
  -o FILE                        the output (default: standard output)
  --PASS[=OPTIONS]               run a pass; several run in the order given
  -p, --pass-pipeline=TEXT       run 'builtin.module(pass{key=value},pass,...)'
  --target=NAME                  the target to price for (sm_80, gfx942, llvm-cpu, ...)
  --split-input-file             handle the parts between // ----- lines one by one
  --verify-diagnostics           compare diagnostics with the file's expected-... comments
  --remarks                      print each decision, with its reason, at its location, and
                                 what passes note of the module
  --report=FILE                  write the decisions as JSON
  --mlir-print-ir-before-all     print the IR before each pass to standard error
  --mlir-print-ir-after-all      print the IR after each pass to standard error
  --mlir-timing                  print the time of each pass to standard error
  --mlir-print-op-generic        print ops in their generic form
  --mlir-print-debuginfo         print locations
  --no-verify                    do not verify the IR between passes
  --show-passes                  list the passes, their options and defaults
  --version, --help              print these
"""


@dataclass
class OptOptions(ToolOptions):
    """The command line, parsed; `flags` are the passes, as they were given."""

    noun = "input file"

    output: str = option(STANDARD, "o")
    pipeline: str | None = option(None, "p", "pass-pipeline")
    target: str | None = None
    report: str = ""
    split_input_file: bool = False
    verify_diagnostics: bool = False
    remarks: bool = False
    mlir_print_ir_before_all: bool = False
    mlir_print_ir_after_all: bool = False
    mlir_timing: bool = False
    mlir_print_op_generic: bool = False
    mlir_print_debuginfo: bool = False
    no_verify: bool = False
    show_passes: bool = False

    @property
    def input(self) -> str:
        return self.model or STANDARD

    @property
    def passes(self) -> list[str]:
        """The passes as pipeline text."""
        return [_pass_text(word.lstrip("-")) for word in self.flags]


def _pass_text(word: str) -> str:
    """`PASS{a=1}` for that, `PASS=a=1` and `PASS={a=1}`."""
    name, separator, value = word.partition("=")
    if not separator or "{" in name:
        return word
    return name + (value if value.startswith("{") else f"{{{value}}}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    if arguments is None:
        return guarded("attn-opt", lambda: main(sys.argv[1:]))
    return run_tool("attn-opt", lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    if options.is_answered(USAGE):
        return 0
    if options.show_passes:
        write_output(STANDARD, passes_text().encode())
        return 0
    stages = _stages(options)
    if options.target:
        from ..machines import named_target

        named_target(options.target)
    check_writable(options.output)
    written = {"output": options.output}
    if options.report:
        check_writable(options.report)
        written["report"] = options.report
    check_all_differ(written, [options.input])
    data = read_input(options.input)
    search_here()
    return _FileRun(options, stages).run(data)


def parse_arguments(arguments: Sequence[str]) -> OptOptions:
    """Options from the command line; AttnError for one that is not known."""
    options = parse_options(arguments, OptOptions(), ("--",))
    if options.target == "":
        raise AttnError("option '--target=' needs a value")
    if options.flags and options.pipeline is not None:
        raise AttnError("passes are given both one by one and by --pass-pipeline; use one way")
    return options


def _stages(options: OptOptions) -> list[Stage]:
    from ..runner import check_foreign, parse_pipeline

    text = options.pipeline if options.pipeline is not None else ",".join(options.passes)
    if not text.strip():
        return []
    stages = parse_pipeline(text)
    try:
        check_foreign(stages)
    except PipelineError as error:
        raise PipelineError(f"{error.message}{_option_hint(options.passes)}") from None
    return stages


def _option_hint(passes: list[str]) -> str:
    """The option that was meant, where one of the passes is written like one."""
    import difflib

    for name in passes:
        close = difflib.get_close_matches(name.split("{")[0], named(OptOptions), 1, 0.8)
        if close:
            return f"; did you mean '--{close[0]}'?"
    return ""


class _FileRun:
    """One run over one input."""

    def __init__(self, options: OptOptions, stages: list[Stage]):
        from ..report.records import Report

        self.options = options
        self.stages = stages
        self.report = Report()
        self.problems: list[Message] = []
        self.times: list[tuple[str, float]] = []

    def run(self, data: bytes) -> int:
        options = self.options
        name = "<stdin>" if options.input == STANDARD else printable(options.input)
        chunks: list[str | bytes] = [data]
        if not is_bytecode(data):
            text = decode(data, name)
            chunks = list(split_chunks(text)) if options.split_input_file else [text]
        printed, failed = [], False
        for chunk in chunks:
            result = self._chunk(chunk, name)
            if result is None:
                failed = True
            else:
                printed.append(result)
        if options.mlir_timing:
            print(_timing_text(self.times), file=sys.stderr)
        if options.verify_diagnostics:
            for problem in self.problems:
                print(problem, file=sys.stderr)
            failed = bool(self.problems)
        if failed:
            return 1
        if options.report:
            write_output(options.report, self.report.to_json().encode())
        write_output(options.output, "\n// -----\n\n".join(printed).encode())
        return 0

    def _chunk(self, chunk: str | bytes, name: str) -> str | None:
        """The text of one part after the passes; None if something failed."""
        from iree.compiler import ir

        collector = Collector()
        printed: str | None = None
        first_record, told = len(self.report.attentions), len(sentences(self.report))
        with ir.Context() as context:
            context.load_all_available_dialects()
            detach = collector.attach(context)
            try:
                printed = self._process(chunk, name, context, collector)
            except AttnError as error:
                collector.add_error(error)
            finally:
                detach()
        messages = list(collector.messages)
        for record in self.report.attentions[first_record:]:
            if record.location.startswith("-:"):
                record.location = name + record.location[1:]
        if self.options.remarks:
            messages += _remarks(self.report, first_record)
            notes = sentences(self.report)[told:]
            messages += [Message("note", name, 0, 0, note) for note in notes]
        messages = [_in_file(message, name) for message in messages]
        if self.options.verify_diagnostics:
            text = chunk if isinstance(chunk, str) else ""
            self.problems += verify_expected(text, messages, name)
        else:
            for message in messages:
                bare = message.severity == "error" and not message.file
                print(f"attn-opt: {message}" if bare else message, file=sys.stderr)
        return None if collector.has_errors else printed

    def _process(
        self, chunk: str | bytes, name: str, context: ir.Context, collector: Collector
    ) -> str:
        from ..passes import PassContext
        from ..runner import Instrumentation, run_pipeline

        module = parse_module(chunk, name, context, collector)
        if found := unconverted_for(self.stages, module):
            place, words = found
            collector.messages.append(message_at(place, "warning", words))
        options = self.options
        watch = Instrumentation()
        if options.mlir_print_ir_before_all:
            watch.before = lambda text, op: _dump("Before", text, op)
        if options.mlir_print_ir_after_all:
            watch.after = lambda text, op: _dump("After", text, op)
        target = None
        if options.target:
            from ..machines import named_target

            target = named_target(options.target)
        run_pipeline(
            module,
            self.stages,
            PassContext(self.report, target),
            verify=not options.no_verify,
            instrumentation=watch,
        )
        self.times += watch.seconds
        text = module.get_asm(
            print_generic_op_form=options.mlir_print_op_generic,
            enable_debug_info=options.mlir_print_debuginfo,
            assume_verified=options.no_verify,
        )
        return text if text.endswith("\n") else text + "\n"


def parse_module(
    source: str | bytes, name: str, context: ir.Context, collector: Collector
) -> ir.Operation:
    """The module in `source`, with locations in file `name`; AttnError if there is none."""
    from iree.compiler import ir

    if not source.strip():
        raise AttnError("the file is empty; an MLIR module is needed", f"{name}:1:1")
    try:
        if isinstance(source, bytes):
            return ir.Module.parse(source, context).operation
        op = ir.Operation.parse(source, source_name=name, context=context)
    except ir.MLIRError:
        if not (collector.messages and "single top-level" in collector.messages[-1].text):
            # The collector has what is wrong and where.
            raise AttnError("cannot parse it", "" if collector.has_errors else name) from None
        # Several ops at top level: only Module.parse makes a module around them. It names
        # the file '-', which the messages put right.
        collector.messages.clear()
        return ir.Module.parse(source, context).operation
    if op.operation.name == "builtin.module":
        return op.operation
    module = ir.Module.create(op.operation.location)
    module.body.append(op)
    return module.operation


def _in_file(message: Message, name: str) -> Message:
    """The message with its file, and those its text names, called `name` where they are '-'."""
    file = name if message.file == "-" else message.file
    return replace(message, file=file, text=message.text.replace(" -:", f" {name}:"))


def _dump(when: str, name: str, op: ir.Operation) -> None:
    print(f"// -----// IR Dump {when} {name} //----- //\n{op}\n", file=sys.stderr)


def _remarks(report: Report, first: int):
    for record in report.attentions[first:]:
        for operand in record.operands:
            text = f"{operand.operand} {operand.decision}: {operand.reason}"
            yield message_at(record.location, "remark", text)


def _timing_text(times: list[tuple[str, float]]) -> str:
    total = sum(seconds for _, seconds in times) or 1.0
    lines = ["===- attn-opt pass timing (seconds, share) -==="]
    lines += [f"  {s:9.4f}  {100 * s / total:5.1f}%  {name}" for name, s in times]
    lines.append(f"  {sum(s for _, s in times):9.4f}  100.0%  total")
    return "\n".join(lines)


def passes_text() -> str:
    """One line a pass (name, options with defaults, summary): those of the default pipeline first,
    in the order in which they run, by phase, parts of a family with their reasons below it."""
    from ..families import FAMILIES
    from ..passes import load_pass, pass_names
    from ..phases import PHASES
    from ..pipeline import PipelineOptions, reason_of, steps

    chosen = PipelineOptions(kernels="cost", cache="transposed")
    ours = dict.fromkeys(step.name for step in steps(chosen))
    lines: list[str] = []
    listed: set[str] = set()
    for phase in PHASES:
        here = [name for name in ours if load_pass(name).phase == phase]
        lines += [f"At the end of IREE's phase '{phase}':"] if here else []
        for name in here:
            parts = FAMILIES[name].parts if name in FAMILIES else ()
            reasons = [f"  {_pass_line(part)}; {reason_of(load_pass(part))}" for part in parts]
            lines += [_pass_line(name), *reasons]
            listed |= {name, *parts}
    lines.append("Not in the default pipeline:")
    lines += [_pass_line(name) for name in pass_names() if name not in listed]
    return "\n".join(lines) + "\n"


def _pass_line(name: str) -> str:
    from ..passes import load_pass, options_of

    cls, options = load_pass(name), []
    for spec in options_of(cls):
        default = ",".join(spec.default) if isinstance(spec.default, tuple) else spec.default
        shown = str(default).lower() if isinstance(default, bool) else default
        options.append(f"{spec.name.replace('_', '-')}={shown}")
    inner = f"{{{' '.join(options)}}}" if options else ""
    return f"  {name}{inner}  {cls.summary}"


if __name__ == "__main__":
    sys.exit(main())
