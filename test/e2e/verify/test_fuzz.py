"""A bounded part of tools/fuzz.py: one module of random graphs for each target and level."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest
from attention_form import SCALE, Form
from fuzz_graphs import (
    FAMILIES,
    ROUNDING_FACTOR,
    graph_of,
    graph_of_products,
    relative_error,
)
from interpreter import Machine
from iree.compiler import ir

TOOL = Path(fuzz.__file__)
TARGETS = ("llvm-cpu-generic", "llvm-cpu-host")
MODULES = [(TARGETS[place % 2], level) for place, level in enumerate(fuzz.LEVELS)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *arguments], capture_output=True, text=True, timeout=600, check=False
    )


def all_right(out: Path, *arguments: str) -> dict[str, Any]:
    """What a run has found; nothing bad."""
    done = run(*arguments, f"--out={out}")
    found = json.loads(out.read_text())
    bad = [record for record in found["found"] if fuzz.KINDS.index(record["kind"]) >= fuzz.BAD]
    assert not bad, "\n".join(f"{r['kind']}: {r['command']}: {r['detail']}" for r in bad)
    assert done.returncode == 0, done.stderr
    assert sum(found["counts"]["right"].values()) >= 3
    return found


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_graphs_are_right(number: int, tmp_path: Path) -> None:
    """Nothing is wrong without a word, and all compiles that iree-compile compiles."""
    target, level = MODULES[number]
    out = tmp_path / "fuzz.json"
    shard = f"--shard={number}/{len(MODULES)}"
    arguments = (f"--target={target}", f"--level={level}", shard, "--batches=1", "--batch=5")
    found = all_right(out, *arguments)
    assert found["runs"] == found["graphs"] >= 4
    if not number:
        # All is done: nothing runs again.
        run(*arguments, f"--out={out}")
        assert json.loads(out.read_text())["cpu_seconds"] == found["cpu_seconds"]


def test_products_are_right(tmp_path: Path) -> None:
    """One of each kind of program."""
    flags = ("--products", "--target=llvm-cpu-host", "--level=O2", "--seeds=4,5,6,8")
    found = all_right(tmp_path / "fuzz.json", *flags)
    assert found["runs"] == 4
    texts = [graph_of_products(seed).text for seed in (4, 5, 6, 8)]
    assert all("arith.truncf" in text for text in texts)
    assert "iree_linalg_ext.attention" in texts[-1]


def test_a_seed_gives_the_same_graph() -> None:
    for seed in range(len(FAMILIES)):
        one, other = graph_of(seed), graph_of(seed)
        assert (one.text, one.family) == (other.text, FAMILIES[seed])
        for wanted, again in zip(one.wanted, other.wanted, strict=True):
            assert all(map(np.array_equal, wanted, again))


@pytest.mark.parametrize("factor", [1 + 1e-7, 1.5, np.nan])
def test_wrong_results_are_told_from_right_ones(factor: float) -> None:
    graph = graph_of(3)
    results = [array * factor for array in graph.wanted[0]]
    is_right = graph.error(0, results) <= graph.tolerance("llvm-cpu-host")
    assert is_right == (factor < 1 + 1e-6)


def test_what_a_row_without_keys_holds_is_not_compared() -> None:
    wanted = np.array([1.0, np.nan, 2.0])
    assert relative_error(np.array([1.0, 5.0, 2.0]), wanted) == 0
    assert relative_error(np.array([1.0, 5.0, np.inf]), wanted) == np.inf


def test_what_scores_lose_beside_large_masks_is_not_judged() -> None:
    form = Form("md", "kd", "kn", "mn", mask="mk", mask_kind="f32")
    query, key, value, mask = form.inputs()
    mask[:] = -1e4
    scores = query @ key.T * np.float32(SCALE) + mask
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result = weights @ value / weights.sum(axis=1, keepdims=True)
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(form.text("main"))
        (wanted,), (rounded,) = (
            Machine(module, rounds=rounds).call("main", [query, key, value, mask])
            for rounds in (False, True)
        )
    assert result.dtype == np.float32
    assert 2e-5 < relative_error(result, wanted) < ROUNDING_FACTOR * relative_error(rounded, wanted)


@pytest.mark.parametrize("flag", ["--target=tpu", "--level=O9", "--shard=2/2"])
def test_bad_flags(flag: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        fuzz.parse([flag])
