"""Times: what ran on a GPU, by CUPTI; slopes between few and many repeats; errors of results.

Programs that are compared take turns, because a clock follows what ran before.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Name = TypeVar("Name", bound=Hashable)
# Attentions of a call that is timed on the GPU, and calls.
FEW, MANY, REPEATS = 2, 6, 5
COUNTS = {"one": 1, "few": FEW, "many": MANY}
# Attention slower than this is timed by calls of FEW.
SLOW_SECONDS = 0.02


def relative_error(output: Any, right: Any) -> float:
    """Relative L2 distance of arrays, in float64."""
    right = np.asarray(right, np.float64)
    delta = np.asarray(output).astype(np.float64).reshape(right.shape) - right
    return float(np.linalg.norm(delta) / np.linalg.norm(right))


def ms(seconds: float, digits: int = 4) -> float:
    return round(seconds * 1e3, digits)


def in_turns(names: Sequence[Name], turns: int) -> Iterator[Name]:
    """All names, in another random order in each turn."""
    shuffle = random.Random(0).sample
    for _ in range(turns):
        yield from shuffle(list(names), len(names))


# what ran on the GPU


def kernels_of(call: Callable[[], Any]) -> list[tuple[str, float]]:
    """What ran on the GPU, in order: names and microseconds, without copies to the host."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        call()
    events = [
        event
        for event in found.events() or ()
        if event.device_type.name == "CUDA" and "DtoH" not in event.name
    ]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, event.time_range.elapsed_us()) for event in events]


def gpu_microseconds(
    calls: Mapping[str, Callable[[], Any]], turns: int, before: Callable[[], Any] | None = None
) -> dict[str, float]:
    """Of a call of each name, the median over `turns` of what its kernels take; `before` each of
    them something may be done, which does not count."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for name in in_turns(list(calls), turns):
        if before is not None:
            before()
        spent[name].append(sum(us for _, us in kernels_of(calls[name])))
    return {name: round(statistics.median(times), 2) for name, times in spent.items()}


def on_device(call: Callable[[str], Any]) -> float:
    """Seconds of the GPU for an attention: the median over calls of the sum of what runs there,
    by their number of attentions. What a call fetches for the host is left out."""
    which = _fitting(call)
    each = len(kernels_of(lambda: call(which)))
    events = kernels_of(lambda: [call(which) for _ in range(REPEATS)])
    assert len(events) == REPEATS * each, f"{REPEATS} calls, {len(events)} events"
    spent = [sum(us for _, us in events[at : at + each]) for at in range(0, len(events), each)]
    return statistics.median(spent) / COUNTS[which] / 1e6


def _fitting(call: Callable[[str], Any]) -> str:
    """`few` where a call is slow, else `many`."""
    call("few")
    start = time.perf_counter()
    call("few")
    return "few" if time.perf_counter() - start > FEW * SLOW_SECONDS else "many"


# calls


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def call_seconds(calls: Mapping[Name, Callable[[], Any]], rounds: int = 5) -> dict[Name, float]:
    """Seconds of a call of each name, which waits for its end: the least median of `rounds`, in
    which the names take turns, of as many calls as take 30 ms, 1 to 20 of them."""
    least: dict[Name, float] = {}
    for name in [*calls, *in_turns(list(calls), rounds)]:
        count = 2 if name not in least else min(20, max(1, int(0.03 / least[name])))
        median = statistics.median(seconds_of(calls[name]) for _ in range(count))
        least[name] = min(median, least.get(name, median))
    return least


def slopes(ways: Mapping[str, Mapping[int, Callable[[], Any]]], repeats: int) -> dict[str, float]:
    """Seconds a step of each way: the difference between calls of few and of many steps, the
    median of each. Each way has calls by their number of steps; the first of each warms up."""
    calls = {(name, count): call for name, of in ways.items() for count, call in of.items()}
    times: dict[tuple[str, int], list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
    for key in in_turns(list(calls), repeats):
        times[key].append(seconds_of(calls[key]))
    found = {}
    for name, of in ways.items():
        few, many = min(of), max(of)
        medians = [statistics.median(times[name, count]) for count in (many, few)]
        found[name] = (medians[0] - medians[1]) / (many - few)
    return found


# PyTorch beside


def backends(*names: str) -> dict[str, Any]:
    """PyTorch's attention kernels by name: FA2, cuDNN, efficient."""
    from torch.nn.attention import SDPBackend

    kinds = {
        "FA2": SDPBackend.FLASH_ATTENTION,
        "cuDNN": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    return {name: kinds[name] for name in names}


def captured(steps: Callable[[], Any], count: int = 1) -> Callable[[], None]:
    """A CUDA graph of `count` times `steps`; a call replays it to its end. It holds `steps`: what
    they launch may be unloaded with them."""
    import torch

    steps()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            steps()

    def replay(held: Callable[[], Any] = steps) -> None:
        del held
        graph.replay()
        torch.cuda.synchronize()

    replay()
    return replay
