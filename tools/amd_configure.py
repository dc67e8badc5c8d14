"""Attention for AMD GPUs by IREE and by attnpass: are its numbers right, and what is its code?

    python tools/amd_configure.py --numbers --json tools/results/amd_numbers.json
    python tools/amd_configure.py --counts --json tools/results/amd_configure.json
    python tools/amd_configure.py --page

No AMD GPU is used. `--numbers` runs the lowered kernels in the interpreter of test/e2e, some
workgroups of each, and compares what they write with float64. `--counts` reads the registers,
spills, LDS and matrix instructions of the attention kernel in the assembly, and in its
configuration how often Q K^T is computed: once for each tile of V's columns. What a file has
already is not done again. `--page` writes the tables of docs/amd.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from amd_assembly import COMPILE_SECONDS, read_kernels, the_kernel
from doc_blocks import RESULTS, ROOT, machine, text_table, write_block

sys.path.insert(0, str(ROOT / "test" / "e2e"))
import numpy as np
from attention_case import TOLERANCE, Case, Hidden
from gpu_module import is_written, lower, run_gpu_module
from helpers import rel_error

TARGETS = ("gfx942", "gfx950", "gfx1100", "gfx1201")
FP8 = {"gfx942": "f8E4M3FNUZ", "gfx950": "f8E4M3FN", "gfx1201": "f8E4M3FN"}
VARIANTS = {"IREE": ["--attn-disable"], "attnpass": []}
NUMBERS, COUNTS = RESULTS / "amd_numbers.json", RESULTS / "amd_configure.json"
# Of the kernel that writes the result only so many workgroups are run.
SOME = 4


# Small attention, for the interpreter: 2 heads.
NUMBER_CASES = {
    "f16, 128 rows, 192 keys, d 64": Case(2, 128, 192, 64, "f16"),
    "bf16, V^T, d 128": Case(2, 64, 128, 128, "bf16", transposed="v"),
    "f16, 90 rows, 77 keys": Case(2, 90, 77, 64, "f16"),
    "f16, d 72": Case(2, 64, 128, 72, "f16"),
    "f16, d 512": Case(2, 64, 64, 512, "f16"),
    "f16, unknown number of keys (77)": Case(2, 16, 77, 64, "f16", dynamic="k"),
    "f16, mask that hides rows": Hidden(2, 64, 128, 64, "f16", "i1"),
    "f16, soft-cap": Case(2, 64, 128, 64, "f16", score="cap"),
    "f32, d 64": Case(2, 64, 128, 64, "f32"),
    "f32, d 256": Case(2, 64, 64, 256, "f32"),
    "f32, d 512": Case(2, 64, 64, 512, "f32"),
    "fp8, d 64": Case(2, 64, 128, 64, "fp8"),
    "f16, 1 row, d 128": Case(8, 1, 512, 128, "f16"),
    "f16, 1 row, d 512": Case(2, 1, 512, 512, "f16"),
    "f32, 1 row, d 512": Case(2, 1, 512, 512, "f32"),
}
# Attention of usual size, for the assembly.
COUNT_CASES = {
    "f16, 4096 rows and keys, d 64": Case(32, 4096, 4096, 64, "f16"),
    "f16, d 128": Case(32, 4096, 4096, 128, "f16"),
    "f16, d 128, 1333 rows and keys": Case(32, 1333, 1333, 128, "f16"),
    "f16, d 128, 4096 rows, 1333 keys": Case(32, 4096, 1333, 128, "f16"),
    "f16, d 72": Case(32, 4096, 4096, 72, "f16"),
    "f16, d 96": Case(32, 4096, 4096, 96, "f16"),
    "f16, d 256": Case(16, 4096, 4096, 256, "f16"),
    "f16, d 512": Case(8, 4096, 4096, 512, "f16"),
    "fp8, d 64": Case(32, 4096, 4096, 64, "fp8"),
    "fp8, d 128": Case(32, 4096, 4096, 128, "fp8"),
    "f32, d 128": Case(32, 4096, 4096, 128, "f32"),
    "f32, d 256": Case(16, 4096, 4096, 256, "f32"),
}


def compiled(target: str, case: Case, variant: str, folder: Path, *flags: str) -> Path:
    """The file that attn-compile writes; CalledProcessError if it does not compile."""
    source, result = folder / "model.mlir", folder / "result"
    source.write_text(case.text("main"))
    command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source)]
    command += ["--iree-hal-target-device=hip", f"--iree-rocm-target={target}"]
    command += [*VARIANTS[variant], *flags, "-o", str(result)]
    subprocess.run(command, check=True, timeout=COMPILE_SECONDS, capture_output=True)
    return result


def numbers(target: str, case: Case, variant: str, folder: Path) -> dict[str, Any]:
    """The relative L2 error, None for NaN."""
    path = compiled(target, case, variant, folder, "--compile-to=executable-configurations")
    with np.errstate(all="ignore"):
        (result,) = run_gpu_module(lower(path.read_text()), case.inputs(), last=SOME)
    written = is_written(result)
    error = rel_error(result.astype(np.float64)[written], case.wanted()[written])
    right = bool(error < TOLERANCE[case.kind])
    return {"error": None if np.isnan(error) else error, "right": right}


def counts(target: str, case: Case, variant: str, folder: Path) -> dict[str, Any]:
    """What the attention kernel takes."""
    compiled(
        target,
        case,
        variant,
        folder,
        f"--iree-hal-dump-executable-intermediates-to={folder}",
        f"--iree-hal-dump-executable-configurations-to={folder}/configured",
    )
    (assembly,) = folder.glob("*.rocmasm")
    kernel = the_kernel(read_kernels(assembly.read_text()), "attention")
    texts = [path.read_text() for path in (folder / "configured").iterdir()]
    (text,) = (text for text in texts if "iree_linalg_ext.online_attention" in text)
    return {
        "matrix": kernel.matrix,
        "vgprs": kernel.vgprs,
        "spills": kernel.spills,
        "lds": kernel.lds,
        "times": _times(text),
    }


def _times(text: str) -> int:
    """How many tiles there are of V's columns."""
    op = text[text.index("iree_linalg_ext.online_attention") :]
    maps = re.findall(r"affine_map<\(([^)]*)\) -> \(([^)]*)\)>", op)
    dims, value = maps[0][0].split(", "), maps[2][1].split(", ")
    n = next(dim for dim in value if all(dim not in maps[i][1].split(", ") for i in (0, 1)))
    types = re.search(r" ins\([^:]*: tensor<[^>]*>, tensor<[^>]*>, tensor<([^>]*)>", op)
    tiles = re.search(r"workgroup = \[([^\]]*)\]", text)
    assert types and tiles
    columns = int(tiles[1].split(", ")[dims.index(n)])
    return -(-int(types[1].split("x")[value.index(n)]) // columns)


Measure = Callable[[str, Case, str, Path], dict[str, Any]]


def _measured(
    measure: Measure, target: str, case: Case, variant: str, folder: Path
) -> dict[str, Any] | None:
    """None where the compiler takes longer than COMPILE_SECONDS."""
    try:
        return measure(target, case, variant, folder)
    except subprocess.TimeoutExpired:
        return None


def fill(path: Path, cases: dict[str, Case], measure: Measure) -> None:
    """Adds to a file of results what it lacks."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["target"], row["name"]) for row in rows}
    for target in TARGETS:
        for name, case in cases.items():
            if (target, name) in done or (case.kind == "fp8" and target not in FP8):
                continue
            if case.kind == "fp8":
                case = replace(case, kind=FP8[target])
            row: dict[str, Any] = {"target": target, "name": name}
            for variant in VARIANTS:
                with tempfile.TemporaryDirectory() as folder:
                    row[variant] = _measured(measure, target, case, variant, Path(folder))
            rows.append(row)
            print(row, flush=True)
            data = {"iree": machine()["iree"], "rows": rows}
            path.write_text(json.dumps(data, indent=1) + "\n")


def write_page() -> None:
    data = json.loads(NUMBERS.read_text())
    found = {(row["target"], row["name"]): row for row in data["rows"]}
    lines = [
        [name, *(_errors(found.get((target, name))) for target in TARGETS)] for name in NUMBER_CASES
    ]
    where = f"IREE {data['iree']}.\n\n"
    write_block("amd.md", "numbers", where + text_table(["attention", *TARGETS], lines))
    head = ["target", "attention", "Q K^T computed", "MFMA or WMMA", "VGPRs", "spilled"]
    head.append("LDS bytes")
    lines = [
        [row["target"], row["name"], *(_change(row, key) for key in _KEYS)]
        for row in json.loads(COUNTS.read_text())["rows"]
    ]
    write_block("amd.md", "configurations", where + text_table(head, lines))


_KEYS = ("times", "matrix", "vgprs", "spills", "lds")


def _errors(row: dict[str, Any] | None) -> str:
    """IREE's error and attnpass's; wrong numbers are bold."""
    if row is None:
        return ""
    words = []
    for variant in VARIANTS:
        error = row[variant]["error"]
        word = "NaN" if error is None else f"{error:.0e}"
        words.append(word if row[variant]["right"] else f"**{word}**")
    return words[0] if words[0] == words[1] else " → ".join(words)


def _change(row: dict[str, Any], key: str) -> str:
    values = (row[variant] for variant in VARIANTS)
    before, after = ("?" if value is None else value[key] for value in values)
    return str(before) if before == after else f"{before} → {after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write the tables of docs/amd.md")
    options = parser.parse_args()
    if options.numbers:
        fill(options.json or NUMBERS, NUMBER_CASES, numbers)
    if options.counts:
        fill(options.json or COUNTS, COUNT_CASES, counts)
    if options.page:
        write_page()


if __name__ == "__main__":
    main()
