"""Checks score functions, compiled by iree-compile and by attn-compile, on a CUDA GPU or a CPU.

    python tools/check_scores.py compile build/scores              (needs attnpass; no GPU)
    python tools/check_scores.py run build/scores --json out.json  (needs a GPU, numpy and
                                                                    iree-base-runtime only)
    python tools/check_scores.py page

With `--device=llvm-cpu` both run on the CPU. `page` writes the table of docs/scores.md from
tools/results/. The cases are those of test/e2e/attention_case.py, in f16 (on CPUs in f32), and
FlexAttention as torch writes it; errors are relative to float64.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from doc_blocks import RESULTS, table, write_block
from iree_device import load, to_iree

# pyright: reportMissingImports=false
# (attention_case is found when the tool runs)

ROOT = Path(__file__).resolve().parent.parent
FLAGS = {
    "cuda": ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
    "llvm-cpu": [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
    ],
}
DRIVERS = {"cuda": "cuda", "llvm-cpu": "local-task"}
# Heads, rows, keys, head dim and type.
SHAPES = {"cuda": (2, 64, 80, 64, "f16"), "llvm-cpu": (2, 24, 40, 16, "f32")}
SCORES = {
    "": "identity",
    "cap": "soft-cap, `c * tanh(s / c)`",
    "square": "`s * s`",
    "alibi": "ALiBi",
    "causal": "causal",
    "capped causal": "causal over a soft-cap",
}
FLEX = "flex"
FLEX_TITLE = "FlexAttention as torch 2.13 writes it, soft-cap 1, causal"


def compile_all(folder: Path, device: str) -> None:
    """Writes a .vmfb for each case and compiler, and the inputs and the answer of each case."""
    sys.path.insert(0, str(ROOT / "test" / "e2e"))
    import test_scores
    from attention_case import Case

    folder.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}

    def compile_case(name: str, text: str, tools: tuple[str, ...]) -> None:
        for tool in tools:
            try:
                (folder / f"{name}.{tool}.vmfb").write_bytes(_compile(text, tool, device))
            except RuntimeError:
                failed[f"{name}.{tool}"] = "does not compile"

    *sizes, kind = SHAPES[device]
    for score, online, mask in itertools.product(SCORES, (False, True), ("", "i1")):
        case = Case(*sizes, kind=kind, mask=mask, online=online, score=score)
        name = _name(score, "online" if online else "attention", mask)
        np.savez(folder / f"{name}.npz", *case.inputs(), wanted=case.wanted())
        compile_case(name, case.text("main"), ("attnpass",) if mask else ("iree", "attnpass"))
    if kind == "f32":
        inputs, wanted = test_scores.flex_case()
        np.savez(folder / f"{FLEX}.npz", *inputs, wanted=wanted)
        compile_case(FLEX, test_scores.FLEX, ("iree", "attnpass"))
    (folder / "failed.json").write_text(json.dumps(failed))


def _name(score: str, form: str, mask: str) -> str:
    return "-".join((score or "identity", form, mask or "none")).replace(" ", "_")


def _compile(text: str, tool: str, device: str) -> bytes:
    from iree.compiler.tools import CompilerToolError, compile_str

    import attnpass

    try:
        if tool == "iree":
            data = compile_str(text, extra_args=FLAGS[device])
        else:
            data = attnpass.compile_str(text, mode="cost", extra_args=FLAGS[device])
    except CompilerToolError as problem:
        raise RuntimeError(str(problem)) from None
    assert data is not None
    return data


def run_all(folder: Path, path: Path, device: str) -> None:
    from iree import runtime

    config = runtime.Config(DRIVERS[device])
    errors = json.loads((folder / "failed.json").read_text())
    for file in sorted(folder.glob("*.vmfb")):
        name = file.name.removesuffix(".vmfb")
        case = np.load(folder / f"{name.partition('.')[0]}.npz")
        inputs = [case[key] for key in case.files if key != "wanted"]
        on_device = [to_iree(config.device, array) for array in inputs]
        found = load(config, file)["main"](*on_device)
        parts = found if isinstance(found, tuple | list) else [found]
        output, *state = (np.array(part.to_host()).astype(np.float64) for part in parts)
        output = output / state[1][:, :, None] if state else output
        wanted = case["wanted"]
        error = np.linalg.norm(output - wanted) / np.linalg.norm(wanted)
        errors[name] = float(f"{error:.2e}")
        print(name, errors[name], flush=True)
    path.write_text(json.dumps({"errors": dict(sorted(errors.items()))}, indent=1) + "\n")


def page() -> str:
    """The errors on a CPU by score function, attnpass's the largest of all forms."""
    errors = json.loads((RESULTS / "scores_cpu.json").read_text())["errors"]
    lines = []
    for score, title in SCORES.items():
        ours = [
            errors[f"{_name(score, form, mask)}.attnpass"]
            for form, mask in itertools.product(("attention", "online"), ("", "i1"))
        ]
        stock = errors[f"{_name(score, 'attention', '')}.iree"]
        lines.append([title, _shown(stock), _shown(max(ours))])
    flex = [_shown(errors[f"{FLEX}.{tool}"]) for tool in ("iree", "attnpass")]
    heads, rows, keys, head, kind = SHAPES["llvm-cpu"]
    words = f"{kind}, {heads} heads of {head}, {rows} rows and {keys} keys"
    return (
        table(
            ["llvm-cpu, error against float64", "IREE", "attnpass"], [*lines, [FLEX_TITLE, *flex]]
        )
        + f"\n{words}: `attention` and `online_attention`, with and without a mask; the largest "
        "error of attnpass, IREE's of `attention` without a mask.\n"
    )


def _shown(error: Any) -> str:
    return error if isinstance(error, str) else f"{error:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("compile", "run", "page"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/scores"))
    parser.add_argument("--json", type=Path, default=Path("scores.json"))
    parser.add_argument("--device", choices=tuple(FLAGS), default="cuda")
    options = parser.parse_args()
    if options.command == "compile":
        compile_all(options.folder, options.device)
    elif options.command == "run":
        run_all(options.folder, options.json, options.device)
    else:
        write_block("scores.md", "scores", page())


if __name__ == "__main__":
    main()
