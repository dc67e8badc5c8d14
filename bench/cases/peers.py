"""Attention on a Hopper GPU beside cuDNN (its own attention for e4m3, where its frontend is there),
all rows in one run of two minutes: modules and measurements as in the bench `kernels`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from bench.attention_case import Case, listed_cases
from bench.cases import kernels
from bench.results import Row

compile, settings = kernels.compile, kernels.settings


def cases() -> list[Case]:
    return listed_cases(Path(__file__).with_suffix(".txt"))


def run(folder: Path, case: Case, options: argparse.Namespace) -> Iterator[Row]:
    yield from kernels.run(folder, case, options, beside=("cuDNN",))
