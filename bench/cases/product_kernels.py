"""Products with precompiled kernels on a Hopper GPU, beside IREE's code and PyTorch's.

A product is rows x depth times weights stored (columns, depth), with what models do behind it:
bias, GELU (erf or tanh), SiLU, times a tensor or the product with other weights, plus a residual;
sums in f32, rounded to its type; in batches each product has its own weights. `beside` are further
products of the same rows, which a kernel computes in one launch. Weights may be stored
(depth, columns), results of sequences written with heads of 64 columns in front of rows, or
transposed. `right` cases have odd sizes, and run three times: the bits must
be the same. `timed` cases are those of whole blocks, `few` are of few rows and have their operands
in memory. Errors are relative L2 distances to float64;
times are the GPU's, from CUPTI through torch's profiler, programs taking turns, with operands in
the cache where they fit.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import gpu, load, several, to_iree, to_torch, torch_type
from bench.harness import must_compile
from bench.results import Row, row
from bench.timing import gpu_microseconds, relative_error

SM_90 = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--iree-input-type=torch")
WAYS = {"iree": "never", "kernel": "always"}
TURNS = 9
# More than a cache holds.
FLUSH_BYTES = 1 << 28
BEHIND = ("", "bias", "bias gelu", "bias tanh", "add", "bias add", "silu gated")
FEW_BEHIND = ("", "bias", "bias gelu", "add", "bias add", "silu multiply")
SIZES = (
    (300, 1032, 200), (64, 264, 72), (1777, 2056, 136), (513, 520, 4104),
    (129, 1000, 1000), (1000, 4104, 64), (700, 328, 328),
)  # fmt: skip
UNKNOWN_SIZES = (
    (130, 520, 72), (300, 264, 4096), (257, 1032, 328), (200, 776, 200),
    (515, 264, 64), (77, 520, 136), (333, 392, 1000),
)  # fmt: skip
# Weights stored (depth, columns), of known rows and of unknown ones.
TURNED_SIZES = (
    (1333, 1032, 200), (700, 328, 72), (2051, 776, 1000), (999, 2056, 136), (129, 1000, 4104),
    (3001, 520, 264),
)  # fmt: skip
# Sequences, rows of each, columns, depth; rows of transposes are the columns of a product.
SEQUENCES = {
    "heads": ((3, 77, 320, 200), (2, 513, 1024, 264)),
    "transposed": ((3, 200, 328, 136), (2, 520, 1000, 264)),
}
FEW_SIZES = (
    (1, 8, 8), (8, 1000, 1000), (3, 264, 72), (5, 4104, 4096), (7, 1000, 328), (2, 520, 136),
    (16, 1032, 4096), (9, 264, 72), (12, 4104, 1000), (15, 520, 200), (16, 72, 328), (11, 1000, 64),
)  # fmt: skip
BATCH_SIZES = (
    (3, 300, 1032, 200), (5, 64, 264, 72), (2, 513, 520, 4104), (4, 129, 1000, 1000),
    (7, 5, 264, 72), (3, 16, 1032, 4096), (5, 33, 520, 200), (6, 77, 328, 328), (9, 1, 4104, 128),
    (4, 77, 77, 64), (3, 130, 1001, 61), (5, 64, 7, 333),
)  # fmt: skip
BATCH_BEHIND = ("", "bias", "add", "silu gated", "bias silu", "", "bias add", "bias tanh", "")
TIMED_BATCHES = (
    ((8, 512, 4096, 4096), "nk", ""),
    ((8, 512, 4096, 4096), "kn", ""),
    ((8, 384, 7168, 2048), "nk", "silu gated"),
    ((64, 64, 1408, 2048), "nk", ""),
    ((8, 8, 14336, 2048), "kn", ""),
    ((128, 16, 512, 128), "kn", ""),
    ((32, 2048, 2048, 128), "nk", ""),
    ((32, 2048, 128, 2048), "kn", ""),
    ((64, 576, 576, 64), "nk", ""),
    ((16, 1024, 1024, 1024), "nk", ""),
    ((256, 1, 4096, 128), "nk", ""),
    ((256, 1, 128, 4096), "kn", ""),
    ((4, 128, 128, 128), "nk", ""),
    ((96, 196, 197, 96), "nk", ""),
    ((96, 196, 96, 197), "kn", ""),
    ((128, 577, 577, 64), "nk", ""),
    ((128, 577, 64, 577), "kn", ""),
)
TIMED = (
    ("f16", (4096, 4096, 4096), ""),
    ("bf16", (4096, 4096, 4096), ""),
    ("f16", (2048, 14336, 4096), ""),
    ("f16", (9232, 4096, 1024), "bias gelu"),
    ("f16", (8, 14336, 4096), ""),
    ("f16", (9232, 1024, 4096), "bias add"),
    ("f16", (9232, 1024, 1024), "bias add"),
    ("f16", (7501, 3072, 1024), "bias"),
    ("f16", (4112, 1280, 5120), "bias add"),
    ("f16", (11664, 1152, 4304), "bias add"),
    ("f16", (1777, 6144, 4096), ""),
    ("f16", (2048, 14336, 4096), "silu gated"),
    ("f16", (16, 4096, 4096), ""),
    ("f16", (64, 4096, 4096), ""),
    ("f16", (4616, 2730, 1024), "bias"),
    ("f16", (4616, 1024, 2730), "bias add"),
    ("f16", (4616, 5, 1024), ""),
    ("f16", (4616, 100, 1024), "bias"),
    ("f16", (2048, 8, 4096), ""),
    ("f16", (2048, 16, 4096), ""),
    ("f16", (4096, 64, 2048), ""),
    ("f16", (8, 50257, 768), ""),
    ("f16", (512, 50257, 768), ""),
    ("f16", (4096, 30522, 1024), "bias"),
)
# Of f32, beside PyTorch without TF32, as it comes.
TIMED_F32 = (
    ((4096, 4096, 4096), ""),
    ((2048, 14336, 4096), ""),
    ((1777, 6144, 4096), ""),
    ((12608, 3072, 768), "bias gelu"),
    ((12608, 768, 3072), "bias add"),
    ((8192, 1024, 1024), "bias"),
    ((2048, 1024, 2730), "bias add"),
    ((512, 3072, 768), "bias gelu"),
    ((512, 768, 3072), "bias add"),
    ((512, 768, 768), "bias"),
    ((128, 768, 768), ""),
    ((64, 4096, 4096), ""),
    ((8, 4096, 4096), ""),
)
TIMED_F32_BATCHES = ((16, 1024, 1024, 1024), (96, 512, 512, 64), (128, 197, 64, 197))
# Few rows, with weights from memory.
FEW_ROWS = (8, 64)
FEW_TIMED = (
    (1024, 4096), (1280, 5120), (2048, 4096), (3072, 4096), (4096, 4096), (4096, 14336),
    (6144, 4096), (8192, 4096), (14336, 4096), (28672, 4096),
)  # fmt: skip
# Few columns of many rows.
NARROW_SIZES = ((304, 5, 2048), (1776, 8, 1000), (3000, 16, 72), (2048, 40, 4104), (1000, 64, 264))
# Further products of the same rows: rows, columns of each, depth.
JOINED_SIZES = (
    ((300, (1032, 264, 520), 200), "bias"), ((777, (328, 72), 1000), ""),
    ((5, (264, 520, 136), 72), "bias"), ((14, (1032, 8), 328), "bias"),
    ((33, (520, 264, 1000), 4096), ""), ((64, (72, 1416), 264), "bias"),
    ((16, (14336, 520), 136), ""), ((40, (9000, 136, 4104), 72), "bias"),
    ((50, (1504, 1000, 520), 264), "bias"),
)  # fmt: skip
TIMED_JOINED = (
    ((4096, (1024, 1024, 1024), 1024), "bias"),
    ((2048, (4096, 1024, 1024), 4096), ""),
    ((2048, (2048, 2048, 2048), 2048), "bias"),
    ((1232, (768, 768, 768), 768), "bias"),
    ((4096, (1024, 1024), 1024), "bias"),
    ((2048, (4096, 16), 4096), ""),
)
FEW_JOINED = ((8, (4096, 1024, 1024), 4096), (4, (1280, 1280, 1280), 1280))
# Columns and depths that 8 does not divide.
ODD_SIZES = (
    ((300, 1001, 333), "bias add", False, "nk"),
    ((300, 333, 1001), "bias gelu", True, "nk"),
    ((200, 77, 250), "silu gated", False, "kn"),
    ((5, 257, 100), "bias", False, "nk"),
    ((40, 77, 1001), "add", False, "kn"),
)


@dataclass(frozen=True)
class KernelProduct:
    part: str
    kind: str
    rows: int
    columns: int
    depth: int
    behind: str = ""
    unknown: bool = False
    batch: int = 0
    weights: str = "nk"
    sequences: int = 0
    written: str = ""
    beside: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        lead = [size for size in (self.batch, self.sequences) if size]
        size = [*lead, self.rows, self.columns, self.depth]
        words = [self.kind, "x".join(map(str, size)), *["kn"] * (self.weights == "kn")]
        words += [self.written] if self.written else []
        words += ["beside", "x".join(map(str, self.beside))] if self.beside else []
        words += [*self.behind.split(), *["unknown rows"] * self.unknown]
        return " ".join([*words, *["from memory"] * (self.part == "few")])

    @property
    def function(self) -> str:
        return "p_" + self.name.replace(" ", "_")

    @property
    def ways(self) -> tuple[str, ...]:
        # IREE's code reads a row behind the last of batches whose tiles are not full: an illegal
        # address where nothing lies there.
        is_read_beyond = self.batch and self.rows > 64 and self.rows % 64
        return tuple(WAYS) if self.part == "timed" and not is_read_beyond else ("kernel",)

    @property
    def is_timed(self) -> bool:
        return self.part in ("timed", "few")

    def operands(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name, in the function's order."""
        words, lead = self.behind.split(), (self.batch,) if self.batch else ()
        weights = (*lead, self.columns, self.depth)
        if self.weights == "kn":
            weights = (*lead, self.depth, self.columns)
        rows = (self.sequences, self.rows) if self.sequences else (*lead, self.rows)
        found: dict[str, tuple[int, ...]] = {"left": (*rows, self.depth), "w": weights}
        found |= {"gate": weights} if "gated" in words else {}
        found |= {"bias": (*lead, *(1 for _ in lead), self.columns)} if "bias" in words else {}
        for at, columns in enumerate(self.beside):
            lies = (columns, self.depth)
            found |= {f"w{at}": lies if self.weights == "nk" else lies[::-1]}
            found |= {f"bias{at}": (columns,)} if "bias" in words else {}
        reads_other = {"add", "multiply"} & set(words)
        return found | ({"other": (*lead, self.rows, self.columns)} if reads_other else {})

    def text(self) -> str:
        """A function in IREE's torch dialect."""
        import torch

        from bench.models.programs import text_of

        class Block(torch.nn.Module):
            def forward(self, *given: Any) -> Any:
                return _torch(product, dict(zip(product.operands(), given, strict=True)))

        product = self
        sizes = [torch.export.Dim(name, max=1 << 16) for name in ("batch", "rows")]
        kind, shapes = torch_type(self.kind), self.operands()
        given = [torch.empty(shape, dtype=kind) for shape in shapes.values()]
        unknown = [self._open(name, *sizes) if self.unknown else None for name in shapes]
        _, _, text = text_of(Block(), given, unknown).partition("{\n")
        return text.rpartition("}")[0].replace("@main", f"@{self.function}", 1)

    def _open(self, name: str, batch: Any, rows: Any) -> dict[int, Any] | None:
        """The sizes of an operand that the program leaves open."""
        by_rows = name in ("left", "other")
        if self.batch:
            return {0: batch, 1: rows} if by_rows else {0: batch}
        if self.sequences:
            return {1: rows} if by_rows else None
        return {0: rows} if by_rows else None


def cases() -> list[KernelProduct]:
    found = [KernelProduct("timed", kind, *size, behind) for kind, size, behind in TIMED]
    for columns in (14336, 6144, 4096):
        found.append(KernelProduct("timed", "f16", 1777, columns, 4096, unknown=True))
    for size, behind in TIMED_F32:
        found.append(KernelProduct("timed", "f32", *size, behind))
    found.append(KernelProduct("timed", "f32", 1777, 6144, 4096, unknown=True))
    for batch, rows, n, k in TIMED_F32_BATCHES:
        found.append(KernelProduct("timed", "f32", rows, n, k, batch=batch))
    for (batch, rows, n, k), weights, behind in TIMED_BATCHES:
        found.append(KernelProduct("timed", "f16", rows, n, k, behind, False, batch, weights))
    for part, sizes in (("timed", TIMED_JOINED), ("few", [(one, "") for one in FEW_JOINED])):
        for (m, (n, *beside), k), behind in sizes:
            made = KernelProduct(part, "f16", m, n, k, behind, beside=tuple(beside))
            found.append(made)
    for n, k in FEW_TIMED:
        for weights in ("nk", "kn"):
            for rows in FEW_ROWS:
                found.append(KernelProduct("few", "f16", rows, n, k, weights=weights))
    for kind in ("f16", "bf16", "f32"):
        for (m, (n, *beside), k), behind in JOINED_SIZES if kind != "f32" else ():
            for lie, is_open in (("nk", False), ("kn", False), ("nk", True)):
                lies = (is_open, 0, lie, 0, "", tuple(beside))
                found.append(KernelProduct("right", kind, m + 60 * is_open, n, k, behind, *lies))
        for place, size in enumerate(NARROW_SIZES):
            lie = ("nk", "kn")[place % 2]
            found.append(KernelProduct("right", kind, *size, weights=lie))
        for size, behind, is_open, weights in ODD_SIZES:
            found.append(KernelProduct("right", kind, *size, behind, is_open, weights=weights))
        for place, behind in enumerate(BEHIND):
            unknown = UNKNOWN_SIZES[place]
            found.append(KernelProduct("right", kind, *SIZES[place], behind))
            found.append(KernelProduct("right", kind, *unknown, behind, unknown=True))
        for place, size in enumerate(TURNED_SIZES):
            for is_open in (False, True):
                behind = BEHIND[place]
                found.append(KernelProduct("right", kind, *size, behind, is_open, 0, "kn"))
        for written, sizes in SEQUENCES.items():
            for sequences, rows, n, k in sizes:
                behind = "bias" if written == "heads" else ""
                for is_open in (False, True)[: 2 if behind else 1]:
                    lies = (0, "nk", sequences, written)
                    found.append(KernelProduct("right", kind, rows, n, k, behind, is_open, *lies))
        for place, size in enumerate(FEW_SIZES):
            found.append(KernelProduct("right", kind, *size, FEW_BEHIND[place % 6]))
        for place, (batch, m, n, k) in enumerate(BATCH_SIZES):
            for lie, is_open in (("nk", False), ("kn", False), (("nk", "kn")[place % 2], True)):
                behind, rows = BATCH_BEHIND[(place + 2 * is_open) % 9], m + 60 * is_open
                made = KernelProduct("right", kind, rows, n, k, behind, is_open, batch, lie)
                found.append(made)
    return found


def compile(folder: Path, wanted: list[KernelProduct], _: argparse.Namespace) -> None:
    """Writes a .vmfb for each way, with a function for each product. Needs torch."""
    for way, mode in WAYS.items():
        source = folder / f"{way}.mlir"
        texts = [product.text() for product in wanted if way in product.ways]
        if not texts:
            continue
        source.write_text("".join(["module {\n", *texts, "}\n"]))
        must_compile(source, folder / f"{way}.vmfb", f"--attn-products={mode}", *SM_90)


def run(folder: Path, product: KernelProduct, _: argparse.Namespace) -> Iterator[Row]:
    import torch

    torch.manual_seed(0)
    config, kind = gpu(), torch_type(product.kind)
    given = {}
    for name, shape in product.operands().items():
        factor = product.depth**-0.5 if name in ("w", "gate") else 1.0
        given[name] = (torch.randn(*shape, device="cuda") * factor).to(kind)
    exact = _torch(product, {name: one.double() for name, one in given.items()})
    wanted = [one.cpu().numpy() for one in several(exact)]

    def worst(found: Any) -> float:
        pairs = zip(several(found), wanted, strict=True)
        return max(relative_error(one.double().cpu().numpy(), right) for one, right in pairs)

    placed = [to_iree(config.device, one) for one in given.values()]
    errors: dict[str, dict[str, Any]] = {"torch": {"error": worst(_torch(product, given))}}
    calls: dict[str, Any] = {"torch": lambda: (_torch(product, given), torch.cuda.synchronize())}
    for way in product.ways:
        function = load(config, folder / f"{way}.vmfb")[product.function]
        got = [[to_torch(one, kind) for one in several(function(*placed))] for _ in range(3)]
        errors[way] = {"error": worst(got[0])}
        errors[way]["same_bits"] = all(
            torch.equal(one, other)
            for again in got[1:]
            for one, other in zip(got[0], again, strict=True)
        )
        calls[way] = lambda f=function: several(f(*placed))[0].to_host()
    filled = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    before = (lambda: (filled.zero_(), torch.cuda.synchronize())) if product.part == "few" else None
    times = gpu_microseconds(calls, TURNS, before) if product.is_timed else {}
    for way, found in errors.items():
        spent = {"us": times[way]} if way in times else {}
        yield row(product.name, way, found | spent, part=product.part)


def _torch(product: KernelProduct, given: dict[str, Any]) -> Any:
    """The product in PyTorch, in the operands' type."""
    from torch.nn import functional

    if product.beside:
        names = [("w", "bias"), *((f"w{at}", f"bias{at}") for at in range(len(product.beside)))]
        turned = product.weights == "nk"
        made = [given["left"] @ (given[w].mT if turned else given[w]) for w, _ in names]
        pairs = zip(made, names, strict=True)
        return [value + given[bias] if bias in given else value for value, (_, bias) in pairs]

    def times(name: str) -> Any:
        weights = given[name]
        if product.written == "transposed":
            return weights @ given["left"].mT
        return given["left"] @ (weights.mT if product.weights == "nk" else weights)

    value = times("w")
    for word in product.behind.split():
        if word in ("bias", "add"):
            value = value + given["bias" if word == "bias" else "other"]
        elif word in ("gelu", "tanh"):
            value = functional.gelu(value, approximate="tanh" if word == "tanh" else "none")
        elif word == "silu":
            value = functional.silu(value)
        else:
            value = value * (times("gate") if word == "gated" else given["other"])
    if product.written == "heads":
        return value.unflatten(-1, (-1, 64)).transpose(1, 2).contiguous()
    return value
