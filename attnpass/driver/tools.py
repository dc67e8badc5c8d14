"""`compile_file` and `compile_str`, in place of those of `iree.compiler.tools`.

Like the originals they run the compiler as a command of its own, attn-compile instead of
iree-compile: flags that are global to a compiler process work, a compiler that crashes does
not take the caller along, and the result is that of the command by construction.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report.records import Report, report_from_dict
from .files import check_writable, write_output
from .flags import PassOptions, parse_arguments
from .modules import holds_module, module_bytes

if TYPE_CHECKING:
    from .modules import Handle

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


def compile_file(
    input_file: str | os.PathLike[str] | Handle,
    *,
    report: Report | str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes | None:
    """Compiles a file as `iree.compiler.tools.compile_file` does, with our passes.

    `options` are those of `PassOptions` (mode, cache, kernels, ...) and IREE's (target_backends,
    input_type, extra_args, output_file, ...), TypeError for another; `report` is a path for the
    JSON report, or a Report that is filled in. The return value (bytes, or None with
    `output_file`) is that of IREE's function, as is CompilerToolError; AttnError where the report
    cannot be written. A module in memory is compiled as `compile_str` does.
    """
    if holds_module(input_file):
        return _compile("-", module_bytes(input_file), report, options)
    path = os.fspath(input_file)  # pyright: ignore[reportArgumentType]
    # A file, whatever it is called.
    path = os.path.join(os.curdir, path) if path.startswith("-") else path
    return _compile(path, None, report, options)


def compile_str(
    input_str: str | bytes | Handle,
    *,
    report: Report | str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes | None:
    """`compile_file` for a module in memory: MLIR text, bytecode, a module of IREE's bindings, or
    what iree-turbine's `aot.export` returns."""
    return _compile("-", module_bytes(input_str), report, options)


def check_options(options: Mapping[str, Any]) -> None:
    """Raises what `compile_str` would for options of ours: TypeError for one that there is not,
    AttnError for a wrong value."""
    from iree.compiler.tools.core import CompilerOptions

    ours, _ = _divided(dict(options), {field.name for field in fields(CompilerOptions)})
    parse_arguments([*PassOptions(**ours).flags(), "-"])


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

    ours, theirs = _divided(options, {field.name for field in fields(CompilerOptions)})
    flags = PassOptions(**ours).flags()
    if report is not None and not isinstance(report, Report):
        check_writable(os.fspath(report))
    with TempFileSaver.implicit() as saver, tempfile.TemporaryDirectory() as scratch:
        compiler_options = CompilerOptions(**theirs)
        saved = saver.alloc_optional("core-input.mlir") if data is not None else None
        if saved:
            Path(saved).write_bytes(data or b"")
        retained = saver.alloc_optional("core-output.bin", export_as=compiler_options.output_file)
        if compiler_options.output_file:
            compiler_options.output_file = retained
        command = build_compile_command_line(path, saver, compiler_options)
        again = _pasted([*flags, *command[1:]], saved)
        if retained_command := saver.alloc_optional("core-command-line.txt"):
            Path(retained_command).write_text(again)
        report_path = os.path.join(scratch, "report.json") if report is not None else ""
        if report_path:
            flags = [*flags, f"--attn-report={report_path}"]
        command[:1] = attn_compile_command(*flags)
        with _errors_that_can_be_pasted(again):
            result = invoke_immediate(command, immediate_input=data)
        if report_path:
            _deliver(Path(report_path).read_text(), report)
        if compiler_options.output_file:
            return None
        if retained:
            Path(retained).write_bytes(result)
        return result


def _divided(options: dict[str, Any], of_iree: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that are ours and those that are IREE's; TypeError for one of nobody."""
    own = {field.name for field in fields(PassOptions)}
    for name in options.keys() - own - of_iree:
        close = difflib.get_close_matches(name, [*own, *of_iree, "report"], 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        flag = "flags of iree-compile go to extra_args"
        raise TypeError(f"unknown option '{name}'{hint or '; ' + flag}")
    ours = {name: options[name] for name in options if name in own}
    return ours, {name: options[name] for name in options if name not in own}


def _pasted(arguments: Sequence[str], saved: str | None) -> str:
    """A line for a shell that compiles the same again."""
    command = [sys.executable, "-m", "attnpass.cli.attn_compile", *arguments]
    line = f"PYTHONPATH={shlex.quote(_ROOT)} {shlex.join(command)}"
    return f"{line} < {shlex.quote(saved)}" if saved else line


@contextlib.contextmanager
def _errors_that_can_be_pasted(line: str) -> Iterator[None]:
    """Puts `line` in the place of IREE's own words for a command, which it does not quote."""
    from iree.compiler.tools.binaries import CompilerToolError

    try:
        yield
    except CompilerToolError as error:
        said = str(error).partition("Invoked with:\n")[0].partition("\n")[2]
        hint = (
            ""
            if " - " not in line or " < " in line
            else "It reads the module from standard input; IREE_SAVE_TEMPS=/some/dir in the "
            "environment keeps it.\n"
        )
        error.args = (f"attn-compile failed\n{said}Invoked with:\n  {line}\n\n{hint}",)
        raise


def _deliver(text: str, report: Report | str | os.PathLike[str] | None) -> None:
    if isinstance(report, Report):
        report.__dict__.update(report_from_dict(json.loads(text)).__dict__)
    elif report is not None:
        write_output(os.fspath(report), text.encode())
