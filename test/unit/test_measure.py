"""The script of a tuning folder: types, the reference, and a worker that does not answer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from attnpass.tuning import measure

TYPES = {
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, np.uint8),
    "f8E5M2": (ml_dtypes.float8_e5m2, np.uint8),
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_that_numpy_lacks(kind: str) -> None:
    """Rounding as ml_dtypes does it, for numbers of all sizes that the type has."""
    known, bits = TYPES[kind]
    random = np.random.default_rng(1)
    values = random.standard_normal(20000).astype(np.float32)
    values *= np.exp2(random.integers(-12, 7, values.shape)).astype(np.float32)
    wanted = values.astype(known)
    np.testing.assert_array_equal(
        measure.decoded(measure.encoded(values, kind), kind), wanted.astype(np.float64)
    )
    np.testing.assert_array_equal(
        measure.decoded(wanted.view(bits), kind), wanted.astype(np.float64)
    )


def problem(operands: dict[str, tuple[str, list[int | None]]], **sizes: int) -> dict:
    """A problem over the dims batch 0, group 1, rows 2, n 3, k1 4, keys 5."""
    names = ("batch", "group", "rows", "n", "k1", "keys")
    return {
        "key": "ab12",
        "sizes": [sizes[name] for name in names],
        "scale": 0.5,
        "dims": {"batch": [0], "m": [1, 2], "k1": [4], "k2": [5], "n": [3]},
        "attention": {"operands": {name: {"map": dims} for name, (_, dims) in operands.items()}},
        "elements": {name: kind for name, (kind, _) in operands.items()},
    }


def test_reference_of_any_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grouped queries, transposed V and results, a mask of bits that all batches share."""
    monkeypatch.setattr(measure, "_BLOCK_SCORES", 40)
    given = problem(
        {
            "query": ("f32", [2, 0, 1, 4]),
            "key": ("f32", [5, 0, 4]),
            "value": ("f32", [0, 3, 5]),
            "mask": ("i1", [None, 2, 5]),
            "output": ("f16", [0, 2, 1, 3]),
        },
        batch=2,
        group=3,
        rows=5,
        n=4,
        k1=8,
        keys=7,
    )
    query, key, value, mask = measure.inputs(given)
    assert [array.shape for array in (query, key, value, mask)] == [
        (5, 2, 3, 8),
        (7, 2, 8),
        (2, 4, 7),
        (1, 5, 7),
    ]
    q, k, v = (array.astype(np.float64) for array in (query, key, value))
    scores = np.einsum("mbgd,kbd->bgmk", q, k) * 0.5
    scores = np.where(mask[0], scores, -np.inf)
    weights = np.exp(scores)
    wanted = np.einsum("bgmk,bnk->bgmn", weights / weights.sum(-1, keepdims=True), v)
    output, state = measure.reference(given, [query, key, value, mask])
    np.testing.assert_allclose(output, wanted.reshape(2, 15, 4), rtol=1e-12)
    sums = np.log2(weights.sum(-1)).reshape(2, 15)
    np.testing.assert_allclose(state, sums, rtol=1e-12, atol=1e-12)
    stored = wanted.transpose(0, 2, 1, 3).astype(np.float16)
    got, none = measure.canonical(given, [stored])
    assert none is None
    np.testing.assert_allclose(got, wanted.reshape(2, 15, 4), rtol=1e-3, atol=1e-4)


def test_inputs_are_the_same_anywhere() -> None:
    """The reference and the candidates of one problem may come from different processes."""
    dims = {"query": ("f16", [0, 2, 4]), "key": ("bf16", [0, 5, 4]), "value": ("f32", [0, 5, 3])}
    given = problem(dims, batch=2, group=1, rows=5, n=4, k1=8, keys=7)
    for one, other in zip(measure.inputs(given), measure.inputs(given), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(measure.inputs({**given, "key": "ab13"})[0], measure.inputs(given)[0])


WORKER = """\
import json, os, sys, time
for line in sys.stdin:
    what = json.loads(line)["job"]
    if what == "abort":
        print("it went wrong", file=sys.stderr, flush=True)
        os.abort()
    if what == "sleep":
        time.sleep(60)
    answer = {"status": "right", "pid": os.getpid(), "restart": what == "poison"}
    print(json.dumps(answer), flush=True)
"""


def test_worker_that_crashes_or_hangs(tmp_path: Path) -> None:
    """Each costs only itself: the next job goes to a new process."""
    (tmp_path / "worker.py").write_text(WORKER)
    worker = measure.Worker(tmp_path, 30, str(tmp_path / "worker.py"))
    try:
        first = worker.ask({"job": "fine"}, 30)
        assert worker.ask({"job": "fine"}, 30) == first
        crashed = worker.ask({"job": "abort"}, 30)
        assert crashed == {"status": "crashed", "reason": "signal 6: it went wrong"}
        second = worker.ask({"job": "fine"}, 30)
        assert second["status"] == "right" and second["pid"] != first["pid"]
        late = worker.ask({"job": "sleep"}, 0.2)
        assert late == {"status": "late", "reason": "no end within 0.2 s"}
        third = worker.ask({"job": "poison"}, 30)
        assert third["pid"] != second["pid"]
        assert worker.ask({"job": "fine"}, 30)["pid"] != third["pid"]
    finally:
        worker.close()


def test_nan_is_wrong() -> None:
    dims = {"query": ("f32", [0, 2, 4]), "key": ("f32", [0, 5, 4]), "value": ("f32", [0, 5, 3])}
    given = problem(
        {**dims, "output": ("f32", [0, 2, 3])}, batch=1, group=1, rows=5, n=4, k1=8, keys=7
    )
    arrays = measure.inputs(given)
    right = measure.reference(given, arrays)
    bench = measure.Bench(Path(), {"problems": [], "runs": []})
    bench._right = right
    good = right[0].reshape(1, 5, 4).astype(np.float32)
    assert bench._check(given, [good])["status"] == "right"
    for value in (math.nan, math.inf, 0.0):
        bad = good.copy()
        bad[0, 3, 1] = value
        assert bench._check(given, [bad])["status"] == "wrong", value


def test_a_wrong_row_among_many() -> None:
    """An error of one row that is lost in the error of all."""
    dims = {"query": ("f16", [0, 2, 4]), "key": ("f16", [0, 5, 4]), "value": ("f16", [0, 5, 3])}
    operands = {**dims, "output": ("f16", [0, 2, 3])}
    given = problem(operands, batch=1, group=1, rows=200000, n=4, k1=2, keys=2)
    right = measure.reference(given, measure.inputs(given))
    bench = measure.Bench(Path(), {"problems": [], "runs": []})
    bench._right = right
    rows = right[0].reshape(1, -1, 4).astype(np.float16)
    rows[0, 77] = 0
    answer = bench._check(given, [rows])
    assert answer["status"] == "wrong" and answer["error"] < measure.tolerance(given)


def test_damaged_folder(tmp_path: Path) -> None:
    for text in ("", "[]", '{"format": "attnpass-tuning", "version": 0}'):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(measure.FolderError, match=r"manifest\.json"):
            measure.read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": measure.FORMAT, "version": 1}))
    assert measure.read_manifest(tmp_path)["version"] == 1
