"""What a probe of IREE is, and what a probe's module gives with some passes and without.

IREE is probed in a process of its own, which a wrong program or a crash of the compiler may end.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import gpu_interpreter
import numpy as np
from attention_case import Case
from attention_form import Form
from gpu_module import lower, run_gpu_module
from helpers import CPU, iree_alone, run_module

import attnpass
from attnpass.passes import REGISTRY
from bench.device import several

_DEVICE = "--iree-hal-target-device="
CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")
CONFIGURED = "executable-configurations"
# The names of what may be wrong.
WRONG, FAILED, CRASHED = "wrong numbers", "no program", "a crash"
# An error of more than this is no matter of precision, whatever the types.
MOST = 0.03

# Where a probe's module runs: on this CPU, on CUDA with its kernels interpreted in numpy, on a GPU
# only, or nowhere.
Place = Literal["cpu", "interpreted", "gpu", "compiled"]


@dataclass(frozen=True)
class Probe:
    """A module that IREE gets wrong, and what mends it.

    `expected` is what a compile or a run ends in by IREE alone: WRONG, FAILED, CRASHED or, where
    IR shows it, a pattern of what is in the IR at the phase `shown_at`. `passes` mend it; those
    in `beside`, for other faults of the same module, are part of both sides. `error` is a pattern
    of what a failing compile prints. Where no pass mends it, a file, `mended_in`, does.
    """

    text: str
    passes: str
    expected: str = WRONG
    place: Place = "cpu"
    inputs: Sequence[Any] = ()
    wanted: Callable[[], Sequence[np.ndarray]] = lambda: ()
    beside: str = ""
    flags: Sequence[str] = ()
    error: str = ""
    shown_at: str = ""
    mended_in: str = ""

    @property
    def repair(self) -> str:
        """The name of the pass that this is a probe for."""
        return re.split(r"[{,]", self.passes)[0]

    @property
    def can_go(self) -> str:
        """What nobody needs once IREE is right."""
        if self.mended_in:
            return f"what attnpass/{self.mended_in} does for this"
        path = REGISTRY[self.repair].partition(":")[0].replace(".", "/")
        return f"{self.repair} ({path}.py), or its part for this,"


def of_form(form: Form | Case, passes: str, expected: str = WRONG, **more: Any) -> Probe:
    """A probe of one attention."""
    given = form.arguments() if isinstance(form, Form) else form.inputs()
    wanted = form.wanted if isinstance(form, Form) else lambda: [form.wanted()]
    return Probe(form.text("main"), passes, expected, inputs=given, wanted=wanted, **more)


def without_repair(probe: Probe) -> str:
    """What is wrong with the module without its repair, or ''."""
    return _found(probe, probe.beside)


def with_repair(probe: Probe) -> str:
    """What is wrong with the module with its repair alone, or ''."""
    return _found(probe, ",".join(filter(None, (probe.passes, probe.beside))))


def _found(probe: Probe, pipeline: str) -> str:
    is_named = any(flag.startswith(_DEVICE) for flag in probe.flags)
    target = () if is_named else CPU if probe.place == "cpu" else CUDA
    phase = probe.shown_at or (CONFIGURED if probe.place == "interpreted" else "")
    flags = [*target, *probe.flags, *([f"--compile-to={phase}"] if phase else [])]
    program = _compiled(probe.text, pipeline, flags)
    if isinstance(program, str):
        return program
    if probe.shown_at:
        found = re.search(probe.expected, program.decode())
        return probe.expected if found else ""
    if probe.place == "compiled":
        return ""
    results = _in_child(_interpreted if probe.place == "interpreted" else _run, program, probe)
    if isinstance(results, str):
        return results
    return _difference(results, probe.wanted())


def _compiled(text: str, pipeline: str, flags: Sequence[str]) -> bytes | str:
    """The program, or why there is none."""
    from iree.compiler.tools import CompilerToolError

    report = attnpass.Report()
    try:
        if pipeline:
            data = attnpass.compile_str(text, pipeline=pipeline, extra_args=flags, report=report)
        else:
            data = iree_alone(text, flags, verifies=True)
    except CompilerToolError as error:
        message = str(error)
        kind = CRASHED if re.search("Error code: -|Please report issues", message) else FAILED
        return f"{kind}: {message}"
    fallbacks = [event.reason for event in report.events if event.kind == "fallback"]
    assert data is not None
    return f"{FAILED}: {fallbacks}" if fallbacks else data


def _run(program: bytes, inputs: Sequence[Any], driver: str = "local-task") -> list[np.ndarray]:
    return several(run_module(program, inputs, driver=driver))


def _interpreted(program: bytes, inputs: Sequence[Any]) -> list[np.ndarray]:
    """What kernels for CUDA give, which may read behind a dim's end what they do not use."""

    def clipped(buffer: Any, where: tuple[Any, ...], thread: np.ndarray) -> np.ndarray:
        if isinstance(buffer, np.ndarray):
            pairs = zip(where, buffer.shape, strict=False)
            where = tuple(np.minimum(at, size - 1) for at, size in pairs)
        return read(buffer, where, thread)

    read = gpu_interpreter._read
    gpu_interpreter._read = clipped
    try:
        return run_gpu_module(lower(program.decode()), inputs)
    except Exception as error:
        # Errors of IREE's bindings cannot be sent to another process.
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
    finally:
        gpu_interpreter._read = read


@cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def _in_child(
    work: Callable[..., list[np.ndarray]], program: bytes, probe: Probe
) -> list[np.ndarray] | str:
    """What `work` makes of a program in another process, or how it failed."""
    more = ("cuda",) if probe.place == "gpu" else ()
    try:
        return _pool().submit(work, program, list(probe.inputs), *more).result(timeout=300)
    except BrokenProcessPool:
        _pool.cache_clear()
        return CRASHED
    except Exception as error:
        return f"{FAILED}: {type(error).__name__}: {error}"


def _difference(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    worst = 0.0
    for one, other in zip(results, wanted, strict=True):
        other = np.asarray(other, np.float64)
        error = np.linalg.norm(np.asarray(one, np.float64) - other)
        worst = max(
            worst, float(np.nan_to_num(error, nan=np.inf)) / max(float(np.linalg.norm(other)), 1e-9)
        )
    return "" if worst <= MOST else f"{WRONG}: {worst:.2g}"
