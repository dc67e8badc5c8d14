"""Runs the precompiled kernels under compute-sanitizer: memcheck and racecheck.

    python -m bench compile kernels build/kernels                 (needs attnpass; no GPU)
    python -m tools.sanitize_kernels build/kernels --json FILE    (needs a Hopper GPU, torch,
                                                                   iree-base-runtime, CUDA's tools)

Each case of the bench `kernels` that is named below runs alone, once under each tool, which
looks at the kernel of the case only. For each hazard that racecheck reports, the JSON has the
two instructions, as cuobjdump shows them.

memcheck must be clean, and all cases compiled: the exit code says so. Racecheck reports hazards in
most kernels, all of them between ordinary stores and loads (STS, LDS) of a few words behind the
tiles: those in which Triton's warp specialisation tells each warp which part it is and hands it
its arguments. They are written once, before a `barrier.sync 1` on which all warps of the program
meet, and read after it (see the PTX), so they are no races. What the memory engine writes and wgmma
reads, and the mbarriers between them, the tool does not watch.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.harness import machine
from bench.results import ROOT, Results, Row, about, row

KERNELS = ROOT / "attnpass" / "kernels" / "hopper"
# Small, and odd in each dim: no mask, causal, window, masks of all kinds, both layouts of V.
CASES = (
    "f16_2x1_300x777_d128",
    "f16_1x1_777x1333_d128_dynamic",
    "f16_8x4_1333x1333_d128_causal_dynamic",
    "f16_2x1_127x128_d64",
    "f16_64x1_777x1110_d64_causal_offset333",
    "bf16_8x8_1000x777_d64",
    "bf16_8x4_777x777_d256_causal_dynamic",
    "f16_8x4_1333x1333_d128_causal_dynamic_window300",
    "f16_2x1_333x1000_d128_vt",
    "f16_2x1_300x777_d64_mask_f16_mn",
    "f16_8x4_333x776_d128_mask_f16_bgmn",
    "f16_3x2_333x784_d128_mask_i1_bn",
    "f16_2x1_333x1004_d256_mask_f32_bmn",
    "bf16_4x2_500x1333_d128_dynamic_mask_i1_gmn",
    "bf16_4x2_500x1328_d128_mask_i1_gmn",
    "f8E4M3FN_2x1_300x784_d128_vt",
    "f8E4M3FN_2x1_1000x1008_d128_causal_vt",
    "f8E4M3FN_2x1_300x784_d128_forced",
    "f8E4M3FN_3x1_1000x1008_d128_causal_forced",
    "f8E4M3FNf16_2x1_300x777_d128",
    "f8E4M3FNf16_3x1_500x1000_d128_growing",
    "f8E4M3FNf16_3x1_333x1000_d128_vt",
    "f8E4M3FNbf16_40x1_777x1110_d128_causal_offset333",
    "f8E4M3FNbf16_8x4_777x1001_d128_dynamic",
    # Blocks of rows over few keys, one after the other.
    "f16_2x1_257x333_d72_forced_poisoned",
    "bf16_3x1_509x509_d128_causal_window77_forced",
    "bf16_40x5_197x197_d64_forced",
    "f16_3x2_197x197_d96_forced",
    "f16_2x4_65x333_d96_forced_poisoned",
    # Few rows over caches: groups, unknown sizes, masks of all kinds, heads of 64.
    "f16_4x1_1x777_d128_poisoned",
    "f16_3x1_1x1_d128",
    "f16_8x2_4x1000_d128_causal_offset996",
    "f16_40x5_1x130_d128_dynamic",
    "f16_2x4_1x5000_d64",
    "f16_5x4_1x777_d128_mask_f16_n",
    "bf16_5x4_1x777_d128_mask_bf16_bn",
    "f16_5x1_7x777_d64_mask_i1_bmn",
    "bf16_8x1_1x1333_d64_dynamic",
    "f16_3x8_1x1333_d256",
    "bf16_3x8_1x1333_d256_forced",
    "f16_2x4_1x777_d128_sink",
    # Few heads, whose keys are split.
    "f16_1x4_1x5003_d128",
    "bf16_2x3_5x9001_d64_causal_offset8996_window7000_forced",
    "bf16_3x8_2x3001_d256_causal_dynamic_offset2999_forced",
    "f16_1x4_2x6001_d256_causal_offset5999_sink",
)
# What racecheck prints of a pair of accesses, in its two forms of reports.
_ANALYSIS = re.compile(
    r"Race reported between (\w+) access at (\w+)\+(0x[0-9a-f]+).*?"
    r"and (\w+) access at \w+\+(0x[0-9a-f]+)[^\[]*\[(\d+) hazards?\]",
    re.S,
)


def command(tool: str, case: str, folder: Path) -> list[str]:
    """The sanitizer's command line for one case."""
    kernel = json.loads((folder / "kernels.json").read_text())[case]
    name = "kns=" + kernel[: kernel.index("_") + 1]
    sanitizer = ["compute-sanitizer", "--tool", tool, "--kernel-name", name]
    sanitizer += ["--racecheck-report", "analysis"] if tool == "racecheck" else []
    bench = ["-m", "bench", "some", "kernels", str(folder), "--numbers", "--only", case, "--exact"]
    return [*sanitizer, sys.executable, *bench]


def check(tool: str, case: str, folder: Path, limit: int) -> Row:
    """What a tool says about a case, and whether its numbers were right under it."""
    try:
        text = subprocess.run(
            command(tool, case, folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
            cwd=ROOT,
        ).stdout
    except subprocess.TimeoutExpired:
        return row(case, tool, {"failed": f"not over after {limit} s"})
    lines = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    ran: Row = next((line for line in lines if line.get("case") == case), {})
    found = {name: ran[name] for name in ("error", "failed") if name in ran}
    found |= {"kernel": ran["figures"]["kernel"]} if "kernel" in ran.get("figures", {}) else {}
    summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)", text)
    found["summary"] = summary[0] if summary else text[-300:]
    pairs = _ANALYSIS.findall(text)
    if pairs:
        found["hazards"] = explained(found["kernel"], pairs)
    elif "0 " not in found["summary"][:2]:
        found["first"] = text[:1500]
    return row(case, tool, found)


def explained(kernel: str, pairs: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """The instructions behind the hazards, and how often each pair was reported."""
    code = instructions(kernel)
    counts: Counter[tuple[str, str]] = Counter()
    for first, _, at, second, other, count in pairs:
        one, two = (code.get(int(place, 16), place) for place in (at, other))
        counts[f"{first}: {one}", f"{second}: {two}"] += int(count)
    return [{"between": pair, "hazards": count} for pair, count in counts.most_common()]


def instructions(kernel: str) -> dict[int, str]:
    """The kernel's machine instructions by their offset; none without cuobjdump."""
    tool = shutil.which("cuobjdump")
    kernels = json.loads((KERNELS / "manifest.json").read_text())["kernels"]
    entry = next((one for one in kernels if one["name"] == kernel), None)
    if tool is None or entry is None:
        return {}
    images, start = lzma.decompress((KERNELS / entry["file"]).read_bytes()), entry["offset"]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as image:
        image.write(images[start : start + entry["size"]])
        image.flush()
        listing = [tool, "--dump-sass", image.name]
        text = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", text)
    return {int(place, 16): words.split(" &")[0].strip() for place, words in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="what the bench compiled")
    parser.add_argument("--json", type=Path, default=Path("sanitizer.json"))
    parser.add_argument("--only", default="", help="what names of kernels begin with")
    parser.add_argument("--jobs", type=int, default=8, help="cases at a time")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each")
    options = parser.parse_args()
    taken = json.loads((options.folder / "kernels.json").read_text())
    left = [case for case in CASES if case not in taken]
    if left:
        print("error: not compiled: " + ", ".join(left), file=sys.stderr)
    cases = [case for case in CASES if case in taken and taken[case].startswith(options.only)]
    work = [(tool, case) for tool in ("memcheck", "racecheck") for case in cases]
    rows: list[Row] = []
    is_bad, measured = bool(left), about(machine(None))
    with ThreadPoolExecutor(options.jobs) as pool:
        folder = options.folder.resolve()
        started = [pool.submit(check, *one, folder, options.limit) for one in work]
        # As they come: what was found stands, even if the rest is cut off.
        for each in as_completed(started):
            found = each.result()
            rows.append(found)
            Results("sanitizer", measured, rows).write(options.json)
            summary = found.get("figures", {}).get("summary", "")
            print(found["way"], found["case"], found.get("failed") or summary, flush=True)
            is_bad |= found["way"] == "memcheck" and summary[:2] != "0 "
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
