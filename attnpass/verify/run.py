"""Runs the compiled modules in a verification folder and compares what they compute.

    python run.py FOLDER

Needs iree-base-runtime and numpy and nothing else of this package: attn-verify puts a copy of
this file, and of attn-tune's measure.py, into each folder, so that a machine that has the device
but no compiler can run it.

Each module runs in a process of its own, with a time limit. Results go to `results/`, one file a
module as soon as it is done: a second run goes on where the first one was stopped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from ..tuning import measure
else:
    import measure

FORMAT = "attnpass-verification"
# A single row may be off by so many times what the whole may.
ROW_FACTOR = 10


def run_all(
    folder: Path, time_limit: float, quiet: bool = False, jobs: Sequence[str] = ()
) -> dict[str, int]:
    """Runs the compiled jobs (of those named) that have no result yet; returns how many of each
    status there are. FolderError where the device cannot be opened."""
    manifest = measure.read_manifest(folder, FORMAT, "verification")
    (folder / "results").mkdir(exist_ok=True)
    # Unless they are named, those of the reference: they were run where they were compiled.
    wanted = [job for job in manifest["jobs"] if (job["id"] in jobs if jobs else not job["writes"])]
    wanted = [job for job in wanted if job["status"] == "compiled"]
    waiting = [job for job in wanted if not _result(folder, job["id"])]
    progress = measure.Progress("run", len(waiting), quiet)
    try:
        for driver in {job["driver"] for job in waiting}:
            device = ask(folder, {"job": "device", "driver": driver}, time_limit)
            if "device" not in device:
                why = device.get("reason", "no answer")
                raise measure.FolderError(folder, f"the device cannot be opened: {why}")
        for job in waiting:
            result = ask(folder, {"job": "run", "id": job["id"]}, time_limit)
            measure.write_json(_path(folder, job["id"]), result)
            progress.step(f"{job['title']}: {result['status']}")
    finally:
        progress.stop()
    counts: dict[str, int] = {}
    for job in wanted:
        status = _result(folder, job["id"])["status"]
        counts[status] = counts.get(status, 0) + 1
    return counts


def ask(folder: Path, job: dict[str, Any], time_limit: float) -> dict[str, Any]:
    """What a worker's job gave, in a process of its own."""
    worker = measure.Worker(folder, time_limit, str(folder / "run.py"))
    try:
        return worker.ask(job, time_limit)
    finally:
        worker.close()


def _path(folder: Path, job: str) -> Path:
    return folder / "results" / f"{job}.json"


def _result(folder: Path, job: str) -> dict[str, Any]:
    found = measure.read_json(_path(folder, job))
    return found if isinstance(found, dict) and "status" in found else {}


# ----- the worker


def work(folder: Path) -> None:
    """Runs the jobs of a folder that it is told, as `measure.answer_jobs` reads them."""
    manifest = measure.read_manifest(folder, FORMAT, "verification")
    jobs = {job["id"]: job for job in manifest["jobs"]}
    measure.answer_jobs(
        {
            "device": lambda job: {"device": _device(job["driver"])},
            "run": lambda job: _run(folder, jobs[job["id"]]),
        }
    )


def _device(driver: str) -> str:
    from iree import runtime

    return measure.device_name(driver, runtime.Config(driver))


def _run(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Makes the calls of a job, one after the other in one context, and compares what they
    return with files, or writes it there."""
    from iree import runtime

    config = runtime.Config(job["driver"])
    functions = measure.load_functions(config, folder / job["file"])
    answer: dict[str, Any] = {
        "status": "right",
        "device": measure.device_name(job["driver"], config),
    }
    answer["values"] = []
    for call in job["calls"]:
        given = [_given(config, folder, value) for value in call["inputs"]]
        results = functions[call["function"]](*given)
        results = list(results) if isinstance(results, tuple | list) else [results]
        for value, result in zip(call["outputs"], results, strict=True):
            bits = _bits(result, value)
            if job["writes"]:
                _save(folder / value["path"], bits)
                continue
            found = compare(bits, _load(folder / value["path"]), value["element"], value["limit"])
            answer["values"].append({"name": value["name"], **found})
    if not all(value["status"] == "right" for value in answer["values"]):
        answer["status"] = "wrong"
    return answer


def _given(config: Any, folder: Path, value: dict[str, Any]) -> Any:
    bits = _load(folder / value["path"])
    if value["scalar"]:
        return bits.item()
    return measure.to_device(config.device, bits, value["element"])


def _bits(result: Any, value: dict[str, Any]) -> Any:
    """A result as an array that any numpy can keep."""
    import numpy as np

    if value["scalar"]:
        return np.asarray(result)
    array = np.asarray(result.to_host())
    if value["element"] == "bf16":
        return array.view(np.uint16)
    return array.view(np.uint8) if value["element"].startswith("f8") else array


def _load(path: Path) -> Any:
    import numpy as np

    return np.load(path)


def _save(path: Path, bits: Any) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, bits)


def compare(got: Any, want: Any, element: str, limit: float) -> dict[str, Any]:
    """How far a result is from what it should be: `error` is the relative L2 error of floats, and
    the share of integers that differ; `row` that of the worst row, over the larger of its norm and
    the rows' mean norm. Where the reference is not finite, anything goes."""
    import numpy as np

    if got.shape != want.shape:
        return {"status": "wrong", "error": math.inf, "reason": f"shape {list(got.shape)}"}
    if not element.startswith(("f", "bf")):
        share = float(np.mean(got != want)) if want.size else 0.0
        return {"status": "wrong" if share else "right", "error": share}
    found, right = (measure.decoded(bits, element).reshape(want.shape) for bits in (got, want))
    finite = np.isfinite(right)
    lost = finite & ~np.isfinite(found)
    if lost.any():
        reason = f"{int(lost.sum())} of {lost.size} numbers are not finite"
        return {"status": "wrong", "error": math.inf, "reason": reason}
    found, right = (np.where(finite, array, 0.0) for array in (found, right))
    error, row = _errors(np.atleast_1d(found - right), np.atleast_1d(right))
    wrong = error > limit or row > ROW_FACTOR * limit
    return {"status": "wrong" if wrong else "right", "error": error, "row": row}


def _errors(off: Any, right: Any) -> tuple[float, float]:
    import numpy as np

    if not right.size:
        return 0.0, 0.0
    rows, norms = np.linalg.norm(off, axis=-1), np.linalg.norm(right, axis=-1)
    whole, norm = np.linalg.norm(rows), np.linalg.norm(norms)
    if not norm:
        return float(whole), float(whole)
    return float(whole / norm), float((rows / np.maximum(norms, norms.mean())).max())


def main() -> int:
    return measure.script_main("run.py", "a module", run_all, work, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
