"""Checks and times the compiled candidates in a tuning folder, on the machine it runs on.

    python measure.py FOLDER

Needs iree-base-runtime and numpy and nothing else of this package: attn-tune puts a copy of
this file into each folder, so that a machine that has the device but no compiler can run it.

Every candidate's whole result is compared with a float64 reference, row by row; candidates run
in a worker process, so that one that crashes or hangs costs only itself. Results go to
`results/`, one file a candidate as soon as it is done: a second run goes on where the first one
was stopped. At the end the fastest of each problem run once more, in turns with the built-in
and IREE's own configuration: these times decide.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any

FORMAT, VERSION = "attnpass-tuning", 1
# The keys of a manifest whose texts become parts of paths.
_IN_PATHS = ("file", "group", "id", "key", "path", "problem")

# Largest relative L2 errors against float64 that are right: several times those of right
# kernels (f32 1e-6 to 4e-6, f16 1e-3, bf16 5e-3, fp8 2.6e-2). A single row may have more.
TOLERANCES = {"f32": 2e-5, "f16": 3e-3, "bf16": 2e-2, "f8E4M3FN": 8e-2, "f8E5M2": 1.6e-1}
ROW_FACTOR = 6
# With an error of log2(sum exp2), absolute, of online_attention.
STATE_TOLERANCE_FACTOR = 10

# A call that takes longer (seconds) is timed as it is: what surrounds the kernel is nothing.
LONG_CALL = 0.02
LEAST_CALLS, MOST_CALLS, SAMPLE_SECONDS = 5, 60, 0.15
# A device that was idle takes some time to run at its speed.
WARM_SECONDS = 0.1
# A candidate that is so many times slower than the best so far is timed once.
HOPELESS = 2.5
FINALISTS, FINAL_ROUNDS, ROUND_SECONDS = 4, 9, 0.03
# The reference is computed in blocks of so many scores.
_BLOCK_SCORES = 1 << 25


class Progress:
    """A bar with the time left on a terminal, else a line now and then, on standard error."""

    def __init__(self, title: str, total: int, quiet: bool = False):
        self.title, self.total, self.quiet = title, total, quiet
        self.done = 0
        self.start = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.shown = 0.0
        self.width = 0

    def step(self, words: str = "") -> None:
        """One more is done; `words` say how it went."""
        self.done += 1
        now = time.monotonic()
        last = self.done == self.total
        # Ten lines in a log, ten a second on a terminal.
        due = now - self.shown > 0.1 if self.terminal else self.done * 10 % self.total < 10
        if self.quiet or not (due or last):
            return
        self.shown = now
        left = (now - self.start) / self.done * (self.total - self.done)
        text = f"{self.title} {self.done}/{self.total}, {duration(left)} left"
        if last:
            text = f"{self.title} {self.done}/{self.total} in {duration(now - self.start)}"
        if not self.terminal:
            print(text, file=sys.stderr, flush=True)
            return
        filled = 24 * self.done // self.total
        line = f"[{'#' * filled}{'.' * (24 - filled)}] {text}" + (f": {words}" if words else "")
        line = line[: _columns() - 1]
        end = "\n" if last else ""
        print(f"\r{line:<{self.width}}", end=end, file=sys.stderr, flush=True)
        self.width = len(line)

    def stop(self) -> None:
        """Leaves the line where the bar was."""
        if self.terminal and not self.quiet and 0 < self.done < self.total:
            print(file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80


def write_json(path: Path, data: Any) -> None:
    """Writes a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(json.dumps(data, indent=1) + "\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        # There is one only where something, an interrupt perhaps, came in between.
        Path(temporary).unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The data of a file; None where there is none, or half of one."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


class FolderError(Exception):
    """A folder that cannot be run, and why."""

    def __init__(self, folder: Path, why: str):
        super().__init__(f"{folder}: {why}")
        self.folder, self.why = str(folder), why


def read_manifest(folder: Path, form: str = FORMAT, what: str = "tuning") -> dict[str, Any]:
    """The manifest of a tuning folder; FolderError where there is none."""
    data = read_json(folder / "manifest.json")
    if data is None:
        raise FolderError(folder, f"no {what} folder: manifest.json is missing or damaged")
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (form, VERSION):
        raise FolderError(folder, f"manifest.json is none of version {VERSION}")
    for path in _paths_in(data):
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise FolderError(folder, f"manifest.json names '{path}', which is not in the folder")
    return data


def _paths_in(data: Any) -> Iterator[str]:
    """The texts in a manifest that are paths, or that names of files are made of."""
    if isinstance(data, list):
        for one in data:
            yield from _paths_in(one)
    if isinstance(data, dict):
        yield from (data[name] for name in _IN_PATHS if isinstance(data.get(name), str))
        for one in data.values():
            yield from _paths_in(one)


# ----- the parent: hands out jobs, keeps the time limits, writes the results


def measure_all(folder: Path, time_limit: float, quiet: bool = False) -> dict[str, int]:
    """Checks and times what has no result yet; returns how many of each status there are."""
    manifest = read_manifest(folder)
    (folder / "results").mkdir(exist_ok=True)
    runs = [run for run in manifest["runs"] if run["status"] == "compiled"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run["group"], []).append(run)
    worker = Worker(folder, time_limit)
    progress = Progress("checked and timed", len(runs) + len(groups), quiet)
    counts: dict[str, int] = {}
    try:
        device = worker.ask({"job": "device"}, time_limit)
        if "device" not in device:
            why = device.get("reason", "no answer")
            raise FolderError(folder, f"the device cannot be opened: {why}")
        for group, members in groups.items():
            results = _measure_group(folder, worker, device["device"], members, progress)
            for result in results.values():
                counts[result["status"]] = counts.get(result["status"], 0) + 1
            _final(folder, worker, device["device"], group, members, results)
            progress.step("finalists")
    finally:
        progress.stop()
        worker.close()
    return counts


def _measure_group(
    folder: Path, worker: Worker, device: str, runs: Sequence[dict[str, Any]], progress: Progress
) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    best = math.inf
    for run in runs:
        path = folder / "results" / f"{run['id']}.json"
        result = read_json(path)
        if not isinstance(result, dict) or result.get("device") != device:
            job = {"job": "run", "id": run["id"], "best": None if math.isinf(best) else best}
            if not (folder / "references" / f"{run['problem']}.npz").exists():
                worker.ask({"job": "reference", "problem": run["problem"]}, 10 * worker.limit)
            result = {**worker.ask(job, worker.limit), "device": device}
            write_json(path, result)
        if result["status"] == "right":
            best = min(best, result["ms"])
        results[run["id"]] = result
        progress.step(f"{run['choice']}: {_words(result)}")
    return results


def _words(result: dict[str, Any]) -> str:
    return f"{result['ms']:.3f} ms" if result["status"] == "right" else result["status"]


def _final(
    folder: Path,
    worker: Worker,
    device: str,
    group: str,
    runs: Sequence[dict[str, Any]],
    results: dict[str, dict[str, Any]],
) -> None:
    """Times the fastest once more, in turns, beside the ones that they are compared with."""
    right = [run for run in runs if results[run["id"]]["status"] == "right"]
    right.sort(key=lambda run: results[run["id"]]["ms"])
    chosen = right[:FINALISTS] + [run for run in right[FINALISTS:] if run["baseline"]]
    ids = sorted(run["id"] for run in chosen)
    path = folder / "results" / f"final-{group}.json"
    before = read_json(path)
    same = isinstance(before, dict) and before.get("device") == device
    if not ids or (same and sorted(before.get("ms", {})) == ids):
        return
    # Each takes its warm-up and FINAL_ROUNDS turns.
    answer = worker.ask({"job": "final", "ids": ids}, worker.limit * (1 + len(ids)))
    if "ms" not in answer:
        single = {run["id"]: results[run["id"]]["ms"] for run in chosen}
        answer = {"ms": single, "spread": {}, **answer}
    write_json(path, {**answer, "device": device})


class Worker:
    """A process that does one job after another, replaced when it crashes or is late; `script` is
    called with the folder and --worker, and reads and answers jobs as `work` does."""

    def __init__(self, folder: Path, limit: float, script: str = __file__):
        self.folder, self.limit, self.script = folder, limit, script
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str] = queue.Queue()
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (of this object's life)

    def ask(self, job: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer to a job, or a status and a reason where there is none within `limit` s."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = self.lines.get(timeout=limit)
        except (queue.Empty, BrokenPipeError):
            line = "late"
        try:
            answer = json.loads(line)
        except ValueError:
            late = line == "late" and process.poll() is None
            self.close()
            if late:
                return {"status": "late", "reason": f"no end within {limit:.3g} s"}
            return {"status": "crashed", "reason": f"{_exit_words(process)}{self._last_error()}"}
        if answer.get("restart"):
            # A device that has failed once may fail for good in this process.
            self.close()
        return answer

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.lines = queue.Queue()
            self.errors.seek(0)
            self.errors.truncate()
            self.process = subprocess.Popen(
                [sys.executable, self.script, str(self.folder), "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                start_new_session=True,
            )
            assert self.process.stdout is not None
            reader = threading.Thread(
                target=_read_lines, args=(self.process.stdout, self.lines), daemon=True
            )
            reader.start()
        return self.process

    def _last_error(self) -> str:
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        return f": {lines[-1][:200]}" if lines else ""

    def close(self) -> None:
        """Ends the process, at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _read_lines(stream: IO[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("ended")


def _exit_words(process: subprocess.Popen[str]) -> str:
    code = process.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


# ----- the worker


def work(folder: Path) -> None:
    """Does the jobs of a tuning folder."""
    bench = Bench(folder, read_manifest(folder))
    answer_jobs(
        {
            "device": lambda job: {"device": bench.device_name()},
            "reference": lambda job: {"error": bench.make_reference(job["problem"])},
            "run": lambda job: bench.run(job["id"], job["best"]),
            "final": lambda job: bench.final(job["ids"]),
        }
    )


def answer_jobs(jobs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Reads jobs, a JSON object a line, from standard input; writes an answer a line."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = jobs[job["job"]](job)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            reason = f"{type(error).__name__}: {text}"
            answer = {"status": "failed", "reason": reason, "restart": True}
        print(json.dumps(answer), flush=True)


class Bench:
    """The device, and the inputs of the problem at hand on it."""

    def __init__(self, folder: Path, manifest: dict[str, Any]):
        self.folder, self.manifest = folder, manifest
        self.problems = {problem["key"]: problem for problem in manifest["problems"]}
        self.runs = {run["id"]: run for run in manifest["runs"]}
        self._config: Any = None
        # Of the problem at hand: its arguments on the device, and what is right.
        self._loaded = ""
        self._inputs: list[Any] = []
        self._right: tuple[Any, Any] = (None, None)

    @property
    def config(self) -> Any:
        from iree import runtime

        if self._config is None:
            self._config = runtime.Config(self.manifest["driver"])
        return self._config

    def device_name(self) -> str:
        return device_name(self.manifest["driver"], self.config)

    def make_reference(self, key: str) -> None:
        """Computes the reference of a problem and keeps it in the folder."""
        import numpy as np

        folder = self.folder / "references"
        folder.mkdir(exist_ok=True)
        problem = self.problems[key]
        output, state = reference(problem, inputs(problem))
        handle, temporary = tempfile.mkstemp(suffix=".npz", dir=folder)
        os.close(handle)
        np.savez(temporary, output=output.astype(np.float32), state=state.astype(np.float32))
        os.replace(temporary, folder / f"{key}.npz")

    def run(self, name: str, best: float | None) -> dict[str, Any]:
        """Status, errors and milliseconds of a candidate."""
        run = self.runs[name]
        problem = self.problems[run["problem"]]
        functions = self._functions(run)
        given = self._given(problem)
        results = functions["one"](*given)
        results = list(results) if isinstance(results, tuple | list) else [results]
        answer = self._check(problem, [result.to_host() for result in results])
        if answer["status"] == "right":
            timer = Timer(functions, given, problem["repeats"])
            answer["ms"] = timer.measure(WARM_SECONDS)
            if best is None or answer["ms"] <= best * HOPELESS:
                answer["ms"] = timer.measure(SAMPLE_SECONDS, LEAST_CALLS)
        return answer

    def final(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """`ms` of several candidates of one problem, in turns, and their `spread`: the middle
        half of the turns lies within this share of the time."""
        timers = {}
        for name in names:
            run = self.runs[name]
            problem = self.problems[run["problem"]]
            given = self._given(problem)
            timers[name] = Timer(self._functions(run), given, problem["repeats"])
        turns: dict[str, list[float]] = {name: [] for name in names}
        for number in range(FINAL_ROUNDS):
            # Forth and back: a drift of the machine's speed meets all alike.
            for name in names if number % 2 else reversed(names):
                turns[name].append(timers[name].measure(ROUND_SECONDS))
        ms = {name: statistics.median(found) for name, found in turns.items()}
        quarters = {name: statistics.quantiles(found) for name, found in turns.items()}
        spread = {name: round((q[2] - q[0]) / ms[name], 4) for name, q in quarters.items()}
        return {"ms": ms, "spread": spread}

    def _functions(self, run: dict[str, Any]) -> Any:
        return load_functions(self.config, self.folder / run["file"])

    def _given(self, problem: dict[str, Any]) -> list[Any]:
        import numpy as np

        if self._loaded != problem["key"]:
            kinds = [kind for _, kind, _ in input_types(problem)]
            device = self.config.device
            self._inputs = [
                to_device(device, bits, kind)
                for bits, kind in zip(inputs(problem), kinds, strict=True)
            ]
            right = np.load(self.folder / "references" / f"{problem['key']}.npz")
            self._right = right["output"].astype(np.float64), right["state"]
            self._loaded = problem["key"]
        return self._inputs

    def _check(self, problem: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        import numpy as np

        output, state = canonical(problem, results)
        wanted, wanted_state = self._right
        limit = tolerance(problem)
        if output.shape != wanted.shape or not np.isfinite(output).all():
            return {"status": "wrong", "reason": "not every number is finite"}
        rows = np.linalg.norm(output - wanted, axis=-1)
        norms = np.linalg.norm(wanted, axis=-1)
        error = float(np.linalg.norm(rows) / np.linalg.norm(norms))
        worst = float((rows / np.maximum(norms, norms.mean())).max())
        answer: dict[str, Any] = {"status": "right", "error": error, "worst_row": worst}
        if error > limit or worst > ROW_FACTOR * limit:
            answer["status"] = "wrong"
            answer["reason"] = f"error {error:.1e}, in a row {worst:.1e}; right is {limit:.0e}"
        elif state is not None:
            off = float(np.abs(state - wanted_state).max())
            if not off <= STATE_TOLERANCE_FACTOR * limit:
                answer["status"], answer["reason"] = "wrong", f"max and sum are off by {off:.1e}"
        return answer


def device_name(driver: str, config: Any) -> str:
    """The name of the device that `config` has open; for a CPU the processor's and the number of
    threads."""
    from iree import runtime

    if driver.startswith("local"):
        with_name = Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
        found = re.search(r"^model name\s*: (.*)$", with_name, re.MULTILINE)
        return f"{found[1] if found else 'CPU'}, {len(os.sched_getaffinity(0))} threads"
    assert config
    devices = runtime.get_driver(driver).query_available_devices()
    return str(devices[0].get("name") or driver)


def load_functions(config: Any, path: Path) -> Any:
    """The functions of a compiled module, by name, on the device of `config`."""
    from iree import runtime

    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, path.read_bytes()))
    (name,) = [module for module in context.modules if module != "hal"]
    return context.modules[name]


class Timer:
    """Times one attention of a compiled candidate.

    A short kernel's time is the difference of the medians of `long` and `short` calls; of a
    long one, the median of the `short` calls.
    """

    def __init__(self, functions: Any, given: Sequence[Any], repeats: int):
        self.functions, self.repeats = functions, repeats
        self.given = {"short": given, "long": [given[0]] * repeats + list(given)}
        self._call("short")
        self.whole = self._call("short") > LONG_CALL
        if not self.whole:
            self._call("long")

    def _call(self, name: str) -> float:
        start = time.perf_counter()
        results = self.functions[name](*self.given[name])
        results = results if isinstance(results, tuple | list) else [results]
        results[-1].to_host()
        return time.perf_counter() - start

    def measure(self, seconds: float, least: int = 1) -> float:
        """Milliseconds of one attention, from so many seconds of calls and at least `least`."""
        times: dict[str, list[float]] = {"short": [], "long": []}
        start = time.perf_counter()
        count = 0
        while count < least or (count < MOST_CALLS and time.perf_counter() - start < seconds):
            for name in ("short",) if self.whole else ("short", "long"):
                times[name].append(self._call(name))
            count += 1
        short = statistics.median(times["short"])
        difference = 0 if self.whole else statistics.median(times["long"]) - short
        # No difference is noise, too: then a whole call is all that is known.
        return round(1e3 * (difference / self.repeats if difference > 0 else short), 6)


# ----- inputs and the reference, in numpy


def input_types(problem: dict[str, Any]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Name, element type and shape of each argument."""
    for name in ("query", "key", "value", "mask"):
        operand = problem["attention"]["operands"].get(name)
        if operand is not None:
            yield name, problem["elements"][name], shape(problem, operand["map"])


def shape(problem: dict[str, Any], dims: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(1 if dim is None else problem["sizes"][dim] for dim in dims)


def inputs(problem: dict[str, Any]) -> list[Any]:
    """Random arguments as arrays of bits: the same ones for the same problem, anywhere."""
    import numpy as np

    arrays = []
    for number, (name, kind, sizes) in enumerate(input_types(problem)):
        random = np.random.default_rng([int(problem["key"], 16), number])
        if name == "mask" and kind in ("i1", "i8"):
            seen = random.random(sizes) < 0.7
            # No row of queries is without keys.
            seen[..., 0] = True
            arrays.append(seen)
        else:
            arrays.append(encoded(random.standard_normal(sizes, np.float32), kind))
    return arrays


def _table(kind: str) -> Any:
    """The values of all 256 codes of an fp8 type, in float32; NaN where a code has none."""
    import numpy as np

    mantissa_bits, bias = (3, 7) if kind == "f8E4M3FN" else (2, 15)
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    powers = np.exp2(np.maximum(exponent, 1) - float(bias))
    values = np.where(exponent > 0, 1 + fraction, fraction) * powers
    special = codes & 0x7F == 0x7F if kind == "f8E4M3FN" else exponent == 31
    return np.where(special, np.nan, np.where(codes & 0x80, -values, values)).astype(np.float32)


def encoded(values: Any, kind: str) -> Any:
    """float32 values rounded to a type: numpy's own, or the bits where numpy has no such type."""
    import numpy as np

    if kind in ("f32", "f16", "f64"):
        return values.astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[kind])
    if kind == "bf16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    table = _table(kind)
    codes = np.flatnonzero(np.isfinite(table))
    order = codes[np.argsort(table[codes], kind="stable")]
    middles = (table[order][1:] + table[order][:-1]) / 2
    return order[np.searchsorted(middles, values)].astype(np.uint8)


def decoded(bits: Any, kind: str) -> Any:
    """float64 values of an array of `encoded`'s form."""
    import numpy as np

    if kind == "bf16":
        raw = np.ascontiguousarray(bits).view(np.uint16)
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind.startswith("f8"):
        return _table(kind)[np.ascontiguousarray(bits).view(np.uint8)].astype(np.float64)
    return np.asarray(bits).astype(np.float64)


def to_device(device: Any, bits: Any, kind: str) -> Any:
    """An array on the device, of a type that numpy may not have."""
    import numpy as np
    from iree import runtime

    types = runtime.HalElementType
    names = {"bf16": types.BFLOAT_16, "i1": types.BOOL_8}
    names |= {"f8E4M3FN": types.FLOAT_8_E4M3_FN, "f8E5M2": types.FLOAT_8_E5M2}
    # Not ascontiguousarray, which makes a vector of a single number.
    raw = np.asarray(bits, order="C")
    if kind not in names:
        return runtime.asdevicearray(device, raw)
    view = device.allocator.allocate_buffer_copy(
        memory_type=runtime.MemoryType.DEVICE_LOCAL,
        allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING,
        device=device,
        buffer=raw.view(np.uint8) if raw.dtype == np.bool_ else raw,
        element_type=names[kind],
    )
    return runtime.DeviceArray(device, view)


def tolerance(problem: dict[str, Any]) -> float:
    """The largest relative error that is right, from the least precise type."""
    kinds = [problem["elements"][name] for name in ("query", "key", "value", "output")]
    return max(TOLERANCES.get(kind, TOLERANCES["f32"]) for kind in kinds)


def reference(problem: dict[str, Any], given: Sequence[Any]) -> tuple[Any, Any]:
    """In float64: the result as (batch, rows, head dim), and log2 of the sums of the
    exponentials of all scores as (batch, rows)."""
    import numpy as np

    dims, operands = problem["dims"], problem["attention"]["operands"]
    arrays = {}
    for (name, kind, _), bits in zip(input_types(problem), given, strict=True):
        arrays[name] = decoded(bits, kind) if kind not in ("i1", "i8") else bits.astype(bool)

    def part(name: str, index: Sequence[int], rows: str, columns: str) -> Any:
        order = [*dims["batch"], *dims[rows], *dims[columns]]
        full = _spread(arrays[name], operands[name]["map"], problem, order)
        size = [math.prod(problem["sizes"][dim] for dim in dims[kind]) for kind in (rows, columns)]
        return np.ascontiguousarray(full[tuple(index)]).reshape(size)

    outputs, states = [], []
    for index in product(*(range(problem["sizes"][dim]) for dim in dims["batch"])):
        query, key = part("query", index, "m", "k1"), part("key", index, "k2", "k1")
        value = part("value", index, "k2", "n")
        mask = part("mask", index, "m", "k2") if "mask" in arrays else None
        block = max(1, _BLOCK_SCORES // len(key))
        for low in range(0, len(query), block):
            scores = query[low : low + block] @ key.T * problem["scale"]
            if mask is not None:
                some = mask[low : low + block]
                scores = np.where(some, scores, -np.inf) if some.dtype == bool else scores + some
            high = scores.max(-1, keepdims=True)
            weights = np.exp(scores - high)
            sums = weights.sum(-1, keepdims=True)
            outputs.append(weights @ value / sums)
            states.append(((high + np.log(sums)) / math.log(2))[:, 0])
    batch = math.prod(problem["sizes"][dim] for dim in dims["batch"])
    output = np.concatenate(outputs)
    return output.reshape(batch, -1, output.shape[-1]), np.concatenate(states).reshape(batch, -1)


def _spread(array: Any, positions: Sequence[int | None], problem: Any, dims: list[int]) -> Any:
    """The array with an axis for each of `dims`, repeated along those that it lacks."""
    import numpy as np

    kept = [axis for axis, dim in enumerate(positions) if dim is not None]
    array = array[tuple(slice(None) if axis in kept else 0 for axis in range(array.ndim))]
    found = [positions[axis] for axis in kept]
    array = array.transpose([found.index(dim) for dim in dims if dim in found])
    array = array[tuple(slice(None) if dim in found else None for dim in dims)]
    return np.broadcast_to(array, [problem["sizes"][dim] for dim in dims])


def canonical(problem: dict[str, Any], results: Sequence[Any]) -> tuple[Any, Any]:
    """A candidate's results in the form of `reference`; no state where attention has none."""
    import numpy as np

    operands, dims = problem["attention"]["operands"], problem["dims"]
    names = [name for name in ("output", "max", "sum") if name in operands]
    found = {}
    for name, bits in zip(names, results, strict=True):
        order = dims["batch"] + dims["m"] + (dims["n"] if name == "output" else [])
        values = decoded(bits, problem["elements"][name])
        found[name] = _spread(values, operands[name]["map"], problem, order)
    batch, rows, head = (
        math.prod(problem["sizes"][dim] for dim in dims[kind]) for kind in ("batch", "m", "n")
    )
    output = found["output"].reshape(batch, rows, head)
    if "sum" not in found:
        return output, None
    sums = found["sum"].reshape(batch, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        state = found["max"].reshape(batch, rows) + np.log2(sums)
        return output / sums[..., None], state


def main() -> int:
    return script_main("measure.py", "a candidate", measure_all, work, __doc__ or "")


def script_main(
    name: str,
    what: str,
    run_all: Callable[[Path, float, bool], dict[str, int]],
    work: Callable[[Path], object],
    doc: str,
) -> int:
    """The command line of a script that does the jobs of a folder, and its exit code: `run_all`
    takes the folder, the seconds that `what` may take, and whether to be quiet; `work` is what
    the processes do that it starts."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time-limit", type=float, default=60, help=f"seconds for {what}")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.folder)
        return 0
    try:
        counts = run_all(arguments.folder, arguments.time_limit, arguments.quiet)
    except FolderError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
