"""What benches on CPUs share: processes pinned to cores, and IREE's device in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.results import ROOT


def measured_apart(
    bench: str, words: Sequence[object], threads: int, seconds: int, **environment: str
) -> dict[str, Any]:
    """What a process of a bench, called with these words, prints as its last line of JSON; `failed`
    alone, with the reason, where there is none within so many seconds. The process is pinned to as
    many cores as it gets threads, and its `environment` is set before numpy and torch start
    theirs."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    command = ["taskset", "-c", cores, sys.executable, "-m", f"bench.cases.{bench}"]
    try:
        done = subprocess.run(
            [*command, *map(str, words)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode(errors="replace")[-600:]
        return {"failed": f"took more than {seconds} s: {said}"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"failed": done.stderr[-500:] or "ended"}


def device(threads: int, spin: int = 0) -> Any:
    """IREE's device with workers that wait for `spin` microseconds before they sleep."""
    from iree import runtime

    if threads == 1:
        return runtime.get_device("local-sync")
    runtime.flags.parse_flags(
        f"--task_topology_group_count={threads}", f"--task_worker_spin_us={spin}"
    )
    return runtime.get_device("local-task")
