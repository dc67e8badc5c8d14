"""Checks score functions on a CUDA GPU, compiled by iree-compile and by attn-compile.

    python tools/check_scores.py compile build/scores              (needs attnpass; no GPU)
    python tools/check_scores.py run build/scores --json out.json  (needs a GPU, numpy and
                                                                    iree-base-runtime only)

The cases are those of test/e2e/attention_case.py, in f16; errors are relative to float64.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from iree_device import load, to_iree

# pyright: reportMissingImports=false
# (attention_case is found when the tool runs)

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
SCORES = ("", "cap", "square", "alibi", "capped causal")


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each case and compiler, and the inputs and the answer of each case."""
    sys.path.insert(0, str(ROOT / "test" / "e2e"))
    from attention_case import Case

    folder.mkdir(parents=True, exist_ok=True)
    failed = {}
    for score, online, mask in itertools.product(SCORES, (False, True), ("", "i1")):
        case = Case(2, 64, 80, 64, kind="f16", mask=mask, online=online, score=score)
        words = (score or "identity", "online" if online else "attention", mask or "none")
        name = "-".join(words).replace(" ", "_")
        np.savez(folder / f"{name}.npz", *case.inputs(), wanted=case.wanted())
        for tool in ("attnpass",) if mask else ("iree", "attnpass"):
            try:
                (folder / f"{name}.{tool}.vmfb").write_bytes(_compile(case.text("main"), tool))
            except RuntimeError:
                failed[f"{name}.{tool}"] = "does not compile"
    (folder / "failed.json").write_text(json.dumps(failed))


def _compile(text: str, tool: str) -> bytes:
    from iree.compiler.tools import CompilerToolError, compile_str

    import attnpass

    try:
        if tool == "iree":
            data = compile_str(text, extra_args=FLAGS)
        else:
            data = attnpass.compile_str(text, mode="cost", extra_args=FLAGS)
    except CompilerToolError as problem:
        raise RuntimeError(str(problem)) from None
    assert data is not None
    return data


def run_all(folder: Path, path: Path) -> None:
    from iree import runtime

    config = runtime.Config("cuda")
    errors = json.loads((folder / "failed.json").read_text())
    for file in sorted(folder.glob("*.vmfb")):
        name = file.name.removesuffix(".vmfb")
        case = np.load(folder / f"{name.partition('.')[0]}.npz")
        inputs = [case[key] for key in case.files if key != "wanted"]
        device = [to_iree(config.device, array) for array in inputs]
        found = load(config, file)["main"](*device)
        parts = found if isinstance(found, tuple | list) else [found]
        output, *state = (np.array(part.to_host()).astype(np.float64) for part in parts)
        output = output / state[1][:, :, None] if state else output
        wanted = case["wanted"]
        error = np.linalg.norm(output - wanted) / np.linalg.norm(wanted)
        errors[name] = float(f"{error:.2e}")
        print(name, errors[name], flush=True)
    path.write_text(json.dumps({"errors": dict(sorted(errors.items()))}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("scores.json"))
    options = parser.parse_args()
    if options.command == "compile":
        compile_all(options.folder)
    else:
        run_all(options.folder, options.json)


if __name__ == "__main__":
    main()
