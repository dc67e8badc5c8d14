"""`compile_file` and `compile_str`, in place of those of `iree.compiler.tools`.

Like the originals they run the compiler as a command of its own, attn-compile instead of
iree-compile: flags that are global to a compiler process work, a compiler that crashes does
not take the caller along, and the result is that of the command by construction.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..pipeline import PipelineOptions, choices, flag_of
from ..report.records import Report, report_from_dict
from .files import check_writable, write_output

# attn-compile of this very package, whatever the folder or the installation of the child.
_ROOT = str(Path(__file__).parents[2])
_COMMAND = """\
import sys
root = sys.argv.pop(1)
if root not in sys.path:
    sys.path.insert(0, root)
from attnpass.cli.attn_compile import main
sys.exit(main())
"""


@dataclass
class PassOptions(PipelineOptions):
    """What `compile_file` and `compile_str` take beside the arguments of IREE's functions: the
    options of `PipelineOptions`, and

    pipeline         passes to run in place of the default ones
    target           the target to price for, instead of the module's own
    phase            where the passes on tensors run, instead of at their own phases
    dump_ir          a folder for the IR before and after the passes
    explain          a file for the report as a page for a browser
    fail_on          events and decisions that end the compile, as `--attn-fail-on` takes them
    """

    pipeline: str | None = None
    target: str | None = None
    phase: str | None = None
    dump_ir: str | os.PathLike[str] | None = None
    explain: str | os.PathLike[str] | None = None
    fail_on: Sequence[str] = ()

    def flags(self) -> list[str]:
        """The same as flags of attn-compile."""
        given = {flag_of(field): getattr(self, field.name) for field in choices()}
        given |= {
            "attn-target": self.target,
            "attn-phase": self.phase,
            "attn-dump-ir": self.dump_ir,
            "attn-explain": self.explain,
            "attn-fail-on": ",".join(self.fail_on),
            "attn-pipeline": self.pipeline,
        }
        return [
            f"--{name}={_word(value)}" for name, value in given.items() if value not in ("", None)
        ]


def _word(value: bool | str | os.PathLike[str]) -> str:
    return str(value).lower() if isinstance(value, bool) else os.fspath(value)


def compile_file(
    input_file: str | os.PathLike[str],
    *,
    report: Report | str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes | None:
    """Compiles a file as `iree.compiler.tools.compile_file` does, with our passes.

    `options` are those of `PassOptions` (mode, cache, kernels, ...) and IREE's (target_backends,
    input_type, extra_args, output_file, ...); `report` is a path for the JSON report, or a Report
    that is filled in. The return value (bytes, or None with `output_file`) is that of IREE's
    function, as is CompilerToolError; AttnError where the report cannot be written.
    """
    path = os.fspath(input_file)
    # A file, whatever it is called.
    path = os.path.join(os.curdir, path) if path.startswith("-") else path
    return _compile(path, None, report, options)


def compile_str(
    input_str: str | bytes,
    *,
    report: Report | str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes | None:
    """`compile_file` for MLIR text or bytecode in memory."""
    data = input_str.encode() if isinstance(input_str, str) else input_str
    return _compile("-", data, report, options)


def attn_compile_command(*arguments: str) -> list[str]:
    """The command line that runs attn-compile of this very package."""
    return [sys.executable, "-P", "-c", _COMMAND, _ROOT, *arguments]


def _compile(
    path: str,
    data: bytes | None,
    report: Report | str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> bytes | None:
    from iree.compiler.tools.binaries import invoke_immediate
    from iree.compiler.tools.core import CompilerOptions, build_compile_command_line
    from iree.compiler.tools.debugging import TempFileSaver

    known = {field.name for field in fields(PassOptions)}
    ours = PassOptions(**{name: options[name] for name in options if name in known}).flags()
    theirs = {name: options[name] for name in options if name not in known}
    if report is not None and not isinstance(report, Report):
        check_writable(os.fspath(report))
    with TempFileSaver.implicit() as saver, tempfile.TemporaryDirectory() as scratch:
        compiler_options = CompilerOptions(**theirs)
        retained = saver.alloc_optional("core-output.bin", export_as=compiler_options.output_file)
        if compiler_options.output_file:
            compiler_options.output_file = retained
        command = build_compile_command_line(path, saver, compiler_options)
        report_path = os.path.join(scratch, "report.json") if report is not None else ""
        if report_path:
            ours = [*ours, f"--attn-report={report_path}"]
        command[:1] = attn_compile_command(*ours)
        result = invoke_immediate(command, immediate_input=data)
        if report_path:
            _deliver(Path(report_path).read_text(), report)
        if compiler_options.output_file:
            return None
        if retained:
            Path(retained).write_bytes(result)
        return result


def _deliver(text: str, report: Report | str | os.PathLike[str] | None) -> None:
    if isinstance(report, Report):
        report.__dict__.update(report_from_dict(json.loads(text)).__dict__)
    elif report is not None:
        write_output(os.fspath(report), text.encode())
