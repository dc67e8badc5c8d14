"""attn-verify: holds what a compiled model computes against a reference, and finds the fault."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..driver.files import (
    STANDARD,
    check_temporary_folder,
    check_writable,
    sole_user,
    write_output,
)
from ..errors import AttnError
from .arguments import (
    DRIVERS,
    StepOptions,
    StepTool,
    check_model,
    check_steps,
    target_flags,
)

if TYPE_CHECKING:
    from ..verify.folder import Folder, VerifySettings

USAGE = """\
usage: attn-verify MODEL --device=cuda|llvm-cpu [--inputs=FILE | --random=N] [--plain] [flags]
       attn-verify --run=FOLDER
       attn-verify --finish=FOLDER [--json=FILE]

Compiles a model as attn-compile does, and once more for a reference that shares little with
that: llvm-cpu, attention written out in f32, mutable globals handed in and out. Runs both and
compares their results. Where they differ it looks for the least part of the model that is wrong
on the reference's own values, says which ops that are, and writes it as a module with its inputs.

  --device=cuda|llvm-cpu   what to verify; with llvm-cpu and no flag for another target,
                           this machine's CPU
  --plain                  verify iree-compile, without the passes of attnpass
  --inputs=FILE            a .npz with the inputs: in0, in1, ...
  --random=N               N sets of random inputs (default: 2); masks hide some keys, and
                           integers that index a dim stay within it
  --length=[ARGUMENT.DIM=]N
                           the length of dims that are known only at run time: of one, or of
                           all; may be given several times
  --range=[ARGUMENT=]LOW:HIGH
                           random integers of an argument, or of all, are from LOW to HIGH
  --function=NAME          only this function (default: all that are public)
  --folder=DIR             where work is kept (default: MODEL's name with .verify, in this
                           folder); what is done there is not done again
  --json=FILE              write what was found as JSON (-: to standard output, no table)
  --compile-only           stop when all is compiled that can be before a run
  --run=FOLDER             run it, on the machine with the device; there,
                           'python FOLDER/run.py FOLDER' does the same with no more than
                           iree-base-runtime and numpy
  --finish=FOLDER          say what the results in a folder show; if that takes more runs,
                           compile for these
  --jobs=N                 compile so many at a time (default: the number of CPUs)
  --compile-limit=SECONDS  time limit for a compile (default: 300)
  --run-limit=SECONDS      time limit for a run (default: 120)
  --quiet                  no progress
  --version, --help        print these

All other flags are those of attn-compile or, with --plain, of iree-compile: --iree-..., --attn-...
Exit code: 0 right, 1 wrong (or a mistake in the command line or the model), 2 could not tell.
"""

_EXIT = {"right": 0, "wrong": 1, "could not tell": 2}


@dataclass
class VerifyOptions(StepOptions):
    """The command line, parsed."""

    inputs: str = ""
    random: int = 2
    lengths: list[str] = field(default_factory=list, metadata={"names": ("length",)})
    ranges: list[str] = field(default_factory=list, metadata={"names": ("range",)})
    function: str = ""
    json: str = ""
    compile_limit: int = 300
    run_limit: int = 120
    plain: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    handed_on = ("--iree-", "-iree-", "--attn-", "-attn-")
    return StepTool("attn-verify", USAGE, VerifyOptions, _checked, handed_on).main(arguments)


def _checked(options: VerifyOptions) -> int:
    _check(options)
    if options.json:
        check_writable(options.json)
    check_temporary_folder()
    return _verify(options)


def _check(options: VerifyOptions) -> None:
    """AttnError for options that do not go together, or that are missing."""
    later = check_steps(options, ("model", "folder", "device", "inputs", "compile_only", "plain"))
    if later and options.flags:
        raise AttnError(f"--{later} takes no {options.flags[0]}: the folder has it")
    if options.json and (options.run or options.compile_only):
        raise AttnError("--json is for what was found: give it with --finish")
    ours = [flag for flag in options.flags if flag.lstrip("-").startswith("attn-")]
    if options.plain and ours:
        raise AttnError(f"--plain verifies iree-compile, which takes no '{ours[0]}'")


def _verify(options: VerifyOptions) -> int:
    from ..verify.folder import Folder, load_folder

    if options.run or options.finish:
        with sole_user(Path(options.run or options.finish)):
            if options.run:
                return _run(Path(options.run), options)
            folder = load_folder(options.finish)
            changed = {"jobs": options.jobs, "quiet": options.quiet}
            folder.settings = replace(folder.settings, **changed)
            return _report(folder, options)
    check_model(options.model)
    path = Path(options.folder or f"{Path(options.model).name.removesuffix('.mlir')}.verify")
    folder = Folder(path, _settings(options))
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
    with sole_user(path):
        folder.make()
        return _report(folder, options)


def _settings(options: VerifyOptions) -> VerifySettings:
    from ..verify.folder import VerifySettings
    from ..verify.inputs import wishes_from

    wishes_from(options.lengths, options.ranges)
    return VerifySettings(
        model=options.model,
        driver=DRIVERS[options.device],
        flags=tuple(target_flags(options.device, options.flags)),
        plain=options.plain,
        function=options.function,
        inputs=options.inputs,
        seeds=1 if options.inputs else options.random,
        lengths=tuple(options.lengths),
        ranges=tuple(options.ranges),
        offline=options.compile_only,
        jobs=options.jobs,
        compile_limit=options.compile_limit,
        run_limit=options.run_limit,
        quiet=options.quiet,
    )


def _run(folder: Path, options: VerifyOptions) -> int:
    from ..tuning.compiles import as_user_errors
    from ..verify.run import run_all

    with as_user_errors():
        counts = run_all(folder, options.run_limit, options.quiet)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"attn-verify: {words or 'nothing'} of the modules in {folder}", file=sys.stderr)
    return 0


def _report(folder: Folder, options: VerifyOptions) -> int:
    """Verifies as far as that can be done here, and says what was found."""
    from ..verify.folder import Pending
    from ..verify.report import as_json, table, write_reproduction
    from ..verify.search import verify

    try:
        outcome = verify(folder)
    except Pending:
        return _pending(folder, options)
    finally:
        folder.save()
    if outcome.fault and outcome.fault.text:
        write_reproduction(outcome.fault, folder.settings, folder.path)
    if options.json:
        write_output(options.json, as_json(outcome, folder.settings, folder.path).encode())
    if options.json != STANDARD:
        print(table(outcome, folder.path), end="")
    return _EXIT[outcome.verdict]


def _pending(folder: Folder, options: VerifyOptions) -> int:
    """Says what to run where the device is; before any run that is all that was asked for."""
    print(
        f"attn-verify: compiled; now run 'attn-verify --run={folder.path}' (or 'python run.py .' "
        f"in a copy of it) where the device is, then 'attn-verify --finish={folder.path}'",
        file=sys.stderr,
    )
    return 0 if options.compile_only else 2


if __name__ == "__main__":
    sys.exit(main())
