"""What IREE 3.13 gets wrong, it still gets wrong: a probe that fails names a repair that can go.

After an upgrade of IREE, run this folder with ATTNPASS_EXAMPLES in the environment: without, IREE
alone is probed for one module of three, and each repair for one of its modules.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import NOT_PROBED, PROBES
from flex import FLEX
from helpers import ALL_RUN, has_gpu, thinned
from iree.compiler.tools import CompilerToolError, compile_str
from probe import with_repair, without_repair
from vector_products import error_of

from attnpass.families import FAMILIES
from attnpass.passes import REGISTRY, load_pass
from attnpass.pipeline import STEPS, Step, reason_of

RACES = "ATTNPASS_PROBE_RACES"
TRIES = 1000


def skip_without_gpu(name: str) -> None:
    if PROBES[name].place == "gpu" and not has_gpu():
        pytest.skip("needs a GPU")


@pytest.mark.parametrize("name", thinned(PROBES, 3))
def test_iree_is_still_wrong(name: str) -> None:
    skip_without_gpu(name)
    probe = PROBES[name]
    found = without_repair(probe)
    assert found, f"IREE no longer gets {name} wrong: {probe.can_go} can go"
    assert found.startswith(probe.expected), f"IREE gets {name} wrong in another way now: {found}"
    assert re.search(probe.error, found), f"IREE fails on {name} in another way now: {found}"


def of_each_repair() -> list[str]:
    """A probe of each repair; all of them with ATTNPASS_EXAMPLES."""
    last = {(probe.repair, probe.mended_in): name for name, probe in PROBES.items()}
    return [*PROBES] if ALL_RUN else [*last.values()]


@pytest.mark.parametrize("name", of_each_repair())
def test_the_repair_alone_is_right(name: str) -> None:
    skip_without_gpu(name)
    assert with_repair(PROBES[name]) == ""


def test_iree_still_pairs_summed_dims_by_their_places() -> None:
    """What attn-order-products is for, where IREE lowers vectors."""
    same, turned = ("abxz", "abyz", "xyz"), ("abxz", "bayz", "xyz")
    assert error_of((*same, "xyzab"), same, rewritten=False) < 1e-6
    assert error_of((*turned, "xyzab"), turned, rewritten=False) > 1e-3, (
        "IREE no longer pairs summed dims by their places: attn-order-products "
        "(attnpass/repair/order_products.py) can go"
    )
    assert error_of((*turned, "xyzab"), turned) < 1e-6


def test_iree_still_counts_summed_dims_once() -> None:
    """Where one factor lacks one, as where its lowering takes a leading dim of size one away."""
    units = {"a": 1, "b": 3, "x": 2, "y": 3}
    dims, given = ("abx", "bay", "xy", "abxy"), ("bx", "bay", "xy")
    assert not error_of(dims, given, rewritten=False, extents=units) < 1e-3, (
        "IREE no longer counts summed dims once for both factors: a part of attn-order-products "
        "(attnpass/repair/order_products.py) can go"
    )
    assert error_of(dims, given, extents=units) < 1e-6


@pytest.mark.skipif(RACES not in os.environ, reason=f"takes minutes: {RACES}=1 runs it")
def test_iree_still_copies_functions_that_other_threads_rewrite() -> None:
    """One import of FlexAttention in a hundred fails where the machine is busy."""

    def fails(_: int) -> bool:
        try:
            compile_str(FLEX, extra_args=["--compile-to=input", "--iree-input-type=torch"])
        except CompilerToolError:
            return True
        return False

    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        assert any(pool.map(fails, range(TRIES))), (
            "IREE no longer rewrites FlexAttention's functions while it copies them: the import "
            "by one thread (attnpass/driver/session.py) can go"
        )


def test_every_repair_has_a_probe_or_a_reason() -> None:
    probed = {probe.repair for probe in PROBES.values()}
    mending = {name for name in REGISTRY if load_pass(name).mends}
    because = {name for step in STEPS for name in step.passes if "IREE" in _reason(step, name)}
    in_room = {name for name, path in REGISTRY.items() if ".repair." in path}
    assert (mending | because | in_room) - probed == {*NOT_PROBED}
    assert not probed & {*NOT_PROBED}


def _reason(step: Step, name: str) -> str:
    return reason_of(load_pass(name)) if step.name in FAMILIES else step.why


def test_every_file_of_repairs_is_a_pass() -> None:
    """So that the test above knows of all of them."""
    folder = Path(__file__).parents[2] / "attnpass" / "repair"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert files == {
        path.partition(":")[0].rpartition(".")[2]
        for path in REGISTRY.values()
        if ".repair." in path
    }
