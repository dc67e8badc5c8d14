"""Random graphs around attention, compiled by attn-compile at every level, against float64.

    python3 tools/fuzz.py --target=llvm-cpu-generic,llvm-cpu-host --shard=0/2 --jobs=16 \\
        --seconds=400 --out=fuzz.json

A run is one graph at one optimisation level, in one mode of attnpass, on one target. Several
graphs are compiled as one module; one that does not compile, or that gives wrong numbers, is
compiled alone. What is not right then is held against iree-compile. The file `--out` holds
counts and failures, each with the command that shows it again; a file that is there already is
gone on with. Exit code 1 where a run was wrong without a word, or where IREE compiles and
attnpass does not.

    python3 tools/fuzz.py --seeds=17 --target=llvm-cpu-host --level=O2 --keep=folder

With `--forms` a graph is one attention, and there is one for each order of dims, mask, type, size
and family of configurations (test/e2e/forms.py); its seed is its number.

    python3 tools/fuzz.py --forms --target=cuda-sm_90 --level=O2 --variant=cost --out=forms.json

With `--products` a graph is a program of products with weights, and what models do behind them
(test/e2e/random_products.py).

    python3 tools/fuzz.py --products --target=cuda-sm_90 --level=O2 --out=products.json

Files of results become one that is short enough to keep:

    python3 tools/fuzz.py --keep-results=all.json fuzz.json@COMMIT forms.json@COMMIT
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import math
import os
import pickle
import pkgutil
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# One thread a process: there are as many processes as cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "e2e")]

import numpy as np  # noqa: E402
from fuzz_graphs import (  # noqa: E402
    Graph,
    forms_for,
    graph_of,
    graph_of_form,
    graph_of_products,
)

from bench.device import load, several, to_iree  # noqa: E402

LOCAL = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
CUDA = ("--iree-hal-target-device=cuda",)
TARGETS: dict[str, tuple[str, ...]] = {
    "llvm-cpu-generic": (*LOCAL, "--iree-llvmcpu-target-cpu=generic"),
    "llvm-cpu-host": (*LOCAL, "--iree-llvmcpu-target-cpu=host"),
    "cuda-sm_90": (*CUDA, "--iree-cuda-target=sm_90"),
}
# IREE 3.13 alone compiles no attention for sm_90.
PEERS = {**TARGETS, "cuda-sm_90": (*CUDA, "--iree-cuda-target=sm_80")}
DRIVERS = {"llvm-cpu": "local-sync", "cuda": "cuda"}
LEVELS = ("O0", "O1", "O2", "O3")
MODES = ("cost", "always", "never")
# Without a word, kernels are taken where they win.
KERNELS = ("", "+kernels=never", "+kernels=always")
PRODUCTS = ("", "+products=never", "+products=always")
VARIANTS = tuple("".join(words) for words in itertools.product(MODES, KERNELS, PRODUCTS))
# LLVM spends half of its time there on unrolled loops, and numbers do not depend on it.
CHEAP = ("--disable-vector-combine",)
# glibc gives back to the system, and takes again, what the compiler frees between passes.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_TOP_PAD_": "67108864"}

# What a run can be, best first; those from the first of BAD on are mistakes of ours.
KINDS = (
    "right",
    "right after a fallback",
    "right, warned of",
    "wrong, warned of",
    "no program, IREE neither",
    "wrong, IREE too, no word",
    "no program, IREE compiles",
    "wrong, IREE right",
)
BAD = KINDS.index("wrong, IREE too, no word")


@dataclass(frozen=True)
class Setting:
    """How a graph is compiled: for what, at which level, in which mode."""

    target: str
    level: str
    variant: str

    def flags(self, plain: bool = False) -> list[str]:
        """Of attn-compile, or of iree-compile where that is `plain`."""
        flags = list((PEERS if plain else TARGETS)[self.target])
        flags.append(f"--iree-opt-level={self.level}")
        if self.target.startswith("llvm-cpu"):
            flags += CHEAP
        if self.level != LEVELS[0]:
            # A fifth of the time, for IR that is valid at every level or at none.
            flags.append("--verify=false")
        if plain:
            return flags
        mode, *taken = self.variant.split("+")
        return [*flags, f"--attn-mode={mode}", *(f"--attn-{one}" for one in taken)]

    @property
    def driver(self) -> str:
        return next(name for word, name in DRIVERS.items() if self.target.startswith(word))


@dataclass
class Outcome:
    """What became of one run."""

    seed: int
    family: str
    setting: Setting
    kind: str
    error: float = 0.0
    tolerance: float = 0.0
    detail: str = ""

    def record(self, kept_with: str) -> dict[str, Any]:
        """For the file of results; `kept_with` are the flags that show it again."""
        flat = {**asdict(self), **asdict(self.setting)}
        del flat["setting"]
        return {**flat, "command": f"python3 tools/fuzz.py {kept_with}"}


def settings_of(batch: int, targets: Sequence[str], options: argparse.Namespace) -> list[Setting]:
    """The settings of a batch: every target and level, in modes that take turns."""
    found = []
    for target in targets:
        for place, level in enumerate(options.levels):
            turn = batch + place
            mode = ("cost", "cost", "always", "never")[turn % 4]
            variants = [mode]
            if target.startswith("cuda") and options.products:
                variants = [f"{mode}{KERNELS[turn % 3]}{taken}" for taken in PRODUCTS[::2]]
            elif target.startswith("cuda"):
                variants.append(f"{mode}{KERNELS[1 + (batch // 4 + place) % 2]}")
            found += [Setting(target, level, v) for v in options.variants or variants]
    return found


# processes


def forked(body: Callable[[], int], seconds: float, log: Path | None = None) -> int:
    """The exit status of `body` in a child of its own, as os.wait gives it; SIGALRM's after
    `seconds`. What it prints goes to `log`."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(max(1, math.ceil(seconds)))
        out = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = body()
    except SystemExit as end:
        # The command compiles in children of its own, which end so.
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def how_it_ended(status: int) -> str:
    """A status in words: '' for success."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "hangs" if number == signal.SIGALRM else f"crash ({signal.Signals(number).name})"
    return "" if os.WEXITSTATUS(status) == 0 else "failed"


def load_all() -> None:
    """Imports what a compile and a run need, so that children find it there."""
    import attnpass
    from attnpass.program.front_ends import TESTED

    others = ("attnpass.kernels.hopper.", *(f"attnpass.{door}." for door in TESTED))

    for name in ("iree.compiler.api", "iree.runtime"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(attnpass.__path__, "attnpass."):
        if not module.name.startswith(others):
            importlib.import_module(module.name)


# one batch


@dataclass
class Compiled:
    """A module compiled, or why it was not; `events` are (kind, function or '', reason)."""

    path: Path | None
    why: str = ""
    blamed: str = ""
    events: list[tuple[str, str, str]] = field(default_factory=list)


class Batch:
    """Graphs that are compiled together as far as they compile."""

    def __init__(self, graphs: list[Graph], folder: Path, limit: float):
        self.graphs = [graph for graph in graphs if graph.is_judged]
        self.folder = folder
        self.limit = limit
        # Those that failed once are compiled alone from then on.
        self.alone: set[str] = set()
        self._peers: dict[tuple[str, str, str], tuple[str, float]] = {}
        self._count = 0

    def outcomes(self, setting: Setting) -> Iterator[Outcome]:
        """What becomes of each graph in this setting."""
        together = [graph for graph in self.graphs if graph.name not in self.alone]
        single = [[graph] for graph in self.graphs if graph.name in self.alone]
        for group in [together, *single]:
            if group:
                yield from self._settle(group, setting)

    def _settle(self, graphs: list[Graph], setting: Setting) -> Iterator[Outcome]:
        compiled = self._compile(graphs, setting, plain=False)
        fell_back = any(kind == "fallback" for kind, _, _ in compiled.events)
        if len(graphs) > 1 and (compiled.path is None or fell_back):
            for group in self._parts(graphs, compiled):
                yield from self._settle(group, setting)
            return
        if compiled.path is None:
            self.alone.add(graphs[0].name)
            yield self._without_program(graphs[0], setting, compiled.why)
            return
        if fell_back:
            self.alone.add(graphs[0].name)
        errors = self._run(compiled.path, graphs, setting)
        for graph in graphs:
            error, why = errors[graph.name]
            if len(graphs) > 1 and not error <= graph.tolerance(setting.target):
                yield from self._wrong_among_others(graph, setting, error, why)
            else:
                yield self._judged(graph, setting, compiled, error, why)

    def _parts(self, graphs: list[Graph], compiled: Compiled) -> list[list[Graph]]:
        """The graph that the compiler names and the others, or two halves."""
        blamed = [graph for graph in graphs if graph.name == compiled.blamed]
        if blamed:
            return [[graph for graph in graphs if graph not in blamed], blamed]
        half = len(graphs) // 2
        return [graphs[:half], graphs[half:]]

    def _wrong_among_others(
        self, graph: Graph, setting: Setting, error: float, why: str
    ) -> Iterator[Outcome]:
        """Compiled once more alone: right then, it is wrong only beside others."""
        for outcome in self._settle([graph], setting):
            if outcome.kind in KINDS[:3]:
                outcome.kind, outcome.error = "wrong, IREE right", error
                outcome.detail = f"only in one module with others: {why}"
            yield outcome

    def _judged(
        self, graph: Graph, setting: Setting, compiled: Compiled, error: float, why: str
    ) -> Outcome:
        tolerance = graph.tolerance(setting.target)
        mine = [event for event in compiled.events if event[1] in ("", graph.name)]
        warned = [reason for kind, _, reason in mine if kind == "known-wrong"]
        others = [reason for kind, _, reason in mine if kind == "fallback"]
        if error <= tolerance:
            kind = KINDS[1] if others else KINDS[2] if warned else KINDS[0]
            why = "; ".join(others or warned)
        elif warned:
            kind, why = KINDS[3], "; ".join(warned)
        else:
            peer, peer_error = self._peer(graph, setting)
            is_right = not peer and peer_error <= tolerance
            kind = KINDS[7] if is_right else KINDS[5]
            why = f"{why} (IREE: {peer or f'{peer_error:.2g}'})".strip()
        return Outcome(graph.seed, graph.family, setting, kind, error, tolerance, why)

    def _without_program(self, graph: Graph, setting: Setting, why: str) -> Outcome:
        peer, _ = self._peer(graph, setting)
        kind = KINDS[4] if peer else KINDS[6]
        tolerance = graph.tolerance(setting.target)
        return Outcome(graph.seed, graph.family, setting, kind, math.inf, tolerance, why)

    def _peer(self, graph: Graph, setting: Setting) -> tuple[str, float]:
        """Why iree-compile fails on a graph, or '' and its error."""
        key = (graph.name, setting.target, setting.level)
        if key not in self._peers:
            compiled = self._compile([graph], setting, plain=True)
            self._peers[key] = (compiled.why, math.inf)
            if compiled.path:
                error, why = self._run(compiled.path, [graph], setting)[graph.name]
                self._peers[key] = (why, error)
        return self._peers[key]

    def _compile(self, graphs: list[Graph], setting: Setting, plain: bool) -> Compiled:
        from attnpass.cli import attn_compile

        self._count += 1
        source = self.folder / f"m{self._count}.mlir"
        vmfb, report = source.with_suffix(".vmfb"), source.with_suffix(".json")
        log = source.with_suffix(".log")
        source.write_text("".join(graph.text for graph in graphs))
        ours = ["--attn-disable"] if plain else [f"--attn-report={report}"]
        arguments = [str(source), "-o", str(vmfb), *setting.flags(plain), *ours]
        seconds = self.limit * (1 + len(graphs) / 8)
        status = forked(lambda: attn_compile.main(arguments), seconds, log)
        if how := how_it_ended(status):
            text = log.read_text(errors="replace")
            return Compiled(None, _reason(how, text), self._blamed(graphs, source, text))
        events = [] if plain else self._events(graphs, source, report)
        return Compiled(vmfb, events=events)

    @staticmethod
    def _blamed(graphs: list[Graph], source: Path, text: str) -> str:
        """The function at the place of the first error."""
        found = re.search(rf"{re.escape(str(source))}:(\d+):\d+: error", text)
        return _function_at(graphs, int(found[1])) if found else ""

    @staticmethod
    def _events(graphs: list[Graph], source: Path, report: Path) -> list[tuple[str, str, str]]:
        found = []
        for event in json.loads(report.read_text()).get("events", ()):
            at = re.search(rf"{re.escape(str(source))}:(\d+)", event.get("location", ""))
            name = _function_at(graphs, int(at[1])) if at else ""
            found.append((event["kind"], name, event["reason"]))
        return found

    def _run(
        self, vmfb: Path, graphs: list[Graph], setting: Setting
    ) -> dict[str, tuple[float, str]]:
        """By function: the error, and why it could not be run."""
        found: dict[str, tuple[float, str]] = {}
        results = vmfb.with_suffix(".run")
        while left := [graph for graph in graphs if graph.name not in found]:
            seconds = 20 + 5 * len(left)
            status = forked(
                lambda left=left: _run_all(vmfb, left, setting.driver, results), seconds
            )
            for line in results.read_text().splitlines() if results.exists() else ():
                name, error, why = json.loads(line)
                found[name] = (math.inf if error is None else error, why)
            rest = [graph for graph in left if graph.name not in found]
            if rest:
                found[rest[0].name] = (math.inf, f"when run: {how_it_ended(status) or 'no result'}")
        vmfb.unlink(missing_ok=True)
        return found


def _function_at(graphs: list[Graph], line: int) -> str:
    """The function that holds a line of a module of these graphs."""
    for graph in graphs:
        count = graph.text.count("\n")
        if line <= count:
            return graph.name
        line -= count
    return ""


def _reason(how: str, text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line or "ssert" in line]
    return f"{how}: {lines[0][:300] if lines else text.strip()[-200:]}"


def _run_all(vmfb: Path, graphs: list[Graph], driver: str, results: Path) -> int:
    """Runs each graph of a module, in this process; a line of `results` for each."""
    from iree import runtime

    config = runtime.Config(driver)
    with results.open("a") as out:
        for graph in graphs:
            try:
                function = load(config, vmfb)[graph.name]
                error = max(
                    graph.error(number, _called(function, config.device, call))
                    for number, call in enumerate(graph.calls)
                )
                line = (graph.name, error if math.isfinite(error) else None, "")
            except Exception as problem:
                line = (graph.name, None, f"when run: {str(problem)[:200]}")
            out.write(json.dumps(line) + "\n")
            out.flush()
            if line[2]:
                # A device that failed once fails on all that follows.
                return 1
    return 0


def _called(function: Any, device: Any, arguments: Sequence[Any]) -> list[np.ndarray]:
    results = several(function(*(to_iree(device, array) for array in arguments)))
    return [np.array(result.to_host()) for result in results]


# a process for each batch


def work(number: int, seeds: Sequence[int], options: argparse.Namespace, folder: Path) -> int:
    """One batch, in this process: a line for each outcome, and one at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "graphs.pickle"
    log = folder / "graphs.log"
    graphs_of = _makers(options)
    if how := how_it_ended(forked(lambda: _make(seeds, graphs_of, made), options.limit * 4, log)):
        raise RuntimeError(f"graphs of {seeds[0]} ...: {how}: {log.read_text()[-2000:]}")
    batch = Batch(pickle.loads(made.read_bytes()), folder, options.limit)
    with (folder / "outcomes").open("w") as out:
        for setting in settings_of(number, options.targets, options):
            for outcome in batch.outcomes(setting):
                flags = _again(outcome, options)
                out.write(json.dumps(outcome.record(flags)) + "\n")
                out.flush()
        out.write(json.dumps({"done": True, "judged": len(batch.graphs)}) + "\n")
    return 0


def _makers(options: argparse.Namespace) -> Callable[[int], Graph]:
    """What makes the graph of a seed."""
    if options.forms:
        return lambda seed: graph_of_form(seed, options.targets[0])
    return graph_of_products if options.products else graph_of


def _make(seeds: Sequence[int], graph_of: Callable[[int], Graph], path: Path) -> int:
    """Graphs are made in a process of their own: IREE's contexts start threads."""
    path.write_bytes(pickle.dumps([graph_of(seed) for seed in seeds]))
    return 0


def _again(outcome: Outcome, options: argparse.Namespace) -> str:
    where = outcome.setting
    seeds = str(outcome.seed)
    if outcome.detail.startswith("only in one module"):
        first = outcome.seed // options.batch * options.batch
        seeds = f"{first}-{first + options.batch - 1}"
    flags = f"--target={where.target} --level={where.level} --variant={where.variant}"
    kind = "--forms " * options.forms + "--products " * options.products
    return f"{kind}--seeds={seeds} {flags}"


class Results:
    """What the file of results holds, by batch."""

    def __init__(self, path: Path | None, parameters: dict[str, Any]):
        self.path = path
        self.parameters = parameters
        self.batches: dict[str, dict[str, Any]] = {}
        self.seconds = self.cpu_seconds = 0.0
        if path and path.exists():
            old = json.loads(path.read_text())
            if old["parameters"] != parameters:
                sys.exit(f"{path} was made with other parameters: {old['parameters']}")
            self.batches = {n: b for n, b in old["batches"].items() if b["done"]}
            self.seconds, self.cpu_seconds = old["seconds"], old["cpu_seconds"]

    def take(self, number: int, path: Path) -> None:
        """The outcomes that a batch has written so far."""
        counts: Counter[str] = Counter()
        found: list[dict[str, Any]] = []
        done, judged = False, 0
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                record = json.loads(line)
                if "done" in record:
                    done, judged = True, record["judged"]
                    continue
                counts["|".join(record[k] for k in ("kind", "level", "target", "family"))] += 1
                if record["kind"] != KINDS[0]:
                    found.append(record)
        if counts or done:
            self.batches[str(number)] = {
                "done": done,
                "judged": judged,
                "counts": dict(counts),
                "found": found,
            }

    def counts(self) -> dict[str, dict[str, int]]:
        """Runs by kind, then by target and level."""
        table: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        for batch in self.batches.values():
            for key, count in batch["counts"].items():
                kind, level, target, _ = key.split("|")
                table[kind][f"{target} {level}"] += count
        return {kind: dict(sorted(row.items())) for kind, row in table.items() if row}

    def found(self) -> list[dict[str, Any]]:
        records = [record for batch in self.batches.values() for record in batch["found"]]
        return sorted(records, key=lambda r: (-KINDS.index(r["kind"]), r["seed"], r["target"]))

    def write(self) -> None:
        if not self.path:
            return
        counts = self.counts()
        runs = sum(sum(row.values()) for row in counts.values())
        data = {
            "parameters": self.parameters,
            "runs": runs,
            "graphs": sum(batch["judged"] for batch in self.batches.values()),
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "cpu_seconds_per_run": round(self.cpu_seconds / max(1, runs), 3),
            "counts": counts,
            "found": self.found(),
            "batches": {n: {**b, "found": b["found"]} for n, b in sorted(self.batches.items())},
        }
        spare = self.path.with_suffix(".part")
        spare.write_text(json.dumps(data, indent=1) + "\n")
        spare.replace(self.path)


class Pool:
    """Batches in processes, each with a core of its own."""

    def __init__(self, options: argparse.Namespace, results: Results, folder: Path):
        self.options, self.results, self.folder = options, results, folder
        self.running: dict[int, tuple[int, int]] = {}
        self.cores = sorted(os.sched_getaffinity(0))

    def run(self, batches: Iterable[tuple[int, Sequence[int]]], end: float) -> None:
        """All of these batches, or as many as there is time for until `end`."""
        waiting, last = iter(batches), time.monotonic()
        try:
            while time.monotonic() < end:
                while len(self.running) < self.options.jobs and (batch := next(waiting, None)):
                    self._start(*batch)
                if not self.running:
                    return
                self._collect()
                if time.monotonic() > last + 10:
                    last = time.monotonic()
                    self.results.write()
                time.sleep(0.02)
        finally:
            self._stop()

    def _start(self, number: int, seeds: Sequence[int]) -> None:
        taken = {slot for _, slot in self.running.values()}
        slot = next(i for i in range(self.options.jobs) if i not in taken)
        child = os.fork()
        if not child:
            code = 1
            try:
                os.setpgid(0, 0)
                os.sched_setaffinity(0, {self.cores[slot % len(self.cores)]})
                os.environ["CUDA_VISIBLE_DEVICES"] = str(slot % self.options.gpus)
                code = work(number, seeds, self.options, self.folder / str(number))
            except Exception as problem:
                print(f"batch {number}: {problem}", file=sys.stderr)
            finally:
                os._exit(code)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        self.running[child] = (number, slot)

    def _collect(self) -> None:
        for child in list(self.running):
            ended, _, usage = os.wait4(child, os.WNOHANG)
            if ended:
                self._ended(child, usage)

    def _ended(self, child: int, usage: resource.struct_rusage) -> None:
        number, _ = self.running.pop(child)
        self.results.cpu_seconds += usage.ru_utime + usage.ru_stime
        self.results.take(number, self.folder / str(number) / "outcomes")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        shutil.rmtree(self.folder / str(number), ignore_errors=True)

    def _stop(self) -> None:
        for child in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        for child in list(self.running):
            self._ended(child, os.wait4(child, 0)[2])


def batches_of(options: argparse.Namespace, done: Iterable[str]) -> Iterator[tuple[int, list[int]]]:
    """Numbers and seeds of the batches of this shard that are not done yet."""
    size, known = options.batch, set(done)
    if options.seeds:
        seeds = options.seeds
        yield from ((n, seeds[n : n + size]) for n in range(0, len(seeds), size))
        return
    part, parts = options.shard
    count = len(forms_for(options.targets[0])) if options.forms else math.inf
    end = math.inf if options.batches is None else options.batches * parts
    for number in itertools.count(part, parts):
        seeds = range(number * size, int(min((number + 1) * size, count)))
        if number >= end or not seeds:
            return
        if str(number) not in known:
            yield number, list(seeds)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--target", type=words, dest="targets", default=list(TARGETS)[:2])
    parser.add_argument("--level", type=words, dest="levels", default=list(LEVELS))
    parser.add_argument("--variant", type=words, dest="variants", default=[])
    parser.add_argument("--shard", default="0/1", help="this part of how many, from 0")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--forms", action="store_true", help="each form of one attention")
    kinds.add_argument("--products", action="store_true", help="products with weights")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that jobs take in turns")
    parser.add_argument("--seconds", type=float, default=math.inf, help="wall-clock limit")
    parser.add_argument("--batch", type=int, default=12, help="graphs in a module")
    parser.add_argument("--batches", type=int, help="stop after so many (of this shard)")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a compile")
    parser.add_argument("--seeds", type=_seeds, default=[], help="these alone: 3,17 or 20-31")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep-results", type=Path, metavar="FILE", help="put results into it")
    parser.add_argument("--machine", default="", help="with --keep-results: where they ran")
    parser.add_argument("results", nargs="*", help="with --keep-results: FILE@COMMIT")
    parser.add_argument("--keep", type=Path, help="with --seeds: write modules and inputs there")
    options = parser.parse_args(arguments)
    for given, known in (
        (options.targets, TARGETS),
        (options.levels, LEVELS),
        (options.variants, VARIANTS),
    ):
        if wrong := [word for word in given if word not in known]:
            parser.error(f"unknown: {', '.join(wrong)} (known: {', '.join(known)})")
    if options.forms and len({target.split("-")[0] for target in options.targets}) > 1:
        parser.error("--forms takes targets of one kind: CPUs and GPUs have families of their own")
    found = re.fullmatch(r"(\d+)/(\d+)", options.shard)
    if not found or not int(found[1]) < int(found[2]):
        parser.error("--shard takes I/N with I below N")
    options.shard = int(found[1]), int(found[2])
    return options


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def keep(options: argparse.Namespace) -> None:
    """The graphs of seeds as files: text, and arguments and results of each call."""
    folder: Path = options.keep
    folder.mkdir(parents=True, exist_ok=True)
    for graph in map(_makers(options), options.seeds):
        (folder / f"{graph.name}.mlir").write_text(graph.text)
        arrays: dict[str, Any] = {
            f"c{number}_{word}{place}": array
            for number, (call, wanted) in enumerate(zip(graph.calls, graph.wanted, strict=True))
            for word, values in (("i", call), ("o", wanted))
            for place, array in enumerate(values)
        }
        np.savez(folder / f"{graph.name}.npz", **arrays)


# Where modules were while they were compiled.
_FOLDER = re.compile(r"(?:/[\w.-]+)+/(?=m\d+\.)")


def keep_results(files: Sequence[str], machine: str, path: Path) -> None:
    """Counts of all files, and by graph what was not right."""
    from bench.results import Results, about, row

    rows = []
    for file, _, commit in (word.partition("@") for word in files):
        data = json.loads(Path(file).read_text())
        found: dict[tuple[int, str], dict[str, Any]] = {}
        for record in data["found"]:
            one = {name: record[name] for name in ("seed", "family", "kind")}
            one |= {"error": 0.0, "settings": [], "detail": _FOLDER.sub("", record["detail"])[:160]}
            one = found.setdefault((record["seed"], record["kind"]), one)
            one["settings"].append(" ".join(record[n] for n in ("target", "level", "variant")))
            one["error"] = max(one["error"], record["error"])
        kept = {name: data[name] for name in ("parameters", "runs", "graphs", "counts")}
        kept |= {"cpu_seconds_per_run": data["cpu_seconds_per_run"], "found": [*found.values()]}
        kinds = [name for name in ("forms", "products") if data["parameters"].get(name)]
        kind = (*kinds, "graphs")[0]
        case = f"{kind}, {', '.join(data['parameters']['targets'])}"
        rows.append(row(case, "attnpass", kept, commit=commit))
    Results("fuzz", about(machine), rows).write(path)


def main(arguments: Sequence[str] | None = None) -> int:
    started = time.monotonic()
    options = parse(arguments)
    if options.keep:
        return keep(options) or 0
    if options.keep_results:
        return keep_results(options.results, options.machine, options.keep_results) or 0
    parameters = {
        "targets": options.targets,
        "levels": options.levels,
        "variants": options.variants,
        "shard": list(options.shard),
        "batch": options.batch,
        "forms": options.forms,
        "products": options.products,
    }
    results = Results(options.out, parameters)
    if any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):
        os.environ.update(ALLOCATOR)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    load_all()
    before = results.seconds
    end = started + options.seconds - 2
    with tempfile.TemporaryDirectory() as folder:
        Pool(options, results, Path(folder)).run(batches_of(options, results.batches), end)
    results.seconds = before + time.monotonic() - started
    results.write()
    return show(results, options.seeds)


def show(results: Results, seeds: Sequence[int]) -> int:
    """Prints counts and what was bad, or all of a few seeds; the exit code."""
    counts = results.counts()
    for kind, row in counts.items():
        print(f"{kind}: {sum(row.values())}")
        for where, count in row.items():
            print(f"    {where}: {count}")
    bad = [record for record in results.found() if KINDS.index(record["kind"]) >= BAD]
    for record in results.found() if seeds else bad:
        print(f"{record['kind']} ({record['error']:.2g} > {record['tolerance']:.2g})")
        print(f"    {record['command']}\n    {record['detail']}")
    runs = sum(sum(row.values()) for row in counts.values())
    print(
        f"{runs} runs, {results.seconds:.0f} s, "
        f"{results.cpu_seconds / max(1, runs):.2f} core-seconds a run"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
