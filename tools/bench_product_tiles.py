"""Measures products of matrices on a CUDA GPU by tile: what attn-configure's choice stands on.

    python tools/bench_product_tiles.py compile build/products      (needs attnpass)
    python tools/bench_product_tiles.py run build/products --json product_tiles.json
                                  (needs a GPU, torch and iree-base-runtime only)

Each product is rows x depth times depth x columns in f16, as a projection is: sums in f32, rounded
to f16. The second factor is stored as it stands, or by columns as linear layers have it. Times are
the GPU's, from CUPTI through torch's profiler, programs taking turns; errors are relative L2
distances to float32. PyTorch's product stands beside. `unknown` are products whose rows are known
at run time alone, by IREE and with attn-tile-products, copies included; `odd` are those with a
known number of rows or columns that fills no tile, by IREE, as configured, and with
attn-tile-products in any case.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_configure import kernels_of, relative_error
from iree_device import load, to_iree, to_torch

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
# Whether the second factor is stored by columns.
ORDERS = {"as it stands": False, "by columns": True}
TURNS = 9
# Runs attn-compile with attn-tile-products nowhere, or wherever it can.
_TILING = """
import sys
import attnpass.gpu.tile_products as tiles
from attnpass.cli.attn_compile import main
tiles.pays = lambda *_: {}
sys.exit(main(sys.argv[1:]))
"""
ODD_WAYS = {
    "iree": ["-m", "attnpass.cli.attn_compile", "--attn-disable"],
    "configured": ["-c", _TILING.format(False)],
    "tiled": ["-c", _TILING.format(True)],
}
# Runs attn-compile with this tile alone.
_WITH_TILE = """
import sys
import attnpass.machines.nvidia.contractions as contraction
from attnpass.cli.attn_compile import main
contraction.TILES = contraction.TILES[int(sys.argv[1]):][:1]
sys.exit(main(sys.argv[2:]))
"""
# Without attention beside it nothing is configured.
ATTENTION = """
  %scale = arith.constant 0.125 : f16
  %ae = tensor.empty() : tensor<1x128x64xf16>
  %a = iree_linalg_ext.attention <indexing_maps = [
        affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
        affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
        affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %q, %q, %scale
          : tensor<1x128x64xf16>, tensor<1x128x64xf16>, tensor<1x128x64xf16>, f16)
      outs(%ae : tensor<1x128x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x128x64xf16>
"""


def module_text(by_columns: bool) -> str:
    """@main: a left and a right factor of each size, and a query, to the products and a result
    of attention."""
    right = "j, k" if by_columns else "k, j"
    maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("i, k", right, "i, j"))
    query = "tensor<1x128x64xf16>"
    arguments, results, body = [f"%q: {query}"], [query], ATTENTION
    for i, (rows, columns, depth) in enumerate(SIZES):
        sizes = (columns, depth) if by_columns else (depth, columns)
        left, right = (f"tensor<{a}x{b}xf16>" for a, b in ((rows, depth), sizes))
        result = f"tensor<{rows}x{columns}xf16>"
        wide = result.replace("f16", "f32")
        arguments += [f"%x{i}: {left}", f"%w{i}: {right}"]
        results.append(result)
        body += f"""
  %e{i} = tensor.empty() : {wide}
  %z{i} = linalg.fill ins(%zero : f32) outs(%e{i} : {wide}) -> {wide}
  %p{i} = linalg.matmul indexing_maps = [{maps}]
      ins(%x{i}, %w{i} : {left}, {right}) outs(%z{i} : {wide}) -> {wide}
  %r{i} = arith.truncf %p{i} : {wide} to {result}"""
    values = ", ".join(["%a", *(f"%r{i}" for i in range(len(SIZES)))])
    types = ", ".join(results)
    return f"""func.func @main({", ".join(arguments)}) -> ({types}) {{
  %zero = arith.constant 0.0 : f32
{body}
  return {values} : {types}
}}
"""


def unknown_text(columns: int, depth: int) -> str:
    """@main: a query, and factors, the first with an unknown number of rows."""
    query, weight = "tensor<1x128x64xf16>", f"tensor<{depth}x{columns}xf16>"
    left, result = f"tensor<?x{depth}xf16>", f"tensor<?x{columns}xf16>"
    wide = result.replace("f16", "f32")
    return f"""func.func @main(%q: {query}, %x: {left}, %w: {weight}) -> ({query}, {result}) {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : {left}
{ATTENTION}
  %e = tensor.empty(%rows) : {wide}
  %z = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %p = linalg.matmul ins(%x, %w : {left}, {weight}) outs(%z : {wide}) -> {wide}
  %r = arith.truncf %p : {wide} to {result}
  return %a, %r : {query}, {result}
}}
"""


def odd_text(by_columns: bool) -> str:
    """@main: attention of a query; and a function for each of ODD_SIZES, of two factors."""
    query, functions = "tensor<1x128x64xf16>", ""
    right = "j, k" if by_columns else "k, j"
    maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("i, k", right, "i, j"))
    for rows, columns, depth in ODD_SIZES:
        sizes = (columns, depth) if by_columns else (depth, columns)
        left, right = (f"tensor<{a}x{b}xf16>" for a, b in ((rows, depth), sizes))
        result = f"tensor<{rows}x{columns}xf16>"
        wide = result.replace("f16", "f32")
        functions += f"""
func.func @r{rows}c{columns}d{depth}(%x: {left}, %w: {right}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {wide}
  %z = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %p = linalg.matmul indexing_maps = [{maps}]
      ins(%x, %w : {left}, {right}) outs(%z : {wide}) -> {wide}
  %r = arith.truncf %p : {wide} to {result}
  return %r : {result}
}}"""
    main = f"func.func @main(%q: {query}) -> {query} {{{ATTENTION}  return %a : {query}\n}}"
    return main + functions


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each tile and order, for unknown rows and odd columns, and
    manifest.json."""
    from attnpass.machines.nvidia.contractions import TILES

    folder.mkdir(parents=True, exist_ok=True)
    source, manifest = folder / "source.mlir", []
    tools = {"iree": ["-m", "attnpass.cli.attn_compile", "--attn-disable"]}
    for i, tile in enumerate(TILES):
        tools[f"{tile.rows} x {tile.columns} x {tile.depth}"] = ["-c", _WITH_TILE, str(i)]
    for order, by_columns in ORDERS.items():
        source.write_text(module_text(by_columns))
        for name, tool in tools.items():
            path = folder / f"{len(manifest)}.vmfb"
            _compile(tool, source, path)
            manifest.append({"tile": name, "order": order, "file": path.name})
            print(order, name, flush=True)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    compile_unknown(folder)
    compile_odd(folder)


def compile_unknown(folder: Path) -> None:
    source = folder / "source.mlir"
    for columns, depth in UNKNOWN:
        source.write_text(unknown_text(columns, depth))
        for name, flags in {"iree": ["--attn-disable"], "attnpass": []}.items():
            tool = ["-m", "attnpass.cli.attn_compile", *flags]
            _compile(tool, source, folder / f"unknown.{columns}.{name}.vmfb")


def compile_odd(folder: Path) -> None:
    source = folder / "source.mlir"
    for order, by_columns in ORDERS.items():
        source.write_text(odd_text(by_columns))
        for name, tool in ODD_WAYS.items():
            _compile(tool, source, folder / f"odd.{order}.{name}.vmfb")


def _compile(tool: list[str], source: Path, path: Path) -> None:
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "-o", str(path)]
    subprocess.run([sys.executable, *tool, str(source), *flags], check=True, timeout=600)


def run_all(folder: Path, path: Path) -> None:
    """Checks and measures all."""
    import torch
    from iree import runtime

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    config = runtime.Config("cuda")

    def draw(*sizes: int) -> Any:
        return torch.randn(sizes, device="cuda")

    given = [
        (draw(rows, depth).half(), (draw(depth, columns) * depth**-0.5).half())
        for rows, columns, depth in SIZES
    ]
    wanted = [(x.float() @ w.float()).cpu().numpy() for x, w in given]
    query = to_iree(config.device, draw(1, 128, 64).half())
    placed = {
        order: [
            to_iree(config.device, factor)
            for x, w in given
            for factor in (x, w.T.contiguous() if by_columns else w)
        ]
        for order, by_columns in ORDERS.items()
    }
    rows: list[dict[str, Any]] = []
    calls: list[Callable[[], Any]] = []
    for entry in json.loads((folder / "manifest.json").read_text()):
        main, arguments = load(config, folder / entry["file"])["main"], placed[entry["order"]]
        got = [
            to_torch(one, torch.float16).float().cpu().numpy() for one in main(query, *arguments)
        ]
        errors = [relative_error(one, right) for one, right in zip(got[1:], wanted, strict=True)]
        rows.append({"tile": entry["tile"], "order": entry["order"], "error": max(errors)})
        calls.append(lambda f=main, a=arguments: f(query, *a)[-1].to_host())
    times: list[dict[str, list[float]]] = [{} for _ in calls]
    for turn in range(TURNS):
        for i in random.Random(turn).sample(range(len(calls)), len(calls)):
            for kernel, microseconds in kernels_of(calls[i]):
                found = re.search(r"_(\d+x\d+x\d+)_f16xf16xf32", kernel)
                if found:
                    times[i].setdefault(found[1], []).append(microseconds)
    for row, found in zip(rows, times, strict=True):
        row["microseconds"] = {size: _median(spent) for size, spent in found.items()}
        assert len(found) == len(SIZES), f"{row}: {len(found)} of {len(SIZES)} kernels"
        print(json.dumps(row), flush=True)
    result = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    result |= {"rows": rows, "cublas": _cublas(given), "unknown": _unknown(config, folder)}
    result |= {"odd": _odd(config, folder)}
    path.write_text(json.dumps(result, indent=1) + "\n")


def _unknown(config: Any, folder: Path) -> list[dict[str, Any]]:
    """Errors and microseconds of products of an unknown number of rows."""
    import torch

    found: list[dict[str, Any]] = []
    query = to_iree(config.device, torch.randn(1, 128, 64).half())
    for (columns, depth), counts in UNKNOWN.items():
        mains = {
            name: load(config, folder / f"unknown.{columns}.{name}.vmfb")["main"]
            for name in ("iree", "attnpass")
        }
        w = (torch.randn(depth, columns, device="cuda") * depth**-0.5).half()
        weight = to_iree(config.device, w)
        for rows in counts:
            x = torch.randn(rows, depth, device="cuda").half()
            placed, wanted = to_iree(config.device, x), (x.float() @ w.float()).cpu().numpy()
            row: dict[str, Any] = {"size": f"{rows}x{columns}x{depth}"}
            for name, main in mains.items():
                got = to_torch(main(query, placed, weight)[1], torch.float16)
                turns = [
                    kernels_of(lambda f=main, a=(placed, weight): f(query, *a)[1].to_host())
                    for _ in range(TURNS)
                ]
                spent = [
                    sum(us for kernel, us in turn if "attention" not in kernel) for turn in turns
                ]
                error = relative_error(got.float().cpu().numpy(), wanted)
                row[name] = {"error": error, "microseconds": _median(spent)}
            found.append(row)
            print(json.dumps(row), flush=True)
    return found


def _odd(config: Any, folder: Path) -> list[dict[str, Any]]:
    """Errors and microseconds of products with an odd number of columns."""
    import torch

    found: list[dict[str, Any]] = []
    for order, by_columns in ORDERS.items():
        ways = {name: load(config, folder / f"odd.{order}.{name}.vmfb") for name in ODD_WAYS}
        for rows, columns, depth in ODD_SIZES:
            x = torch.randn(rows, depth, device="cuda").half()
            w = (torch.randn(depth, columns, device="cuda") * depth**-0.5).half()
            wanted = (x.float() @ w.float()).cpu().numpy()
            placed = [
                to_iree(config.device, one) for one in (x, w.T.contiguous() if by_columns else w)
            ]
            row: dict[str, Any] = {"order": order, "size": f"{rows}x{columns}x{depth}"}
            spent: dict[str, list[float]] = {name: [] for name in ways}
            calls = {
                name: functions[f"r{rows}c{columns}d{depth}"] for name, functions in ways.items()
            }
            for name, call in calls.items():
                got = to_torch(call(*placed), torch.float16).float().cpu().numpy()
                row[name] = {"error": relative_error(got, wanted)}
            for turn in range(TURNS):
                for name in random.Random(turn).sample(list(calls), len(calls)):
                    kernels = kernels_of(lambda f=calls[name], a=placed: f(*a).to_host())
                    spent[name].append(sum(us for _, us in kernels))
            for name, times in spent.items():
                row[name]["microseconds"] = _median(times)
            found.append(row)
            print(json.dumps(row), flush=True)
    return found


def _cublas(given: list[tuple[Any, Any]]) -> dict[str, float]:
    """Microseconds of PyTorch's products."""
    import torch

    found: dict[str, float] = {}
    for size, (x, w) in zip(SIZES, given, strict=True):

        def call(x: Any = x, w: Any = w) -> None:
            torch.matmul(x, w)
            torch.cuda.synchronize()

        call()
        spent = [sum(one for _, one in kernels_of(call)) for _ in range(TURNS)]
        found["x".join(map(str, size))] = _median(spent)
    return found


def _median(microseconds: list[float]) -> float:
    return round(statistics.median(microseconds), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("product_tiles.json"))
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folder)
    else:
        run_all(arguments.folder, arguments.json)


if __name__ == "__main__":
    main()
