"""attn-tune: searches kernel configurations for a model's attention, on its device."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..driver.files import check_all_differ, check_writable, sole_user, write_output
from ..errors import AttnError
from ..pipeline import CACHES, MODES
from .arguments import (
    DRIVERS,
    StepOptions,
    StepTool,
    check_model,
    check_steps,
    option,
    target_flags,
)

if TYPE_CHECKING:
    from ..tuning.folder import Manifest, TuneSettings

USAGE = """\
usage: attn-tune MODEL --device=cuda|llvm-cpu [-o SPEC] [--table=FILE] [flags]
       attn-tune --run=FOLDER
       attn-tune --finish=FOLDER [-o SPEC] [--table=FILE]

Finds the fastest kernel configuration of each attention in a model: compiles candidates,
compares the numbers of each with a float64 reference, times the right ones on the device.

  --device=cuda|llvm-cpu   what to tune for; with llvm-cpu and no flag for another target,
                           this machine's CPU
  -o SPEC                  write a tuning spec for plain iree-compile
                           (--iree-codegen-tuning-spec-path; on CUDA, where IREE 3.13 does
                           not read that, --iree-codegen-transform-dialect-library)
  --table=FILE             write a table for attn-compile --attn-table=FILE and
                           attn-configure{source=FILE}
  --folder=DIR             where work is kept (default: MODEL's name with .tuning, in this
                           folder); what is done there is not done again
  --compile-only           stop when the candidates are compiled
  --run=FOLDER             check and time them, on the machine with the device; there,
                           'python FOLDER/measure.py FOLDER' does the same with no more than
                           iree-base-runtime and numpy
  --finish=FOLDER          write the outputs from the results in a folder
  --jobs=N                 compile so many at a time (default: the number of CPUs)
  --compile-limit=SECONDS  time limit for a compile (default: 120)
  --run-limit=SECONDS      time limit for the check and for the times of a candidate
                           (default: 60)
  --max-candidates=N       try only the first N for each attention
  --attn-mode=, --attn-cache=
                           as given to attn-compile, for which the table is to hold
  --try=FILE               try the configurations in a table, too
  --assume=N               what a size known only at run time is taken to be (default: 512)
  --quiet                  no progress
  --version, --help        print these

All other flags are iree-compile's, for the target above all: --iree-cuda-target=sm_80.
An interrupted command, given again, goes on where it was.
"""


@dataclass
class TuneOptions(StepOptions):
    """The command line, parsed."""

    spec: str = option("", "o")
    table: str = ""
    mode: str = option("cost", "attn-mode", words=MODES)
    cache: str = option("kept", "attn-cache", words=CACHES)
    tries: str = option("", "try")
    max_candidates: int = 0
    assume: int = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return StepTool("attn-tune", USAGE, TuneOptions, _checked).main(arguments)


def _checked(options: TuneOptions) -> int:
    _check(options)
    for path in (options.spec, options.table):
        if path:
            check_writable(path)
    return _tune(options)


def _check(options: TuneOptions) -> None:
    """AttnError for options that do not go together, or that are missing."""
    check_steps(options, ("model", "folder", "device", "compile_only"))
    outputs = bool(options.spec or options.table)
    if options.run and outputs:
        raise AttnError("--run writes results into the folder; --finish writes the outputs")
    if not outputs and not (options.run or options.compile_only):
        raise AttnError("nothing to write: give -o SPEC, --table=FILE or both")
    written = {"spec": options.spec, "table": options.table}
    check_all_differ({name: path for name, path in written.items() if path}, [options.model])


def _tune(options: TuneOptions) -> int:
    from ..tuning.folder import load_manifest

    if options.run or options.finish:
        folder = Path(options.run or options.finish)
        with sole_user(folder):
            if options.finish:
                return _finish(load_manifest(folder), folder, options)
            _measure(folder, options)
            return 0
    folder = Path(options.folder or Path(options.model).name.removesuffix(".mlir") + ".tuning")
    settings = _settings(options)
    check_model(options.model)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    with sole_user(folder):
        return _tune_in(folder, settings, options)


def _tune_in(folder: Path, settings: TuneSettings, options: TuneOptions) -> int:
    from ..tuning.folder import compile_all, prepare

    manifest = prepare(options.model, folder, settings)
    if not manifest.problems:
        raise AttnError(_nothing(manifest), options.model)
    try:
        compile_all(manifest, folder, settings)
    finally:
        manifest.save(folder)
    compiled = [run for run in manifest.runs if run.status == "compiled"]
    _say(options, f"{len(compiled)} of {len(manifest.runs)} candidates compiled into {folder}")
    if options.compile_only:
        return 0
    _measure(folder, options)
    return _finish(manifest, folder, options)


def _settings(options: TuneOptions) -> TuneSettings:
    from ..machines.table import read_table
    from ..tuning.folder import SPEC, TABLE, TuneSettings

    both = not (options.spec or options.table)
    wanted = ((TABLE, options.table), (SPEC, options.spec))
    outputs = tuple(name for name, path in wanted if path or both)
    return TuneSettings(
        driver=DRIVERS[options.device],
        flags=tuple(target_flags(options.device, options.flags)),
        outputs=outputs,
        mode=options.mode,
        cache=options.cache,
        assume=options.assume,
        max_candidates=options.max_candidates,
        tries=read_table(options.tries).entries if options.tries else (),
        jobs=options.jobs,
        compile_limit=options.compile_limit,
        quiet=options.quiet,
    )


def _nothing(manifest: Manifest) -> str:
    if not manifest.passed:
        return "it has no attention to tune"
    return f"no attention can be tuned: {'; '.join(manifest.passed)}"


def _measure(folder: Path, options: TuneOptions) -> None:
    from ..tuning.compiles import as_user_errors
    from ..tuning.measure import measure_all

    with as_user_errors():
        counts = measure_all(folder, options.run_limit, options.quiet)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    _say(options, f"{words or 'nothing'} of the candidates in {folder}")


def _finish(manifest: Manifest, folder: Path, options: TuneOptions) -> int:
    from ..tuning.finish import outcomes, summary, write_spec, write_table
    from ..tuning.folder import SPEC, TABLE

    for name, path in ((TABLE, options.table), (SPEC, options.spec)):
        if path and name not in manifest.groups:
            flag = "--table" if name == TABLE else "-o"
            raise AttnError(
                f"it was prepared without {flag}: give that when compiling", str(folder)
            )
    found = outcomes(manifest, folder)
    made: list[tuple[str, bytes]] = []
    if options.table:
        made.append((options.table, write_table(manifest, found)))
    if options.spec:
        made.append((options.spec, write_spec(manifest, found, folder)))
    for path, data in made:
        write_output(path, data)
    print(summary(manifest, found), end="", file=sys.stderr)
    return 0 if any(outcome.best for outcome in found.values()) else 1


def _say(options: TuneOptions, text: str) -> None:
    if not options.quiet:
        print(f"attn-tune: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
