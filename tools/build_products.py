"""Builds the precompiled kernels for products in attnpass/kernels/hopper; needs no GPU.

    pip install 'attnpass[kernels]'
    python tools/build_products.py           # writes product_*.cubins.xz and products.json
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
import lzma
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnpass.kernels.hopper.product_speed import BEHIND, CURVES, IDLE, OF_END, OF_SUM

KERNELS = Path(__file__).resolve().parent.parent / "attnpass" / "kernels" / "hopper"
NVIDIA = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
NVRTC = (12, 8)
ELEMENTS = ("f16", "bf16", "f8E4M3FN", "f32")
ACTIVATIONS = ("none", "gelu", "gelu_tanh", "silu", "clamp", "sigmoid", "relu")
OTHERS = ("none", "add", "multiply")
# Bytes of a descriptor for the memory engine, and of the five of most kernels.
DESCRIPTOR, DESCRIPTORS = 128, 640
# Bytes of the biases of a tile, for each of two warpgroups.
BIASES = 1024
# The tiles of `turned`, where rows differ by 8: blocks of 128 columns (0: 64 columns), blocks of
# rows, fewest and most rows of each. Those that are missing would save 0.2%, as product_speed has
# it, of products of Llama's, ViT's and BERT's widths with 128 to 16384 rows.
RANGES = ((2, 1, 112, 192), (1, 1, 64, 112), (1, 1, 128, 128), (1, 2, 96, 120), (0, 1, 24, 64))
BLOCKS = tuple(
    (across, down, rows)
    for across, down, least, most in RANGES
    for rows in range(least, most + 1, 8)
)
TILES = " ".join(f"{across}x{down}x{rows}" for across, down, rows in BLOCKS)
# Bytes of its ring, descriptors and barriers.
SHARED_MEMORY = 1023 + 230400 + DESCRIPTORS + 8 * 24
HEADERS = {"turned": ("tma.h", "turned.h"), "product": ("tiles.h", "tma.h")}
HEADERS |= {"streamed": HEADERS["turned"], "tf32": ("tf32.h", "tiles.h", "tma.h")}
# Columns of a workgroup's result, or of a block of them.
COLUMNS = {"few_rows": 16, "narrow": 128, "streamed": 64}
# How `streamed` is built: rows at most, workgroups of a cluster and on a multiprocessor, blocks of
# 64 columns in a tile. See attnpass/kernels/hopper/streamed.py for when each is taken.
STREAMED = ((16, 4, 2, 1), (16, 2, 3, 2), (64, 4, 2, 1), (64, 2, 1, 1), (64, 2, 2, 2))
# How `tf32` is built: columns of a tile, workgroups that divide its depth.
WIDE_TILES = ((128, 1), (64, 1), (128, 4), (64, 4), (64, 2))
# Bytes of shared memory of each of so many workgroups.
ROOMS = {1: 226 * 1024, 2: 111 * 1024, 3: 73 * 1024}


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
SILU, RELU = Behind(True, "silu"), Behind(True, "relu")
GATED = Behind(False, "silu", gated=True)
GENERAL = tuple(Behind(False, name, general=True) for name in ("clamp", "gelu", "sigmoid"))
GENERAL_GATED = tuple(Behind(False, name, "none", True, True) for name in ("gelu", "sigmoid"))
WIDE = Behind(False, "clamp", general=True, wide=True)
GENERAL_CONSTANTS = ("flags", "share", "alpha", "beta", "slope", "cube")
# Columns of the second and third product.
JOINED_CONSTANTS = ("n2", "n3")
# Of convolutions: see cuda/image.h.
IMAGE_CONSTANTS = (
    *("channels", "image_width", "image_height", "width", "height", "taps_across", "taps"),
    *("step_x", "step_y", "gap_x", "gap_y", "left", "top"),
)
# Of batches: where products, rows and parts of the result's columns lie, in 16 bytes.
BATCH_CONSTANTS = (
    *("inner", "outer", "bias_step", "factor_step"),
    *("a_start", "a_row", "a_inner", "a_outer"),
    *("weights_start", "weights_row", "weights_inner", "weights_outer"),
    *("out_width", "out_row", "out_part", "out_inner", "out_outer"),
)


@dataclass(frozen=True)
class ProductVariant:
    """One kernel to build: `product` in tiles of `columns`, of f32 `tf32`, `turned` in tiles of
    BLOCKS, or, up to `rows`, `streamed` and, of batches, `few_rows` and `narrow`; `weights` lie as
    (n, k) or (k, n).
    `written` is the type of the result. `batched`: of many products, each with its own operands, by
    strides. `grouped`: rows lie group by group, and each group has its own weights. `joined`: so
    many products of the same rows. `imaged`: rows are patches of images."""

    source: str
    element: str
    behind: Behind
    weights: str = "nk"
    columns: int = 0
    rows: int = 0
    macros: dict[str, int | str] = field(default_factory=dict)
    written: str = ""
    batched: bool = False
    grouped: bool = False
    joined: int = 0
    imaged: bool = False

    @property
    def name(self) -> str:
        size = "tiles" if self.source == "turned" else f"tile{self.columns}"
        size = f"few{self.rows}" if self.rows else size
        size += f"_{self.cluster}x{self.macros['RESIDENT']}" if self.source == "streamed" else ""
        size += f"_by{self.cluster}" if self.source == "tf32" and self.cluster > 1 else ""
        size = f"batched_{size}" if self.batched else size
        size = f"grouped_{size}" if self.grouped else size
        size = f"joined{self.joined}_{size}" if self.joined else size
        size = f"imaged_{size}" if self.imaged else size
        lie = ["kn"] if self.weights == "kn" else []
        kinds = [self.element, *([self.written] if self.written else [])]
        return "_".join(["product", *kinds, size, *lie, *self.behind.words])

    @property
    def result_type(self) -> str:
        return "f32" if self.behind.wide else self.written or self.element

    @property
    def defines(self) -> dict[str, int | str]:
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
            "GROUPED": int(self.grouped),
            "JOINED": self.joined,
            "IMAGED": int(self.imaged),
            **self.macros,
        }

    @property
    def cluster(self) -> int:
        """How many workgroups work together."""
        if self.source == "streamed":
            return int(self.macros["CLUSTER"])
        return int(self.macros["SPLITS"]) if self.rows or self.source == "tf32" else 1

    @property
    def shared_memory(self) -> int:
        """Bytes that the launch asks for: stages of the ring, results, descriptors, barriers."""
        if self.source in ("few_rows", "turned"):
            return 0 if self.rows else SHARED_MEMORY
        macros = {name: int(value) for name, value in self.macros.items()}
        if self.source == "streamed":
            return 1023 + macros["ROOM"]
        stages = macros["STAGES"]
        if self.rows:
            ends = 64 * macros["GROUPS"] + macros["ROWS"]
            return 1023 + stages * 128 * macros["LINES"] * ends
        # Of f32 weights both parts, and what they are made of where that lies otherwise.
        parts = 2 + (self.weights == "kn") if self.source == "tf32" else 1
        barriers = 2 + (self.source == "tf32")
        tiles = stages * (16384 + parts * self.columns * 128) + 32768
        return 1023 + tiles + self.descriptors + 8 * (barriers * stages + 4) + BIASES

    @property
    def descriptors(self) -> int:
        """Bytes of those that a workgroup has: of joined products for the rows, and for weights and
        result of each."""
        if self.source == "tf32":
            return 4 * DESCRIPTOR
        return DESCRIPTOR * (1 + 2 * self.joined) if self.joined else DESCRIPTORS


ELEMENTWISE = (PLAIN, BIAS, GELU, TANH, ADDED, BIAS_ADDED)
OF_IMAGES = (PLAIN, BIAS, SILU, RELU, ADDED, BIAS_ADDED)


def variants() -> list[ProductVariant]:
    """All kernels, in the order of the manifest."""
    kinds = ELEMENTS[:2]
    wide = [
        one
        for kind in kinds
        for one in (
            *tiles(kind),
            *(one for lie in ("nk", "kn") for one in turned(kind, lie, ELEMENTWISE)),
            *streamed(kind),
        )
    ]
    narrow = [one for written in kinds for one in e4m3(written)]
    exact = [*tf32()]
    many = [one for kind in kinds for one in [*tiles(kind), *few(kind)] if is_batched(one)]
    many += [one for one in exact if is_batched(one) and one.cluster == 1]
    many = [replace(one, batched=True) for one in many]
    parted = [replace(one, grouped=True) for one in wide if is_grouped(one)]
    beside = [replace(one, joined=count) for one in wide if is_joined(one) for count in (2, 3)]
    kept = [one for one in wide if not is_replaced(one)]
    images = [one for kind in kinds for one in turned(kind, "nk", OF_IMAGES)]
    images = [replace(one, imaged=True) for one in images]
    return [*kept, *narrow, *exact, *many, *parted, *beside, *images]


def is_joined(variant: ProductVariant) -> bool:
    """Whether there is such a kernel for several products: each has a bias or none."""
    if variant.source == "streamed":
        return variant.behind == GENERAL[0]
    return variant.behind == BIAS and variant.columns != 128


def is_grouped(variant: ProductVariant) -> bool:
    """Whether there is such a kernel for rows in groups."""
    return variant.source == "product" and variant.behind == PLAIN and variant.columns == 256


def is_batched(variant: ProductVariant) -> bool:
    """Whether there is such a kernel for batches: what is behind them they are told. No model has
    batches with a GELU by erf."""
    told = variant.behind.general and variant.behind.activation != "gelu"
    return variant.behind == PLAIN or told


def is_replaced(variant: ProductVariant) -> bool:
    """Whether a kernel that chooses among tiles does the same as fast or faster."""
    return variant.columns == 128 and variant.behind in ELEMENTWISE


def turned(element: str, weights: str, kinds: Sequence[Behind]) -> Iterator[ProductVariant]:
    """Kernels with tiles of several sizes, which are told one or choose by the number of rows."""
    each = " ".join(f"EACH({number}, {a}, {d}, {r})" for number, (a, d, r) in enumerate(BLOCKS))
    ranges = " ".join(
        f"EACH({BLOCKS.index((a, d, least))}, {a}, {d}, {least})" for a, d, least, _ in RANGES
    )
    for behind in kinds:
        seconds = {"OF_SUM": OF_SUM, "OF_END": OF_END}
        seconds["BEHIND"] = BEHIND + CURVES[behind.activation]
        macros: dict[str, int | str] = {"TILES(EACH)": each, "IDLE": f"{IDLE}f"}
        macros |= {"RANGES(EACH)": ranges, "COUNT": len(BLOCKS)}
        macros |= {name: f"{1e12 * value:.3f}f" for name, value in seconds.items()}
        yield ProductVariant("turned", element, behind, weights, macros=macros)


def tiles(element: str) -> Iterator[ProductVariant]:
    """Kernels for any number of rows; two weights are read as (n, k) alone."""
    for columns in (256, 128):
        macros: dict[str, int | str] = {"COLUMNS": columns, "STAGES": 4 if columns == 256 else 6}
        macros |= {"STAGGER": int(columns == 256), "BAND": 16}
        for weights in ("nk", "kn"):
            gated = (GATED,) if (columns, weights) == (256, "nk") else ()
            for behind in (*ELEMENTWISE, *gated, *GENERAL, WIDE):
                yield ProductVariant("product", element, behind, weights, columns, macros=macros)
            for behind in GENERAL_GATED if columns == 256 else ():
                yield ProductVariant("product", element, behind, weights, columns, macros=macros)


def e4m3(written: str) -> Iterator[ProductVariant]:
    """Kernels for operands of 8 bits."""
    macros: dict[str, int | str] = {"COLUMNS": 128, "STAGES": 6, "STAGGER": 0}
    macros |= {"BAND": 16, "PROMOTE": 1}
    yield ProductVariant(
        "product", "f8E4M3FN", GENERAL[0], columns=128, macros=macros, written=written
    )


def tf32() -> Iterator[ProductVariant]:
    """Kernels for operands of f32, all told at run time what is behind the product."""
    for weights in ("nk", "kn"):
        for columns, splits in WIDE_TILES:
            stages = {("nk", 128): 4, ("kn", 128): 3, ("nk", 64): 6, ("kn", 64): 4}
            macros: dict[str, int | str] = {"COLUMNS": columns, "BAND": 16, "SPLITS": splits}
            macros |= {"STAGES": stages[weights, columns]}
            for behind in (replace(one, wide=True) for one in GENERAL):
                yield ProductVariant("tf32", "f32", behind, weights, columns, macros=macros)


def streamed(element: str) -> Iterator[ProductVariant]:
    """Kernels for few rows, all told at run time what is behind the product: that takes no longer
    where it is done to few elements."""
    for weights in ("nk", "kn"):
        for rows, cluster, resident, most in STREAMED:
            macros: dict[str, int | str] = {"ROWS": rows, "MOST": most, "CLUSTER": cluster}
            macros |= {"RESIDENT": resident, "ROOM": ROOMS[resident]}
            for behind in (*GENERAL, WIDE):
                yield ProductVariant("streamed", element, behind, weights, rows=rows, macros=macros)


def few(element: str) -> Iterator[ProductVariant]:
    """Kernels for batches of few rows: those of `narrow` where `few_rows` is slower or has none."""
    for blocks, resident in ((1, 4), (2, 3)):
        macros: dict[str, int | str] = {"BLOCKS": blocks, "SPLITS": 1, "DEPTH_WARPS": 8}
        macros |= {"RESIDENT": resident, "UNROLL": 4}
        for behind in (PLAIN, *GENERAL, WIDE):
            yield ProductVariant("few_rows", element, behind, rows=8 * blocks, macros=macros)
    for weights, rows in (("kn", 16), ("nk", 64), ("kn", 64)):
        macros: dict[str, int | str] = {"ROWS": rows, "GROUPS": 2, "LINES": 2}
        macros |= {"SPLITS": 4, "STAGES": 3} if rows == 16 else {"SPLITS": 2, "STAGES": 4}
        for behind in (PLAIN, *GENERAL, WIDE):
            yield ProductVariant("narrow", element, behind, weights, rows=rows, macros=macros)


def nvrtc() -> ctypes.CDLL:
    """The compiler, of the version that kernels are built with."""
    library = ctypes.CDLL(str(NVIDIA / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != NVRTC:
        raise RuntimeError(f"needs NVRTC {NVRTC}, found {major.value}.{minor.value}")
    return library


def ptx_of(file: str, name: str, defines: Mapping[str, int | str], folder: Path) -> str:
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


# What the manifest says about a kernel, and its machine code.
Entry = tuple[dict[str, Any], bytes]


def build(variant: ProductVariant) -> Entry:
    """The manifest entry and the machine code of one kernel."""
    folder = KERNELS / "cuda"
    ptx = ptx_of(f"{variant.source}.cu", variant.name, variant.defines, folder)
    image = assemble(variant.name, ptx)
    entry = {
        "name": variant.name,
        "target": "sm_90a",
        "element_type": variant.element,
        "result_type": variant.result_type,
        "weights": variant.weights,
        "columns_per_tile": variant.columns,
        **({"tiles": TILES} if variant.source == "turned" else {}),
        **({"most_blocks": variant.macros["MOST"]} if variant.source == "streamed" else {}),
        **({"resident": variant.macros["RESIDENT"]} if variant.source == "streamed" else {}),
        "most_rows": variant.rows,
        "columns_per_workgroup": COLUMNS.get(variant.source, 0),
        "cluster": variant.cluster,
        **{key: value for key, value in asdict(variant.behind).items() if key != "wide"},
        "batched": variant.batched,
        "grouped": variant.grouped,
        "joined": variant.joined,
        **({"imaged": True} if variant.imaged else {}),
        "scratch_per_workgroup": 0 if variant.rows else variant.descriptors,
        "shared_memory": variant.shared_memory,
        "workgroup_size": 256 if variant.rows else 512 if variant.source == "tf32" else 384,
        "constants": " ".join(
            (
                *("m", "n", "k"),
                *(GENERAL_CONSTANTS if variant.behind.general and not variant.joined else ()),
                *(BATCH_CONSTANTS if variant.batched else ()),
                *(("groups",) if variant.grouped else ()),
                *((*JOINED_CONSTANTS[: variant.joined - 1], "biased") if variant.joined else ()),
                *(("division",) if variant.source == "streamed" else ()),
                *(("shape",) if variant.source == "turned" else ()),
                *(IMAGE_CONSTANTS if variant.imaged else ()),
            )
        ),
        "source": f"cuda/{variant.source}.cu",
        "source_hash": sources_hash(variant),
        "hash": image_hash(image),
    }
    return entry, image


def sources_hash(variant: ProductVariant) -> str:
    """The SHA-256 of all that a kernel is compiled from, in the order of the files' names."""
    headers = ("epilogue.h", "wgmma.h", *HEADERS.get(variant.source, ()))
    headers += ("groups.h",) if variant.grouped else ()
    headers += ("joined.h",) if variant.joined else ()
    headers += ("image.h",) if variant.imaged else ()
    names = sorted({f"{variant.source}.cu", *headers})
    return image_hash(b"".join((KERNELS / "cuda" / name).read_bytes() for name in names))


def image_hash(image: bytes) -> str:
    return hashlib.sha256(image).hexdigest()


def stored(built: Sequence[Entry]) -> dict[str, bytes]:
    """The files that hold the machine code of these kernels; their entries are told where. Kernels
    of one kind with one size of head or tile lie in one file, as little of their code differs: so
    they are a third as large as one by one."""
    images: dict[str, bytes] = {}
    for entry, image in built:
        kind = re.match(r".*?_(d\d+(x\d+)?|few\d+|tiles?\d*)(?=_|$)", entry["name"])
        assert kind is not None, f"{entry['name']} has no size in its name"
        file = f"{kind[0]}.cubins.xz"
        place = {"file": file, "offset": len(images.get(file, b"")), "size": len(image)}
        hashed = entry.pop("hash")
        entry |= place | {"hash": hashed}
        images[file] = images.get(file, b"") + image
    return images


def write(folder: Path, built: Sequence[Entry]) -> str:
    """Writes the files for these kernels; how many kernels and bytes they are, in words."""
    files = {name: lzma.compress(one, preset=9) for name, one in stored(built).items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, packed in files.items():
        (folder / name).write_bytes(packed)
    return f"{len(built)} kernels, {sum(map(len, files.values()))} bytes"


def differing(folder: Path, built: Sequence[Entry]) -> list[str]:
    """The files in `folder` that do not hold these kernels."""
    return [
        name
        for name, images in stored(built).items()
        if not (folder / name).exists() or images_of(folder / name) != images
    ]


@cache
def images_of(path: Path) -> bytes:
    """The machine code that a file holds."""
    return lzma.decompress(path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    parser.add_argument("--out", type=Path, default=KERNELS, help="folder to write to")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, variants()))
    wrong = differing(arguments.out, built) if arguments.check else []
    words = "" if arguments.check else write(arguments.out, built)
    text = json.dumps({"nvrtc": "12.8", "kernels": [entry for entry, _ in built]}, indent=1) + "\n"
    if arguments.check:
        wrong += [] if (arguments.out / "products.json").read_text() == text else ["products.json"]
        print("differs: " + ", ".join(wrong) if wrong else "the same")
        return 1 if wrong else 0
    (arguments.out / "products.json").write_text(text)
    print(words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
