"""Builds the precompiled attention kernels in attnpass/kernels; needs no GPU.

    pip install 'attnpass[kernels]'
    python tools/build_kernels.py           # writes *.cubins.xz and manifest.json
    python tools/build_kernels.py --check   # builds again and compares with the manifest
    python tools/build_kernels.py --speeds  # only the measured speeds in the manifest; no Triton
    python tools/build_kernels.py --only divided  # those of these names; the others stay

Each kernel is compiled by Triton to PTX for sm_90a, rewritten to the parameters that IREE's
CUDA driver passes, stripped of debug information, assembled and compressed. The
files depend only on the sources and the pinned Triton with its ptxas, so that a second build
gives the same hashes. Which kernels there are, `kernel_variants.py` says.
"""

# pyright: reportMissingImports=false
# (triton is in the extra `kernels` only)

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import build_products
from kernel_variants import AnyVariant, CudaVariant, TritonVariant, variants

from attnpass.kernels.hopper.manifest import entries_of

KERNELS = Path(__file__).resolve().parent.parent / "attnpass" / "kernels" / "hopper"
RESULTS = KERNELS.parent.parent.parent / "bench" / "results" / "kernels_h200.json"
TRITON = "3.6.0"
# What the sources in Gluon import.
COMMON = "hopper_common.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    parser.add_argument("--out", type=Path, default=KERNELS, help="folder to write to")
    parser.add_argument("--speeds", action="store_true", help="update measured speeds only")
    parser.add_argument("--only", default="", help="what names of kernels to build begin with: a,b")
    arguments = parser.parse_args()
    if arguments.speeds:
        update_speeds(arguments.out / "manifest.json")
        return 0
    import triton

    if triton.__version__ != TRITON:
        print(f"error: needs triton {TRITON}, found {triton.__version__}", file=sys.stderr)
        return 1
    every = variants()
    wanted = [one for one in every if one.name.startswith(tuple(arguments.only.split(",")))]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        built = list(pool.map(build, wanted))
    if arguments.only:
        kept = {entry["name"]: (entry, image) for entry, image in [*there(arguments.out), *built]}
        built = [kept[variant.name] for variant in every if variant.name in kept]
        try:
            source_hashes([entry for entry, _ in built])
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    wrong = build_products.differing(arguments.out, built) if arguments.check else []
    words = "" if arguments.check else build_products.write(arguments.out, built)
    text = manifest_text([entry for entry, _ in built])
    if arguments.check:
        same = (arguments.out / "manifest.json").read_text() == text
        wrong += [] if same else ["manifest.json"]
        print("differs: " + ", ".join(wrong) if wrong else "the same")
        return 1 if wrong else 0
    (arguments.out / "manifest.json").write_text(text)
    print(words)
    return 0


def there(folder: Path) -> list[build_products.Entry]:
    """The kernels that the manifest in `folder` has."""
    found = []
    for entry in entries_of((folder / "manifest.json").read_text()):
        images = build_products.images_of(folder / entry["file"])
        start = entry["offset"]
        image = images[start : start + entry["size"]]
        found.append((entry, image))
    return found


def update_speeds(path: Path) -> None:
    """Writes the speeds that were measured since the kernels were built into their manifest."""
    entries = [
        with_speed({key: old for key, old in entry.items() if not key.startswith("measured")})
        for entry in entries_of(path.read_text())
    ]
    path.write_text(manifest_text(entries))


def manifest_text(entries: list[dict[str, Any]]) -> str:
    """The manifest of these kernels, a line each, as `entries_of` reads it."""
    constants = list(dict.fromkeys(entry["constants"] for entry in entries))
    shared = {"constants": constants, "source_hashes": source_hashes(entries)}
    own = [
        {name: value for name, value in entry.items() if name != "source_hash"}
        | {"constants": constants.index(entry["constants"])}
        for entry in entries
    ]
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in own)
    head = f'"version": 1,\n "triton": {json.dumps(TRITON)}'
    for name, table in shared.items():
        head += f',\n "{name}": {json.dumps(table, indent=1)}'
    return f'{{\n {head},\n "kernels": [\n{lines}\n ]\n}}\n'


def source_hashes(entries: list[dict[str, Any]]) -> dict[str, str]:
    """The hash of each source; ValueError where kernels are of two versions of one (`--only`)."""
    hashes: dict[str, str] = {}
    for entry in entries:
        source, own = entry["source"], entry["source_hash"]
        if hashes.setdefault(source, own) != own:
            raise ValueError(f"{entry['name']} and others are of two versions of {source}")
    return hashes


def build(variant: AnyVariant) -> build_products.Entry:
    """The manifest entry and the machine code of one kernel."""
    made = build_cuda(variant) if isinstance(variant, CudaVariant) else build_triton(variant)
    image, scratch, shared, threads, sources = made
    hashed = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    entry = {
        "name": variant.name,
        "target": "sm_90a",
        **variant.fields,
        "alignment": 16,
        "scratch_per_workgroup": scratch,
        "shared_memory": shared,
        "workgroup_size": threads,
        "constants": " ".join(variant.constants),
        "source": sources[0].relative_to(KERNELS).as_posix(),
        "source_hash": hashed.hexdigest(),
        "hash": build_products.image_hash(image),
    }
    return with_speed(entry), image


# Machine code, bytes of scratch and shared memory, threads of a workgroup, sources.
Made = tuple[bytes, int, int, int, list[Path]]


def build_triton(variant: TritonVariant) -> Made:
    import triton
    from triton.backends.compiler import GPUTarget

    source = KERNELS / f"{variant.source}.py"
    compiled: Any = triton.compile(
        _ast_source(variant, _load(source)),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": variant.num_warps},
    )
    meta = compiled.metadata
    scratch = meta.global_scratch_size
    image = assemble(iree_ptx(compiled.asm["ptx"], variant))
    if bool(scratch) != ("scratch" in variant.pointers) or getattr(meta, "profile_scratch_size", 0):
        raise RuntimeError(f"{variant.name}: expected scratch memory for descriptors alone")
    return image, scratch, meta.shared, meta.num_warps * 32, [source, KERNELS / COMMON]


def build_cuda(variant: CudaVariant) -> Made:
    folder = KERNELS / "cuda"
    ptx = build_products.ptx_of(variant.source, variant.name, variant.defines, folder)
    image = build_products.assemble(variant.name, ptx)
    sources = [folder / name for name in (variant.source, "attend.h", "tma.h", "weights.h")]
    return image, variant.scratch, variant.shared_memory, variant.threads, sources


def with_speed(entry: dict[str, Any]) -> dict[str, Any]:
    """A manifest's entry and what was measured, which stands in front of `alignment`."""
    names = list(entry)
    at = names.index("alignment")
    speed = measured_speed(entry["name"], entry["kind"], entry["head_dims"][0])
    return {n: entry[n] for n in names[:at]} | speed | {n: entry[n] for n in names[at:]}


def measured_speed(name: str, kind: str, head_dim: int) -> dict[str, Any]:
    """The best that was measured for the kernel; nothing if it was not timed without casts of
    8-bit operands in front of it. A smaller head dim than its own is as much work."""
    unit, factor = ("GBps", 1e9) if kind in ("decode", "cached") else ("TFLOPS", 1e12)
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    speeds = [
        (row["figures"][unit], row["case"], row["ms"] / 1e3)
        for row in rows
        if "ms" in row and row["figures"].get("kernel") == name
        if ("f8" in row["case"]) <= ("f8" in name)
    ]
    if not speeds:
        return {}
    best, case, seconds = max(speeds)
    words = f"{best:.0f} {unit.replace('GBps', 'GB/s')} at {case}"
    filled = head_dim / int(case.split("_d")[1].partition("_")[0].partition("x")[0])
    work = float(f"{best * factor * seconds * filled:.4g}")
    return {"measured": words, "measured_work": work, "measured_seconds": seconds}


def _ast_source(variant: TritonVariant, module: ModuleType) -> Any:
    """What triton.compile takes: the function, the types of its arguments, its constants."""
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    function: Any = getattr(module, variant.function)
    names = list(function.arg_names)
    signature = {name: "i32" for name in names} | {"scratch": "*i8", "scale": "fp32", "cap": "fp32"}
    signature |= variant.types
    # What a kernel does not take is a constant that it does not read.
    constants = dict.fromkeys({*names} - {*variant.pointers, *variant.constants}, 0)
    constants |= {name: value for name, value in variant.values.items() if name in names}
    signature |= dict.fromkeys(constants, "constexpr")
    signature = {name: signature[name] for name in names}
    # V^T's row stride is `keys`: its divisibility is part of the kernel's contract.
    divisible = {name: 16 for name in variant.pointers}
    return (GluonASTSource if variant.gluon else ASTSource)(
        fn=function,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", by]] for name, by in divisible.items()},
    )


def iree_ptx(ptx: str, variant: TritonVariant) -> str:
    """PTX with IREE's parameters: the binding pointers, then the 32-bit constants.

    Triton emits the arguments in order and then two scratch pointers. Where the kernel has an
    unread `scratch` argument, which IREE binds to memory that the dispatch owns, the first of
    these moves to its slot. What is left of the two must be unread and goes.
    """
    name, pointers = variant.name, len(variant.pointers)
    ptx = strip_debug(ptx)
    entry = re.search(r"\.entry (\w+)\(\n(.*?)\n\)", ptx, re.S)
    if entry is None:
        raise RuntimeError(f"{name}: no entry point")
    old = entry[1]
    lines = [line.strip().rstrip(",") for line in entry[2].split("\n")]
    dummy, scratch = pointers - 1, pointers + len(variant.constants)
    body = ptx[entry.end() :]

    def read(number: int) -> bool:
        return f"[{old}_param_{number}]" in body

    owns = "scratch" in variant.pointers
    if len(lines) != scratch + 2 or read(scratch) != owns or read(scratch + 1):
        raise RuntimeError(f"{name}: unexpected parameters {lines}")
    if owns and read(dummy):
        raise RuntimeError(f"{name}: reads the argument in whose place scratch memory stands")
    if owns:
        lines[dummy] = lines[scratch]
    del lines[scratch:]
    ptx = ptx[: entry.start(2)] + ",\n".join("\t" + line for line in lines) + ptx[entry.end(2) :]
    return re.sub(rf"\b{old}(?=\b|_param_)", name, ptx)


def strip_debug(ptx: str) -> str:
    """PTX without line numbers, file names, debug sections and comments."""
    ptx = ptx.partition("\t.section\t.debug")[0]
    ptx = re.sub(r"(?m)^\s*\.(loc|file)\s.*\n", "", ptx)
    ptx = re.sub(r"(?m)^\$L__tmp\d+:\n", "", ptx)
    ptx = re.sub(r"(?m)[ \t]*//.*$", "", ptx)
    return re.sub(r"\n{2,}", "\n", ptx)


def assemble(ptx: str) -> bytes:
    """PTX as machine code (a cubin): the driver loads it at once, where PTX costs it up to half
    a second. Needs the ptxas that comes with Triton."""
    import triton

    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        # ptxas writes the name of its input into the code: the same one each time.
        (Path(folder) / "kernel.ptx").write_text(ptx)
        command = [str(tool), "-arch=sm_90a", "kernel.ptx", "-o", "kernel.cubin"]
        subprocess.run(command, check=True, cwd=folder)
        return (Path(folder) / "kernel.cubin").read_bytes()


def _load(path: Path) -> ModuleType:
    """A kernel source as a module, without importing the package around it: it finds COMMON beside
    it."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
