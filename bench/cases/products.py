"""Products of matrices beside attention on a CUDA GPU: IREE's, as configured, and PyTorch's.

Each product is rows x depth times depth x columns in f16, as a projection is: sums in f32, rounded
to f16. The second factor is stored as it stands, or by columns as linear layers have it. Times are
the GPU's, from CUPTI through torch's profiler, programs taking turns, copies included; errors are
relative L2 distances to float32. Rows of `unknown` products are known at run time alone, `odd`
ones have rows or columns that fill no tile.

bench/results/product_tiles_h200.json, a study of 2026-11-22, has each tile for each size, which is
what attn-configure's choice stands on.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.attention import K, Q, V, fresh_attention
from bench.device import gpu, load, to_iree, to_torch
from bench.harness import must_compile
from bench.results import Row, row
from bench.timing import gpu_microseconds, relative_error

SM_80 = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")
WAYS = {"iree": ["--attn-disable"], "attnpass": []}
TURNS = 9
# Rows, columns, depth: prompts of some lengths through Llama 3 8B's layers, BERT's, and squares.
SIZES = (
    *((rows, 4096, 4096) for rows in (128, 256, 512, 1024, 4096)),
    (512, 1024, 4096),
    (2048, 1024, 4096),
    (512, 14336, 4096),
    (512, 4096, 14336),
    (384, 768, 768),
    (384, 3072, 768),
    (384, 768, 3072),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
)
# Products that are compiled for any number of rows: how many, by columns and depth.
UNKNOWN = {(4096, 4096): (1, 77, 512, 777, 1333, 4096), (50257, 768): (1, 77, 777)}
# Rows, columns and depth: vocabularies, image tokens through ViTs' layers, an odd prompt, and V^T.
ODD_SIZES = (
    *((rows, 50257, 768) for rows in (64, 128, 256, 1024)),
    *((rows, 32001, 4096) for rows in (64, 128, 256, 1024)),
    *((197, *sizes) for sizes in ((768, 768), (3072, 768), (768, 3072))),
    *((257, *sizes) for sizes in ((1024, 1024), (4096, 1024), (1024, 4096))),
    *((1576, *sizes) for sizes in ((768, 768), (3072, 768), (768, 3072))),
    *((777, *sizes) for sizes in ((4096, 4096), (1024, 4096), (14336, 4096))),
    *((3001, *sizes) for sizes in ((4096, 4096), (1024, 4096))),
    (768, 197, 768),
    (1024, 777, 4096),
    (1024, 3001, 4096),
)
# Without attention beside it nothing is configured.
_QUERY = "tensor<1x128x64xf16>"
_READ = [("%q", _QUERY, read) for read in (Q, K, V)]
ATTENTION = "\n  %scale = arith.constant 0.125 : f16"
ATTENTION += fresh_attention("%a", [*_READ, ("%scale", "f16", "")], _QUERY) + "\n"


@dataclass(frozen=True)
class Product:
    part: str
    rows: int
    columns: int
    depth: int
    by_columns: bool = False

    @property
    def name(self) -> str:
        order = ", by columns" if self.by_columns else ""
        return f"{self.part} {self.rows}x{self.columns}x{self.depth}{order}"

    @property
    def function(self) -> str:
        """Of its module; one for all numbers of rows, if they are unknown."""
        rows = "" if self.part == "unknown" else f"r{self.rows}"
        return f"{rows}c{self.columns}d{self.depth}" + "t" * self.by_columns

    def text(self) -> str:
        is_unknown = self.part == "unknown"
        rows = "?" if is_unknown else self.rows
        right = "j, k" if self.by_columns else "k, j"
        maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("i, k", right, "i, j"))
        sizes = (self.columns, self.depth) if self.by_columns else (self.depth, self.columns)
        left, weight = (f"tensor<{a}x{b}xf16>" for a, b in ((rows, self.depth), sizes))
        result = f"tensor<{rows}x{self.columns}xf16>"
        wide = result.replace("f16", "f32")
        count = f"""
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : {left}"""
        return f"""
func.func @{self.function}(%x: {left}, %w: {weight}) -> {result} {{
  %zero = arith.constant 0.0 : f32{count if is_unknown else ""}
  %e = tensor.empty({"%rows" if is_unknown else ""}) : {wide}
  %z = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %p = linalg.matmul indexing_maps = [{maps}]
      ins(%x, %w : {left}, {weight}) outs(%z : {wide}) -> {wide}
  %r = arith.truncf %p : {wide} to {result}
  return %r : {result}
}}"""


def cases() -> list[Product]:
    orders = (False, True)
    found = [Product("known", *sizes, by_columns=order) for order in orders for sizes in SIZES]
    found += [Product("odd", *sizes, by_columns=order) for order in orders for sizes in ODD_SIZES]
    return found + [
        Product("unknown", rows, *sizes) for sizes, counts in UNKNOWN.items() for rows in counts
    ]


def compile(folder: Path, wanted: list[Product], _: argparse.Namespace) -> None:
    """Writes a .vmfb for each way, with a function for each product."""
    query, source = "tensor<1x128x64xf16>", folder / "source.mlir"
    main = f"func.func @main(%q: {query}) -> {query} {{{ATTENTION}  return %a : {query}\n}}"
    texts = {product.function: product.text() for product in wanted}
    source.write_text(main + "".join(texts.values()))
    for way, flags in WAYS.items():
        must_compile(source, folder / f"{way}.vmfb", *flags, *SM_80)


def run(folder: Path, product: Product, _: argparse.Namespace) -> Iterator[Row]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    config = gpu()
    x = torch.randn(product.rows, product.depth, device="cuda").half()
    w = (torch.randn(product.depth, product.columns, device="cuda") * product.depth**-0.5).half()
    wanted = (x.float() @ w.float()).cpu().numpy()
    stored = w.T.contiguous() if product.by_columns else w
    placed = [to_iree(config.device, one) for one in (x, stored)]
    errors: dict[str, dict[str, Any]] = {"cublas": {}}
    calls: dict[str, Any] = {"cublas": lambda: (x @ w, torch.cuda.synchronize())}
    for way in WAYS:
        function = load(config, folder / f"{way}.vmfb")[product.function]
        got = to_torch(function(*placed), torch.float16).float().cpu().numpy()
        errors[way] = {"error": relative_error(got, wanted)}
        calls[way] = lambda f=function: f(*placed).to_host()
    for way, spent in gpu_microseconds(calls, TURNS, lambda _: True).items():
        yield row(product.name, way, errors[way] | {"us": spent}, part=product.part)
