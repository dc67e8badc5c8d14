"""What benches on CPUs share: processes pinned to cores, IREE's device in them, and times."""

from __future__ import annotations

import faulthandler
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.results import ROOT

READY = "ready\n"
# Turns of parts that are compared: a virtual machine's cores change their speed within seconds.
TURNS = 5


class Part:
    """A process of a bench, called with these words, that is pinned to as many cores as it gets
    threads, from the one of number `first` on; its `environment` is set before numpy and torch
    start theirs. All parts are measured on the same cores."""

    def __init__(
        self,
        bench: str,
        words: Sequence[object],
        threads: int,
        environment: Mapping[str, str],
        first: int = 0,
    ):
        self.threads, cores = threads, cores_apart()
        mine = ",".join(str(cores[(first + i) % len(cores)]) for i in range(threads))
        command = ["taskset", "-c", mine, sys.executable, "-m", f"bench.cases.{bench}"]
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (what a pipe cannot hold)
        self.process = subprocess.Popen(
            [*command, *map(str, words)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            cwd=ROOT,
        )

    def wait(self) -> None:
        """Until the process is ready, or has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == READY:
                return

    def turn(self) -> None:
        """One of several measurements, until it has ended."""
        self._take_cores()
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.write("turn\n")
            self.process.stdin.flush()
            self.wait()

    def measured(self) -> dict[str, Any]:
        """What the process prints as its last line of JSON; `failed` alone, with the reason, where
        there is none."""
        self._take_cores()
        printed, _ = self.process.communicate("\n" if self.process.poll() is None else None)
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        if lines:
            return json.loads(lines[-1])
        self.said.seek(0)
        return {"failed": self.said.read()[-600:] or "ended"}

    def _take_cores(self) -> None:
        """Those on which all parts are measured; IREE has a worker on each core, wherever it is."""
        if self.process.poll() is None:
            cores = cores_apart()[: self.threads]
            tasks = Path(f"/proc/{self.process.pid}/task")
            for thread in tasks.iterdir():
                kind, _, number = (thread / "comm").read_text().strip().rpartition("-")
                own = [cores[int(number)]] if kind == "iree-worker" else cores
                os.sched_setaffinity(int(thread.name), own)


def cores_apart() -> list[int]:
    """The CPUs that this process may use: one of each core, then those that share theirs."""

    def beside(cpu: int) -> str:
        listed = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return listed.read_text() if listed.exists() else str(cpu)

    cpus = sorted(os.sched_getaffinity(0))
    first = {beside(cpu): cpu for cpu in reversed(cpus)}
    return sorted(cpus, key=lambda cpu: (first[beside(cpu)] != cpu, cpu))


def turns(seconds: int) -> Iterator[None]:
    """In a part that is ready: its turns, each of which may take so many seconds."""
    print(READY, end="", flush=True)
    faulthandler.cancel_dump_traceback_later()
    while sys.stdin.readline().strip():
        end_after(seconds)
        yield
        faulthandler.cancel_dump_traceback_later()
        print(READY, end="", flush=True)


def end_after(seconds: int) -> None:
    """A part that takes longer says where it stood, and ends."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def device(threads: int, spin: int = 0) -> Any:
    """IREE's device with workers that wait for `spin` microseconds before they sleep."""
    from iree import runtime

    if threads == 1:
        return runtime.get_device("local-sync")
    # Workers that are counted, not placed, are on no core of their own; IREE's default places them.
    cores = ",".join(map(str, cores_apart()[:threads]))
    runtime.flags.parse_flags(f"--task_topology_cpu_ids={cores}", f"--task_worker_spin_us={spin}")
    return runtime.get_device("local-task")


def in_turns(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    seconds: float,
    least: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of calls, of each program until they are so many `seconds`, and `least` calls. In a
    round each is called once that is not counted, which finds its data where the program before
    has left it, then four times, or once where it is slow."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if len(times[name]) >= least and sum(times[name]) > seconds:
                continue
            start = clock()
            call()
            for _ in range(4 if clock() - start < seconds / 8 else 1):
                start = clock()
                call()
                times[name].append(clock() - start)
    return times


def milliseconds(seconds: Sequence[float], steps: int = 1) -> dict[str, Any]:
    """What a row says of calls of so many steps each."""
    each = [1e3 * one / steps for one in seconds]
    median, best = round(statistics.median(each), 3), round(min(each), 3)
    return {"ms": median, "best": best, "rounds": len(each)}
