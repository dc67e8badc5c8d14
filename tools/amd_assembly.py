"""What V^T does to attention on AMD GPUs, read from the assembly: nothing is run or timed.

    python tools/amd_assembly.py --json tools/results/amd_assembly.json --page

`x @ Wv -> attention` is compiled four ways: with V row-major (IREE, its own transpose of V
off), by IREE as it is, and by attn-compile in the modes `cost` and `always`, all in IREE's own
configuration. IREE writes each program's assembly; this counts the instructions of every kernel
in it, each once however often a loop runs it, and reads the registers, spills and LDS that the
code object declares.
`--page` writes the tables of docs/amd.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from check_cuda import Case, module_text
from doc_blocks import machine, text_table, write_block

TARGETS = {
    "gfx942": ("f16", "bf16", "f8E4M3FNUZ"),
    "gfx950": ("f16", "bf16", "f8E4M3FN"),
    "gfx1100": ("f16", "bf16"),
    "gfx1201": ("f16", "bf16", "f8E4M3FN"),
}
HEADS = (128, 64)
LENGTH, COUNT, MODEL = 4096, 32, 4096

OWN_TRANSPOSE = "--iree-global-opt-enable-attention-v-transpose"
VARIANTS = {
    "row-major": ["--attn-disable", f"{OWN_TRANSPOSE}=false"],
    "IREE": ["--attn-disable", f"{OWN_TRANSPOSE}=true"],
    "cost": ["--attn-mode=cost", "--attn-configure=false"],
    "always": ["--attn-mode=always", "--attn-configure=false"],
}
COMPILE_SECONDS = 120

# A read of LDS: `ds_read_u16_d16`, `ds_read2_b64`, `ds_load_2addr_stride64_b64`,
# `ds_read_b64_tr_b16`. The first group says that two are read, the second gives each one's bits.
LDS_READ = re.compile(r"ds_(?:read|load)(2|_2addr)?(?:st64|_stride64)?_[bui](\d+)(?:_\w+)?")
NARROW_STORE = re.compile(
    r"(?:buffer|global|flat)_store_(?:d16_hi_)?(?:byte|short|b8|b16)(_d16_hi)?"
)
MATRIX = re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)_\w+")


@dataclass
class Kernel:
    """One kernel's static counts.

    Reads are instructions that read LDS: narrow ones give a lane one or two bytes. Narrow
    stores write one or two bytes to memory. `matrix` counts MFMA or WMMA. `vgprs` includes
    accumulation registers, `spills` is in registers, `lds` in bytes.
    """

    narrow_reads: int = 0
    wide_reads: int = 0
    bytes_read: int = 0
    narrow_stores: int = 0
    matrix: int = 0
    vgprs: int = 0
    spills: int = 0
    lds: int = 0


def layer(kind: str, head: int) -> Case:
    """The attention that is measured, behind the projection of its V."""
    return Case(
        "matmul",
        kind,
        heads=COUNT,
        kv_heads=COUNT,
        rows=LENGTH,
        keys=LENGTH,
        head=head,
        model=MODEL,
    )


def compile_case(target: str, case: Case, variant: str) -> str:
    """The assembly of a case; CalledProcessError if it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "model.mlir")
        source.write_text(module_text(case))
        command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source)]
        command += ["--iree-hal-target-device=hip", f"--iree-rocm-target={target}"]
        command += [f"--iree-hal-dump-executable-intermediates-to={folder}"]
        command += [*VARIANTS[variant], "-o", str(Path(folder, "model.vmfb"))]
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS)
        (assembly,) = Path(folder).glob("*.rocmasm")
        return assembly.read_text()


def read_kernels(assembly: str) -> dict[str, Kernel]:
    """The kernels of an assembly file by name.

    ValueError for a read of LDS in a form that is not known here: it would not be counted.
    """
    code, _, metadata = assembly.partition(".amdgpu_metadata")
    names = re.findall(r"^    \.name:\s+(\S+)$", metadata, re.MULTILINE)
    kernels = {name: Kernel() for name in names}
    current = None
    for line in code.splitlines():
        label = re.match(r"(\w+):", line)
        if label and label[1] in kernels:
            current = kernels[label[1]]
        elif current and (instruction := re.match(r"\t([a-z]\w+)", line)):
            _count(current, instruction[1])
    for entry in re.split(r"^  - (?=\.)", metadata, flags=re.MULTILINE)[1:]:
        # The keys of a kernel are indented by four, the first stands behind its dash.
        declared = dict(re.findall(r"^(?:    )?\.(\w+):\s+(\S+)$", entry, re.MULTILINE))
        kernel = kernels[declared["name"]]
        kernel.vgprs = int(declared["vgpr_count"])
        kernel.spills = int(declared["vgpr_spill_count"])
        kernel.lds = int(declared["group_segment_fixed_size"])
    return kernels


def _count(kernel: Kernel, instruction: str) -> None:
    if read := LDS_READ.fullmatch(instruction):
        size = int(read[2]) // 8 * (2 if read[1] else 1)
        kernel.bytes_read += size
        kernel.narrow_reads += size <= 2
        kernel.wide_reads += size > 2
    elif instruction.startswith(("ds_read", "ds_load")):
        raise ValueError(f"{instruction} reads LDS in a form that is not known here")
    elif NARROW_STORE.fullmatch(instruction):
        kernel.narrow_stores += 1
    elif MATRIX.fullmatch(instruction):
        kernel.matrix += 1


def the_kernel(kernels: dict[str, Kernel], kind: str) -> Kernel:
    """The only kernel that is an `attention` or a `matmul`."""
    (found,) = (kernel for name, kernel in kernels.items() if f"_{kind}_" in name)
    return found


def measure(target: str, case: Case) -> dict[str, Any]:
    """One line of the results: the counts of each variant."""
    row: dict[str, Any] = {"target": target, "type": case.dtype, "head": case.head}
    for variant in VARIANTS:
        kernels = read_kernels(compile_case(target, case, variant))
        row[variant] = {"kernels": len(kernels)}
        for kind in ("attention", "matmul"):
            row[variant][kind] = asdict(the_kernel(kernels, kind))
    return row


def write_page(data: dict[str, Any]) -> None:
    where = f"IREE {data['iree']}.\n\n"
    columns = {
        "one- and two-byte LDS reads": "narrow_reads",
        "wide LDS reads": "wide_reads",
        "bytes a lane reads": "bytes_read",
        "MFMA or WMMA": "matrix",
        "VGPRs": "vgprs",
        "spilled": "spills",
        "LDS bytes": "lds",
    }
    head = ["target", "type", "head dim", *columns]
    rows = [[*_name(row), *(_change(row, key) for key in columns.values())] for row in data["rows"]]
    write_block("amd.md", "attention", where + text_table(head, rows))
    columns = {
        "kernels": None,
        "one- and two-byte stores": "narrow_stores",
        "one- and two-byte LDS reads": "narrow_reads",
        "VGPRs": "vgprs",
        "spilled": "spills",
    }
    head = ["target", "type", "head dim", *columns]
    rows = [
        [*_name(row), *(_all(row, key) for key in columns.values())]
        for row in data["rows"]
        if row["head"] == HEADS[0]
    ]
    write_block("amd.md", "projection", where + text_table(head, rows))


def _name(row: dict[str, Any]) -> list[str]:
    return [row["target"], row["type"], str(row["head"])]


def _change(row: dict[str, Any], key: str) -> str:
    """Attention's number, row-major and V^T."""
    before, after = (row[variant]["attention"][key] for variant in ("row-major", "always"))
    return str(before) if before == after else f"{before} → {after}"


def _all(row: dict[str, Any], key: str | None) -> str:
    """The numbers of all variants, the projection's or (no key) the program's."""
    parts = (row[v]["matmul"][key] if key else row[v]["kernels"] for v in VARIANTS)
    return " / ".join(map(str, parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write the tables of docs/amd.md")
    options = parser.parse_args()
    rows = []
    for target, kinds in TARGETS.items():
        for head in HEADS:
            for kind in kinds:
                rows.append(measure(target, layer(kind, head)))
                reads = _change(rows[-1], "narrow_reads")
                print(target, kind, head, "narrow LDS reads:", reads, flush=True)
    data = {"iree": machine()["iree"], "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.page:
        write_page(data)


if __name__ == "__main__":
    main()
