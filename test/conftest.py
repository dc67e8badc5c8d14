"""What Python's tests share: compiles by commands that are loaded once, the rule that each pass
says what it has changed, numbers of PyTorch that no other test changes, and hypothesis profiles:
the same few examples each time, or, with ATTNPASS_EXAMPLES=<count> in the environment, that many
random ones per property."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

# Before numpy and PyTorch are loaded. Their threads wait for the next product at work: one of
# numpy then takes 35 ms of the cores that other tests need, in place of one.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import pytest
import warm
from helpers import verified
from hypothesis import HealthCheck, settings

from attnpass.driver import tools
from attnpass.passes import REGISTRY
from attnpass.report.records import Report, report_from_dict

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "same", derandomize=True, max_examples=30, deadline=None, suppress_health_check=slow
)
settings.load_profile("same")

if "ATTNPASS_EXAMPLES" in os.environ:
    settings.register_profile(
        "more",
        max_examples=int(os.environ["ATTNPASS_EXAMPLES"]),
        deadline=None,
        suppress_health_check=slow,
    )
    settings.load_profile("more")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What tests import stays, so the collector looks through it at no time: of PyTorch and JAX
    that takes a third of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """What a test draws from PyTorch does not depend on which tests its process ran before."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)


def _attn_compile(*arguments: str) -> list[str]:
    """The command of `attnpass.compile_str`."""
    return [*warm.command("attn-compile"), *arguments, *verified()]


tools.attn_compile_command = _attn_compile


def _told_report(data: dict[str, Any]) -> Report:
    """The report of a compile, in which each pass of ours that changed the module has a record."""
    report = report_from_dict(data)
    told = {one.pass_name for one in report.records}
    told |= {one.pass_name for attention in report.attentions for one in attention.operands}
    changed = {step.name for step in report.steps if step.changed}
    silent = {name for name in changed - told if name in REGISTRY}
    assert not silent, f"changed the module without a record: {silent}"
    return report


tools.report_from_dict = _told_report
