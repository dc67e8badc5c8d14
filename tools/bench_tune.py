"""What attn-tune gains over the built-in configurations, on a CUDA GPU or on this CPU.

    python tools/bench_tune.py compile build/tune --device=cuda      (needs attnpass)
    python build/tune/measure.py build/tune     (needs the device, numpy, iree-base-runtime)
    python tools/bench_tune.py read build/tune --json tools/results/tune_h200.json --page=tune

`compile` writes a model of a few attentions and makes a tuning folder of it, for attn-compile
and for plain iree-compile. `read` takes the results of one or more such folders; groups whose
last round is missing are left out. `--page` names a table in docs/tuning.md to write: tune or
tune-cpu.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from doc_blocks import text_table, write_block

# Type, then for each attention a name, heads, rows, keys, head dim.
CASES = {
    "cuda": (
        "f16",
        ("prefill", 32, 4096, 4096, 128),
        ("prefill_narrow", 32, 4096, 4096, 64),
        ("short", 32, 1024, 1024, 128),
        ("decode", 32, 1, 16384, 128),
    ),
    "llvm-cpu": ("f32", ("prefill", 8, 512, 512, 64), ("decode", 8, 4, 4096, 128)),
}
_FLAGS = {"cuda": ["--iree-cuda-target=sm_80"], "llvm-cpu": []}
_MAPS = ("b, m, k1", "b, k2, k1", "b, k2, n", "", "b, m, n")


def function(kind: str, name: str, heads: int, rows: int, keys: int, head: int) -> str:
    """One attention of an element type as a function, MLIR text."""
    query = f"tensor<{heads}x{rows}x{head}x{kind}>"
    key = f"tensor<{heads}x{keys}x{head}x{kind}>"
    maps = ", ".join(f"affine_map<(b, m, n, k1, k2) -> ({dims})>" for dims in _MAPS)
    return f"""
func.func @{name}(%q: {query}, %k: {key}, %v: {key}) -> {query} {{
  %scale = arith.constant {head**-0.5} : f32
  %empty = tensor.empty() : {query}
  %r = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins(%q, %k, %v, %scale : {query}, {key}, {key}, f32) outs(%empty : {query}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {query}
  return %r : {query}
}}
"""


def compile_all(folder: Path, device: str, candidates: int) -> None:
    """Makes the tuning folder, with so many candidates of each attention."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.mlir"
    kind, *cases = CASES[device]
    model.write_text("".join(function(kind, *case) for case in cases))
    command = [sys.executable, "-m", "attnpass.cli.attn_tune", str(model), f"--device={device}"]
    command += [*_FLAGS[device], "--compile-only", f"--folder={folder}"]
    subprocess.run([*command, f"--max-candidates={candidates}"], check=True)


def read_all(folders: list[Path]) -> list[dict[str, Any]]:
    """One row for each group that was measured to the end."""
    from attnpass.tuning.finish import measured, outcomes
    from attnpass.tuning.folder import load_manifest

    rows: list[dict[str, Any]] = []
    for folder in folders:
        manifest = load_manifest(folder)
        ended = {path.stem for path in (folder / "results").glob("final-*.json")}
        manifest.runs = [run for run in manifest.runs if f"final-{run.group}" in ended]
        found = outcomes(manifest, folder)
        for output, groups in manifest.groups.items():
            for outcome in (found[group] for group in groups if group in found):
                operands = outcome.problem["attention"]["operands"]
                row = {"query": operands["query"]["type"], "key": operands["key"]["type"]}
                row |= {"target": outcome.problem["target"], "for": output}
                if outcome.best is not None:
                    row |= {"choice": outcome.best.choice, **measured(outcome)}
                rows.append({**row, "checked": outcome.checked, "right": len(outcome.errors)})
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """The table for docs/tuning.md."""
    lines = []
    for row in rows:
        shape = row["query"].removeprefix("tensor<").removesuffix(">")
        keys = row["key"].split("x")[-3]
        gains = [row[name] / row["ms"] for name in ("ms_built_in", "ms_iree")]
        lines.append(
            [
                f"{shape}, {keys} keys",
                row["for"],
                row["choice"],
                *(f"{row[name]:.3f}" for name in ("ms", "ms_built_in", "ms_iree")),
                *(f"{gain:.2f}" for gain in gains),
                f"{row['error']:.1e}",
                f"{row['right']} of {row['checked']}",
            ]
        )
    head = ["query", "for", "choice", "ms", "built-in", "IREE's own"]
    head += ["over built-in", "over IREE's", "error", "right"]
    return text_table(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "read"))
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--json", type=Path, default=Path("tune.json"))
    parser.add_argument("--device", choices=tuple(CASES), default="cuda")
    parser.add_argument("--page", choices=("tune", "tune-cpu"))
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folders[0], arguments.device, arguments.candidates)
        return
    rows = read_all(arguments.folders)
    arguments.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    if arguments.page:
        write_block("tuning.md", arguments.page, page(rows))


if __name__ == "__main__":
    main()
