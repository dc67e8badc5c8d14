"""Builds the precompiled kernels for products in attnpass/kernels/hopper; needs no GPU.

    pip install 'attnpass[kernels]'
    python tools/build_products.py           # writes product_*.cubin.zz and products.json
    python tools/build_products.py --check   # builds again and compares with the manifest

The code is CUDA's (kernels/hopper/cuda), for sm_90a: NVRTC 12.8 makes PTX of it, and Triton's ptxas
machine code, which drivers of CUDA 12 load, too. Files depend only on the sources and on these
tools, so that a second build gives the same hashes.
"""

# pyright: reportMissingImports=false
# (triton and nvidia's packages are in the extra `kernels` only)

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).resolve().parent.parent / "attnpass" / "kernels" / "hopper"
NVIDIA = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
NVRTC = (12, 8)
ELEMENTS = ("f16", "bf16", "f8E4M3FN")
ACTIVATIONS = ("none", "gelu", "gelu_tanh", "silu", "clamp", "sigmoid")
OTHERS = ("none", "add", "multiply")
# Bytes of five descriptors for the memory engine.
DESCRIPTORS = 640
# Bytes of the biases of a tile, for each of two warpgroups.
BIASES = 1024


@dataclass(frozen=True)
class Behind:
    """What a kernel does behind the product; `gated`: times that of second weights; `general`: as
    it is told at run time; `wide`: its result is f32."""

    bias: bool = False
    activation: str = "none"
    other: str = "none"
    gated: bool = False
    general: bool = False
    wide: bool = False

    @property
    def words(self) -> list[str]:
        found = ["bias"] if self.bias else []
        found += [self.activation] if self.activation != "none" else []
        found += [self.other] if self.other != "none" else []
        kinds = {"gated": self.gated, "general": self.general, "wide": self.wide}
        return [*found, *[word for word, there in kinds.items() if there]]


PLAIN, BIAS = Behind(), Behind(bias=True)
GELU, TANH = Behind(True, "gelu"), Behind(True, "gelu_tanh")
ADDED, BIAS_ADDED = Behind(other="add"), Behind(bias=True, other="add")
SILU_TIMES, GATED = Behind(False, "silu", "multiply"), Behind(False, "silu", gated=True)
GENERAL = tuple(Behind(False, name, general=True) for name in ("clamp", "gelu", "sigmoid"))
GENERAL_GATED = tuple(Behind(False, name, "none", True, True) for name in ("gelu", "sigmoid"))
WIDE = Behind(False, "clamp", general=True, wide=True)
GENERAL_CONSTANTS = ("flags", "share", "alpha", "beta", "slope", "cube")
# Of batches: where products, rows and parts of the result's columns lie, in 16 bytes.
BATCH_CONSTANTS = (
    *("inner", "outer", "bias_step", "factor_step"),
    *("a_start", "a_row", "a_inner", "a_outer"),
    *("weights_start", "weights_row", "weights_inner", "weights_outer"),
    *("out_width", "out_row", "out_part", "out_inner", "out_outer"),
)


@dataclass(frozen=True)
class ProductVariant:
    """One kernel to build: `product` in tiles of `columns`, or `few_rows` and `narrow`, up to
    `rows`; `weights` lie as (n, k) or (k, n). `written` is the type of the result. `batched`: of
    many products, each with its own operands, by strides."""

    source: str
    element: str
    behind: Behind
    weights: str = "nk"
    columns: int = 0
    rows: int = 0
    macros: dict[str, int] = field(default_factory=dict)
    written: str = ""
    batched: bool = False

    @property
    def name(self) -> str:
        size = f"few{self.rows}" if self.rows else f"tile{self.columns}"
        size = f"batched_{size}" if self.batched else size
        lie = ["kn"] if self.weights == "kn" else []
        kinds = [self.element, *([self.written] if self.written else [])]
        return "_".join(["product", *kinds, size, *lie, *self.behind.words])

    @property
    def result_type(self) -> str:
        return "f32" if self.behind.wide else self.written or self.element

    @property
    def defines(self) -> dict[str, int]:
        behind = self.behind
        return {
            "ELEMENT": ELEMENTS.index(self.element),
            "WRITTEN": ELEMENTS.index(self.written or self.element),
            "BIAS": int(behind.bias),
            "ACTIVATION": ACTIVATIONS.index(behind.activation),
            "OTHER": OTHERS.index(behind.other),
            "GATED": int(behind.gated),
            "GENERAL": int(behind.general),
            "WIDE": int(behind.wide),
            "WEIGHTS_KN": int(self.weights == "kn"),
            "LEAN": 1,
            "SCRATCH": int(not self.rows),
            "BATCHED": int(self.batched),
            **self.macros,
        }

    @property
    def cluster(self) -> int:
        """How many workgroups work together."""
        return self.macros["SPLITS"] if self.rows else 1 + self.macros.get("SPLIT", 0)

    @property
    def shared_memory(self) -> int:
        """Bytes that the launch asks for: stages of the ring, results, descriptors, barriers."""
        if self.source == "few_rows":
            return 0
        stages = self.macros["STAGES"]
        if self.rows:
            ends = 64 * self.macros["GROUPS"] + self.macros["ROWS"]
            return 1023 + stages * 128 * self.macros["LINES"] * ends
        tiles = stages * (16384 + self.columns * 128) + 32768
        return 1023 + tiles + DESCRIPTORS + 8 * (2 * stages + 4) + BIASES


ELEMENTWISE = (PLAIN, BIAS, GELU, TANH, ADDED, BIAS_ADDED)
FEW = (PLAIN, BIAS, GELU, ADDED, BIAS_ADDED, SILU_TIMES)


def variants() -> list[ProductVariant]:
    """All kernels, in the order of the manifest."""
    wide = [one for element in ELEMENTS[:2] for one in [*tiles(element), *few(element)]]
    narrow = [one for written in ELEMENTS[:2] for one in e4m3(written)]
    return [*wide, *narrow, *(batched(one) for one in wide if is_batched(one))]


def is_batched(variant: ProductVariant) -> bool:
    """Whether there is such a kernel for batches: what is behind them they are told. No model has
    batches with a GELU by erf."""
    return variant.behind == PLAIN or (
        variant.behind.general and variant.behind.activation != "gelu"
    )


def batched(variant: ProductVariant) -> ProductVariant:
    """The kernel for batches: their products leave few units idle, and none is divided."""
    macros = {key: value for key, value in variant.macros.items() if key != "SPLIT"}
    return replace(variant, macros=macros, batched=True)


def tiles(element: str) -> Iterator[ProductVariant]:
    """Kernels for any number of rows; two weights are read as (n, k) alone."""
    for columns in (256, 128):
        macros = {"COLUMNS": columns, "STAGES": 4 if columns == 256 else 6}
        macros |= {"CLUSTER": 1, "STAGGER": int(columns == 256), "BAND": 16}
        for weights in ("nk", "kn"):
            gated = (GATED,) if (columns, weights) == (256, "nk") else ()
            # The last tiles are divided along the depth where that leaves fewer units idle.
            split = {**macros, "SPLIT": int(columns == 128)}
            for behind in ELEMENTWISE:
                yield ProductVariant("product", element, behind, weights, columns, macros=split)
            for behind in (*gated, *GENERAL, WIDE):
                yield ProductVariant("product", element, behind, weights, columns, macros=macros)
            for behind in GENERAL_GATED if columns == 256 else ():
                yield ProductVariant("product", element, behind, weights, columns, macros=macros)


def e4m3(written: str) -> Iterator[ProductVariant]:
    """Kernels for operands of 8 bits."""
    macros = {"COLUMNS": 128, "STAGES": 6, "CLUSTER": 1, "STAGGER": 0, "BAND": 16, "PROMOTE": 1}
    yield ProductVariant(
        "product", "f8E4M3FN", GENERAL[0], columns=128, macros=macros, written=written
    )


def few(element: str) -> Iterator[ProductVariant]:
    """Kernels for few rows: those of `narrow` where `few_rows` is slower or has none."""
    for blocks, resident in ((1, 4), (2, 3)):
        macros = {"BLOCKS": blocks, "SPLITS": 1, "DEPTH_WARPS": 8, "RESIDENT": resident}
        macros |= {"UNROLL": 4}
        for behind in (*FEW, *GENERAL, WIDE):
            yield ProductVariant("few_rows", element, behind, rows=8 * blocks, macros=macros)
    for weights, rows in (("kn", 16), ("nk", 64), ("kn", 64)):
        macros = {"ROWS": rows, "GROUPS": 2, "LINES": 2}
        macros |= {"SPLITS": 4, "STAGES": 3} if rows == 16 else {"SPLITS": 2, "STAGES": 4}
        for behind in (*FEW, TANH, *GENERAL, WIDE):
            yield ProductVariant("narrow", element, behind, weights, rows=rows, macros=macros)


def nvrtc() -> ctypes.CDLL:
    """The compiler, of the version that kernels are built with."""
    library = ctypes.CDLL(str(NVIDIA / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != NVRTC:
        raise RuntimeError(f"needs NVRTC {NVRTC}, found {major.value}.{minor.value}")
    return library


def ptx_of(file: str, name: str, defines: dict[str, int], folder: Path) -> str:
    """The PTX of the kernel `name`, whose source is this file in `folder`."""
    library, program = nvrtc(), ctypes.c_void_p()
    source = (folder / file).read_bytes()
    words = ["--gpu-architecture=compute_90a", "--std=c++17", f"--include-path={folder}"]
    words += [f"--include-path={NVIDIA / 'cuda_runtime' / 'include'}", f"-DNAME={name}"]
    words += [f"-D{key}={value}" for key, value in defines.items()]
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None)
    failed = library.nvrtcCompileProgram(program, len(words), options)
    size = ctypes.c_size_t()
    kind = "ProgramLog" if failed else "PTX"
    getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{kind}")(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(f"{name}: {text.value.decode()}")
    return text.value.decode()


def assemble(name: str, ptx: str) -> bytes:
    """PTX as machine code that keeps all values in registers and overlaps its products."""
    import triton

    tool = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as made:
        # ptxas writes the name of its input into the code: the same one each time.
        (Path(made) / "kernel.ptx").write_text(ptx)
        command = [str(tool), "-arch=sm_90a", "-v", "kernel.ptx", "-o", "kernel.cubin"]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        if done.returncode or " 0 bytes spill stores" not in done.stderr or "C75" in done.stderr:
            raise RuntimeError(f"{name}: {done.stderr}")
        return (Path(made) / "kernel.cubin").read_bytes()


def build(variant: ProductVariant) -> tuple[dict[str, Any], bytes]:
    """The manifest entry and the compressed machine code of one kernel."""
    folder = KERNELS / "cuda"
    ptx = ptx_of(f"{variant.source}.cu", variant.name, variant.defines, folder)
    image = assemble(variant.name, ptx)
    sources = sorted({f"{variant.source}.cu", "epilogue.h", "wgmma.h"})
    hashed = hashlib.sha256(b"".join((folder / name).read_bytes() for name in sources))
    entry = {
        "name": variant.name,
        "target": "sm_90a",
        "element_type": variant.element,
        "result_type": variant.result_type,
        "weights": variant.weights,
        "columns_per_tile": variant.columns,
        "most_rows": variant.rows,
        "columns_per_workgroup": {"few_rows": 16, "narrow": 128}.get(variant.source, 0),
        "cluster": variant.cluster,
        **{key: value for key, value in asdict(variant.behind).items() if key != "wide"},
        "batched": variant.batched,
        "scratch_per_workgroup": 0 if variant.rows else DESCRIPTORS,
        "shared_memory": variant.shared_memory,
        "workgroup_size": 256 if variant.rows else 384,
        "constants": [
            *("m", "n", "k"),
            *(GENERAL_CONSTANTS if variant.behind.general else ()),
            *(BATCH_CONSTANTS if variant.batched else ()),
        ],
        "source": f"cuda/{variant.source}.cu",
        "source_hash": hashed.hexdigest(),
        "file": f"{variant.name}.cubin.zz",
        "hash": hashlib.sha256(image).hexdigest(),
    }
    return entry, zlib.compress(image, 9)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    parser.add_argument("--out", type=Path, default=KERNELS, help="folder to write to")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, variants()))
    text = json.dumps({"nvrtc": "12.8", "kernels": [entry for entry, _ in built]}, indent=1) + "\n"
    if arguments.check:
        same = (arguments.out / "products.json").read_text() == text
        print("the same" if same else "differs: products.json")
        return 0 if same else 1
    for entry, packed in built:
        (arguments.out / entry["file"]).write_bytes(packed)
    (arguments.out / "products.json").write_text(text)
    print(f"{len(built)} kernels, {sum(len(packed) for _, packed in built)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
