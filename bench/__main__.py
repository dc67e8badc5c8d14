"""Measures, beside IREE and PyTorch, and writes what was measured into the docs.

    python -m bench compile NAME [FOLDER]    (needs attnpass; no GPU)
    python -m bench run NAME [FOLDER]        (needs iree-base-runtime, and torch for its columns;
                                              most benches need a GPU)
    python -m bench pages                    (rewrites the tables and plots of README.md and docs/)

To measure on another machine carry `bench` and FOLDER there. What stands in bench/results is what
the pages are made of.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import harness


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pages", help="write the measured tables of README.md and docs/")
    compiling = commands.add_parser("compile", help="write the modules of a bench")
    compiling.add_argument("--cpu", default="host", help="LLVM's name of the CPU")
    running = commands.add_parser("run", help="check and time them")
    running.add_argument("--json", type=Path, help="default: FOLDER/results.json")
    some = commands.add_parser("some", help="print rows: what `run` starts")
    for command in (compiling, running, some):
        command.add_argument("name", choices=harness.BENCHES)
        command.add_argument("folder", type=Path, nargs="?", help="default: build/NAME")
        command.add_argument("--only", default="", help="cases whose name has a word; a;b;c")
        command.add_argument("--exact", action="store_true", help="cases with these names")
    for command in (running, some):
        command.add_argument("--numbers", action="store_true", help="do not time")
        command.add_argument("--threads", type=int, nargs="+", default=[1], help="on CPUs")
        command.add_argument("--processes", type=int, default=1, help="on CPUs, of each part")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.command == "pages":
        from bench import pages

        pages.write()
        return
    name = options.name
    folder = (options.folder or Path("build") / name).resolve()
    bench = harness.bench_of(name)
    if options.command == "some":
        harness.run_some(name, folder, options)
    elif options.command == "run":
        harness.run(name, folder, options.json or folder / "results.json", options)
    elif hasattr(bench, "compile"):
        folder.mkdir(parents=True, exist_ok=True)
        bench.compile(folder, harness.chosen(bench, options), options)
    else:
        raise SystemExit(f"{name} compiles nothing: run it")


if __name__ == "__main__":
    main()
