"""For end-to-end tests: compile MLIR text for llvm-cpu, run it, compare with a reference."""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attnpass.cli.attn_compile import NO_FRONT_END
from attnpass.driver.modules import may_need_import
from bench.device import load, to_iree

CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)


# Whether all cases of each family run, and as many random ones.
ALL_RUN = "ATTNPASS_EXAMPLES" in os.environ

# Attention of Q (b, m, k1), K (b, k2, k1) and V (b, k2, n).
MAPS = """
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>"""


def _goes_all_the_way() -> bool:
    """Whether this test is one of those, a third of them, that compile as users do."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
    return ALL_RUN or zlib.crc32(test.encode()) % 3 == 0


def verified() -> list[str]:
    """The flag for a compile of this test, if any. What IREE's own passes leave is verified in one
    test of three, since that takes up to a fifth of a compile, and in all with ATTNPASS_EXAMPLES;
    what ours leave is verified in each."""
    return [] if _goes_all_the_way() else ["--verify=false"]


def unfolded() -> list[str]:
    """The same for a test with many constants: IREE compiles programs that compute them, which is
    half of a compile; without, the program does."""
    return [] if _goes_all_the_way() else ["--iree-opt-const-eval=false"]


def iree_alone(text: str | bytes, flags: Sequence[str], verifies: bool = False) -> bytes:
    """A module compiled by IREE; of dialects of front ends, which take a sixth of the time, it
    loads none where there is none in the module. With `verifies` it does as users have it."""
    from iree.compiler.tools import compile_str

    data = text.encode() if isinstance(text, str) else text
    told = any("iree-input-type" in flag for flag in flags) or may_need_import(data)
    extra = [*([] if verifies else verified()), *flags, *([] if told else [NO_FRONT_END])]
    made = compile_str(data, extra_args=extra)
    assert made is not None
    return made


def compile_text(
    text: str | bytes, *, mode: str | None = None, flags: Sequence[str] = (), **kwargs: Any
) -> bytes:
    """A module compiled for llvm-cpu: by attn-compile in `mode`, by iree-compile where that
    is None. `flags` come after the target's; `kwargs` go to `attnpass.compile_str`."""
    extra = [*CPU, *flags]
    if mode is None:
        return iree_alone(text, extra)
    import attnpass

    data = attnpass.compile_str(text, mode=mode, extra_args=extra, **kwargs)
    assert data is not None
    return data


def compiled_at(
    level: str, cases: Iterable[tuple[Any, ...]], text: Callable[..., str]
) -> tuple[bytes, Any]:
    """The cases (words, then a level) of this level in one module, a function for each, and the
    report; `text` makes a function of a case's words."""
    from attnpass import Report

    report, flags = Report(), [f"--iree-opt-level={level}"]
    texts = {symbol(*case): text(*case[:-1]) for case in cases if case[-1] == level}
    return compile_text(joined(texts), mode="cost", flags=flags, report=report), report


def symbol(*words: object) -> str:
    """The name of a function for a case of these words."""
    return "_".join("".join(c if c.isalnum() else "_" for c in str(word)) for word in words)


def renamed(text: str, name: str) -> str:
    """A module whose `main` is called `name`: several of them, joined, are compiled at once, which
    takes a fraction of the time."""
    return text.replace("@main(", f"@{name}(")


def joined(texts: Mapping[str, str]) -> str:
    """One module of several, in which `main` of each has its name; with that, other symbols
    begin."""
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        whole = ir.Module.create()
        for name, text in texts.items():
            text = re.sub(r"@(\w+)", rf"@{name}_\1", text)
            text = re.sub(rf"@{name}_main\b", f"@{name}", text)
            for op in ir.Module.parse(text).body.operations:
                whole.body.append(op.operation.clone())
        return str(whole)


def pairwise(*axes: Collection[Any]) -> list[tuple[Any, ...]]:
    """Some choices of a value of each axis, in which each value of one meets each of every other:
    a mistake that takes three of them at once to show is rare, and all choices take long."""
    every = list(itertools.product(*axes))

    def met(choice: tuple[Any, ...]) -> set[object]:
        return set(itertools.combinations(enumerate(choice), 2))

    left = set().union(*map(met, every))
    found: list[tuple[Any, ...]] = []
    while left:
        found.append(max(every, key=lambda choice: len(left & met(choice))))
        left -= met(found[-1])
    return found


Case = TypeVar("Case")


def thinned(cases: Iterable[Case], step: int = 2) -> list[Case]:
    """One of `step` cases of a family whose members take long and are much alike; all of them with
    ATTNPASS_EXAMPLES in the environment."""
    return [*cases][:: 1 if ALL_RUN else step]


def in_turns(cases: Iterable[Case], way: int, ways: int) -> list[Case]:
    """Those cases that are tested in the way of this number, where each is in one of so many; all
    of them with ATTNPASS_EXAMPLES in the environment."""
    return [*cases] if ALL_RUN else [*cases][way::ways]


def in_each_way(cases: Iterable[tuple[Any, ...]], ways: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The cases with a way behind each, in turns, so that each way is that of some case; with
    ATTNPASS_EXAMPLES with all ways."""
    every = [*cases]
    count = max(len(every), len(ways))
    turns = {(turn % len(every), turn % len(ways)) for turn in range(count)}
    return [
        (*case, way)
        for number, case in enumerate(every)
        for place, way in enumerate(ways)
        if ALL_RUN or (number, place) in turns
    ]


def at_levels(
    cases: Iterable[tuple[Any, ...]], levels: Sequence[str] = ("O0", "O2", "O3")
) -> list[tuple[Any, ...]]:
    """The cases with a level behind each, as `in_each_way` has them."""
    return in_each_way(cases, levels)


def on_cpu(cases: Sequence[Case], cpu: str, ways: Sequence[tuple[str, str]]) -> list[Case]:
    """Those cases that are tested on this CPU, where each goes in one of the ways, a CPU and a
    level, in turns. The first way's CPU takes those, too, whose own is not this machine's."""
    turns = {name: in_turns(cases, number, len(ways)) for number, (name, _) in enumerate(ways)}
    taken = list(turns[cpu])
    if cpu == ways[0][0]:
        taken += [case for name in turns if not runs_here(name) for case in turns[name]]
    return [case for case in cases if case in taken]


def covering(
    cases: Mapping[str, Case],
    words: Callable[[Case], tuple[Any, ...]],
    kept: Collection[str] = (),
    paired: int = 5,
) -> dict[str, Case]:
    """`kept` and some more of the cases, in which each two of the first words of any case, so many
    that code reads together, meet again, and each of the others is there; all of them with
    ATTNPASS_EXAMPLES in the environment."""
    if ALL_RUN:
        return {**cases}
    met: dict[str, set[object]] = {}
    for name, case in cases.items():
        said = [*enumerate(words(case))]
        met[name] = {*said, *itertools.combinations(said[:paired], 2)}
    found = [*kept]
    left = set().union(*met.values()).difference(*(met[name] for name in found))
    while left:
        found.append(max(met, key=lambda name: len(left & met[name])))
        left -= met[found[-1]]
    return {name: case for name, case in cases.items() if name in found}


# What Linux calls the instructions that compilers use for a CPU.
_NEEDS = {
    "haswell": {"avx2", "bmi2", "f16c", "fma"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
_NEEDS["znver4"] = {*_NEEDS["x86-64-v4"], "avx512_bf16", "avx512_vbmi2", "vaes", "gfni"}


def runs_here(cpu: str) -> bool:
    """Whether code for a CPU runs on this one; elsewhere it ends the process."""
    needs, cpuinfo = _NEEDS.get(cpu, set()), Path("/proc/cpuinfo")
    return not needs or (cpuinfo.exists() and needs <= {*cpuinfo.read_text().split()})


def has_avx512() -> bool:
    """Whether code for x86-64-v4 or a Zen 4 runs here."""
    return runs_here("x86-64-v4")


def has_gpu() -> bool:
    """Whether a CUDA device can be opened."""
    from iree import runtime

    try:
        return bool(runtime.get_driver("cuda").query_available_devices())
    except (RuntimeError, ValueError):
        return False


def run_module(
    vmfb: bytes,
    inputs: Sequence[np.ndarray | float],
    function: str = "main",
    driver: str = "local-task",
) -> Any:
    """What `function` of a compiled module returns: an array, or a list of several.

    Inputs are numpy arrays and numbers; f16 and ml_dtypes.bfloat16 go in and come out as they are.
    """
    from iree import runtime

    config = runtime.Config(driver)
    given = [to_iree(config.device, array) for array in inputs]
    results = load(config, vmfb)[function](*given)
    # Copies: the results are views of memory that the module owns.
    if isinstance(results, tuple | list):
        return [np.array(result.to_host()) for result in results]
    return np.array(results.to_host())


def compile_and_run(
    text: str | bytes,
    inputs: Sequence[np.ndarray | float],
    *,
    function: str = "main",
    mode: str | None = None,
    flags: Sequence[str] = (),
    **kwargs: Any,
) -> Any:
    """`compile_text`, then `run_module`."""
    return run_module(compile_text(text, mode=mode, flags=flags, **kwargs), inputs, function)


def rel_error(a: np.ndarray, ref: np.ndarray) -> float:
    """||a - ref|| / ||ref||, computed in float64."""
    wanted = np.asarray(ref, np.float64)
    got = np.asarray(a, np.float64)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
