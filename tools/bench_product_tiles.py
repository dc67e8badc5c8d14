"""Measures products of matrices on a CUDA GPU by tile: what attn-configure's choice stands on.

    python tools/bench_product_tiles.py compile build/products      (needs attnpass)
    python tools/bench_product_tiles.py run build/products --json product_tiles.json
                                  (needs a GPU, torch and iree-base-runtime only)

Each product is rows x depth times depth x columns in f16, as a projection is: sums in f32, rounded
to f16. The second factor is stored as it stands, or by columns as linear layers have it. Times are
the GPU's, from CUPTI through torch's profiler, programs taking turns; errors are relative L2
distances to float32. PyTorch's product stands beside. `unknown` are products whose rows are known
at run time alone, by IREE and with attn-tile-products, copies included.
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
# Rows of products that are compiled for any number of them, columns and depth.
UNKNOWN_ROWS, UNKNOWN_SIZE = (1, 77, 512, 777, 1333, 4096), 4096
# Whether the second factor is stored by columns.
ORDERS = {"as it stands": False, "by columns": True}
TURNS = 9
# Runs attn-compile with this tile alone.
_WITH_TILE = """
import sys
import attnpass.configs.nvidia_contraction as contraction
from attnpass.cli.attn_compile import main
contraction.TILES = contraction.TILES[int(sys.argv[1]):][:1]
sys.exit(main(sys.argv[2:]))
"""
# Without attention beside it nothing is configured.
_ATTENTION = """
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
    arguments, results, body = [f"%q: {query}"], [query], _ATTENTION
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


def unknown_text() -> str:
    """@main: a query, factors of UNKNOWN_SIZE, the first with an unknown number of rows."""
    size, query = UNKNOWN_SIZE, "tensor<1x128x64xf16>"
    left, wide = (f"tensor<?x{size}x{kind}>" for kind in ("f16", "f32"))
    return f"""func.func @main(%q: {query}, %x: {left}, %w: tensor<{size}x{size}xf16>)
    -> ({query}, {left}) {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : {left}
{_ATTENTION}
  %e = tensor.empty(%rows) : {wide}
  %z = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %p = linalg.matmul ins(%x, %w : {left}, tensor<{size}x{size}xf16>) outs(%z : {wide}) -> {wide}
  %r = arith.truncf %p : {wide} to {left}
  return %a, %r : {query}, {left}
}}
"""


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each tile and order and for unknown rows, and manifest.json."""
    from attnpass.configs.nvidia_contraction import TILES

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


def compile_unknown(folder: Path) -> None:
    source = folder / "source.mlir"
    source.write_text(unknown_text())
    for name, flags in {"iree": ["--attn-disable"], "attnpass": []}.items():
        tool = ["-m", "attnpass.cli.attn_compile", *flags]
        _compile(tool, source, folder / f"unknown.{name}.vmfb")


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
    path.write_text(json.dumps(result, indent=1) + "\n")


def _unknown(config: Any, folder: Path) -> list[dict[str, Any]]:
    """Errors and microseconds of products of an unknown number of rows."""
    import torch

    mains = {
        name: load(config, folder / f"unknown.{name}.vmfb")["main"] for name in ("iree", "attnpass")
    }
    w = (torch.randn(UNKNOWN_SIZE, UNKNOWN_SIZE, device="cuda") * UNKNOWN_SIZE**-0.5).half()
    query, weight = (to_iree(config.device, one) for one in (w[:64].reshape(-1, 128, 64)[:1], w))
    found: list[dict[str, Any]] = []
    for rows in UNKNOWN_ROWS:
        x = torch.randn(rows, UNKNOWN_SIZE, device="cuda").half()
        placed, wanted = to_iree(config.device, x), (x.float() @ w.float()).cpu().numpy()
        row: dict[str, Any] = {"rows": rows}
        for name, main in mains.items():
            got = to_torch(main(query, placed, weight)[1], torch.float16).float().cpu().numpy()
            turns = [
                kernels_of(lambda f=main, a=placed: f(query, a, weight)[1].to_host())
                for _ in range(TURNS)
            ]
            spent = [sum(us for kernel, us in turn if "attention" not in kernel) for turn in turns]
            row[name] = {"error": relative_error(got, wanted), "microseconds": _median(spent)}
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
