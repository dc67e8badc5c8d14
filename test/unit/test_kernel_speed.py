"""The rule that takes kernels where they win, held against what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from attnpass.kernels.hopper.manifest import Kernel, load_kernels
from attnpass.kernels.hopper.speed import Work, iree_seconds, kernel_seconds
from attnpass.machines import named_target
from bench.results import load

RESULTS = load("kernels_h200")
ROWS: dict[str, dict[str, Any]] = {
    case: RESULTS.cases[case] | ways["iree"]
    for case, ways in RESULTS.by_case().items()
    if "ms" in ways["iree"]
}
PAIRS = [
    (row, ROWS[f"{case}_own_configured"])
    for case, row in ROWS.items()
    if f"{case}_own_configured" in ROWS
]


def _kernel(row: dict[str, Any]) -> Kernel:
    return next(kernel for kernel in load_kernels() if kernel.name == row["kernel"])


def _work(row: dict[str, Any]) -> Work:
    width = 1 if (row["cache"] or row["dtype"]).startswith("f8") else 2
    head_dims = row["head"] + (row.get("value_head") or row["head"])
    return Work(row["heads"], row["group"], row["rows"], row["keys"], head_dims, width)


def test_there_are_pairs() -> None:
    assert len(PAIRS) > 20


@pytest.mark.parametrize(("row", "own"), PAIRS, ids=lambda row: row["case"])
def test_the_rule_takes_the_faster(row: dict[str, Any], own: dict[str, Any]) -> None:
    """Where the rule errs, what it takes is at most a quarter slower, or 3 us."""
    work, target = _work(row), named_target("sm_90")
    taken = kernel_seconds(work, _kernel(row), target) < iree_seconds(work)
    kernel, iree = row["ms"], own["ms"]
    chosen, other = (kernel, iree) if taken else (iree, kernel)
    assert chosen < 1.25 * other or chosen < other + 0.003


def test_the_manifest_has_the_measured_speed() -> None:
    row = ROWS["f16_32x1_1x65536_d128"]
    kernel = _kernel(row)
    speed = kernel.measured_work / kernel.measured_seconds
    assert speed > row["GBps"] * 0.999e9
    assert "GB/s at f16_" in kernel.measured
