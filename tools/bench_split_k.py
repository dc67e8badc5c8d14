"""Measures attn-split-k: decode attention against IREE's default and against PyTorch.

    python tools/bench_split_k.py cpu --json bench/results/split_k_cpu.json
    python tools/bench_split_k.py cpu-page                         (rewrites docs/split-k.md)
    python tools/bench_split_k.py compile build/split-k            (needs attnpass; cuda code)
    python tools/bench_split_k.py run build/split-k --json gpu.json  (needs a GPU, torch, and
                                                                    iree-base-runtime only)

`cpu` compiles for the host and times calls on local-task. `compile` writes a .vmfb for each
variant of each shape and a manifest; `run` times them beside PyTorch's FlashAttention and
cuDNN in one process and checks every result against float32. On the GPU a step is timed as
the slope between functions that do few and many dependent steps, so that calling costs and
transfers drop out. GB/s count K and V once.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iree_device import load

FEW, MANY = 4, 24


@dataclass(frozen=True)
class Shape:
    """`heads` = batch x heads of K and V, each with `rows` queries over `keys` keys."""

    heads: int
    rows: int
    keys: int
    head_dim: int = 128
    element: str = "f16"

    @property
    def name(self) -> str:
        return f"{self.heads}x{self.rows}x{self.keys}"

    @property
    def bytes(self) -> int:
        """Of K and V."""
        size = {"f32": 4, "f16": 2}[self.element]
        return 2 * self.heads * self.keys * self.head_dim * size


# Decode as in codegen measurements; the last two have grouped queries.
GPU_SHAPES = (
    Shape(64, 1, 16384),
    Shape(32, 1, 65536),
    Shape(256, 1, 4096),
    Shape(8, 1, 65536),
    Shape(32, 1, 4096),
    Shape(128, 4, 16384),
)
GPU_SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
CHECK_LENGTHS = (1, 7, 1000, 4097, 65536)
CPU_SHAPES = tuple(
    Shape(heads, rows, keys, element="f32")
    for heads, rows, keys in (
        (1, 4, 4096), (1, 4, 8192), (1, 4, 16384), (1, 4, 65536), (1, 1, 65536), (2, 4, 16384)
    )
)  # fmt: skip
CPU_SPLITS = ("", "1", "2", "4", "8")
CPU_ROUNDS, CPU_CALLS = 25, 3


def steps_module(
    shape: Shape,
    counts: dict[str, int],
    mask: bool = False,
    dynamic: bool = False,
    transposed: bool = False,
) -> str:
    """MLIR text: one function for each (name, number of dependent attention steps); `transposed`
    takes V with keys innermost."""
    keys = "?" if dynamic else shape.keys
    q = f"tensor<{shape.heads}x{shape.rows}x{shape.head_dim}x{shape.element}>"
    k = f"tensor<{shape.heads}x{keys}x{shape.head_dim}x{shape.element}>"
    v = f"tensor<{shape.heads}x{shape.head_dim}x{keys}x{shape.element}>" if transposed else k
    m = f"tensor<{shape.heads}x{shape.rows}x{keys}xi1>"
    value = "b, n, k2" if transposed else "b, k2, n"
    letters = ["b, m, k1", "b, k2, k1", value, "", *(["b, m, k2"] if mask else []), "b, m, n"]
    maps = ", ".join(f"affine_map<(b, m, n, k1, k2) -> ({text})>" for text in letters)
    extra, of = (", %mask", f", {m}") if mask else ("", "")
    functions = []
    for name, count in counts.items():
        steps = [
            f"""
  %e{i} = tensor.empty() : {q}
  %q{i + 1} = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins(%q{i}, %k, %v, %scale{extra} : {q}, {k}, {v}, {shape.element}{of}) outs(%e{i} : {q}) {{
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  }} -> {q}"""
            for i in range(count)
        ]
        functions.append(
            f"func.func @{name}(%q0: {q}, %k: {k}, %v: {v}"
            f"{', %mask: ' + m if mask else ''}) -> {q} {{\n"
            f"  %scale = arith.constant {shape.head_dim**-0.5} : {shape.element}"
            f"{''.join(steps)}\n  return %q{count} : {q}\n}}"
        )
    return "\n".join(functions) + "\n"


# A Llama-like layer at batch 1: model width, heads, heads of K and V, head dim, hidden width.
WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN = 4096, 32, 8, 128, 14336
LAYER_KEYS = (4096, 16384, 65536, 131072)
LAYER_WEIGHTS = {
    "wq": (WIDTH, WIDTH),
    "wk": (WIDTH, KV_HEADS * HEAD),
    "wv": (WIDTH, KV_HEADS * HEAD),
    "wo": (WIDTH, WIDTH),
    "w1": (WIDTH, HIDDEN),
    "w3": (WIDTH, HIDDEN),
    "w2": (HIDDEN, WIDTH),
}


def layer_module(keys: int, counts: dict[str, int]) -> str:
    """MLIR text: decode steps of a layer without norms and positions, each on the last one's
    output: projections (the new key and value are results of the last step), attention over
    the cache, output projection, gated MLP, both with their residuals."""

    def tensor(*sizes: int, kind: str = "f16") -> str:
        return f"tensor<{'x'.join(map(str, sizes))}x{kind}>"

    def matmul(result: str, x: str, weight: str) -> str:
        rows, columns = LAYER_WEIGHTS[weight]
        wide, narrow = tensor(1, columns, kind="f32"), tensor(1, columns)
        return f"""
  %{result}e = tensor.empty() : {wide}
  %{result}z = linalg.fill ins(%zero : f32) outs(%{result}e : {wide}) -> {wide}
  %{result}w = linalg.matmul ins(%{x}, %{weight} : {tensor(1, rows)}, {tensor(rows, columns)})
      outs(%{result}z : {wide}) -> {wide}
  %{result} = arith.truncf %{result}w : {wide} to {narrow}"""

    q4, o4 = tensor(1, KV_HEADS, HEADS // KV_HEADS, HEAD), tensor(1, WIDTH)
    cache, new = tensor(1, KV_HEADS, keys, HEAD), tensor(1, KV_HEADS * HEAD)
    hidden = tensor(1, HIDDEN)
    groups, heads = "[[0], [1, 2, 3]]", f"[1, {KV_HEADS}, {HEADS // KV_HEADS}, {HEAD}]"
    letters = ["b, h, g, d", "b, h, k, d", "b, h, k, n", "", "b, h, g, n"]
    maps = ", ".join(f"affine_map<(b, h, g, n, d, k) -> ({text})>" for text in letters)

    def step(i: int) -> str:
        return (
            matmul(f"q{i}", f"x{i}", "wq")
            + matmul(f"nk{i}", f"x{i}", "wk")
            + matmul(f"nv{i}", f"x{i}", "wv")
            + f"""
  %qh{i} = tensor.expand_shape %q{i} {groups} output_shape {heads} : {o4} into {q4}
  %ae{i} = tensor.empty() : {q4}
  %a{i} = iree_linalg_ext.attention <indexing_maps = [{maps}]>
      ins(%qh{i}, %k, %v, %scale : {q4}, {cache}, {cache}, f16) outs(%ae{i} : {q4}) {{
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
  }} -> {q4}
  %af{i} = tensor.collapse_shape %a{i} {groups} : {q4} into {o4}"""
            + matmul(f"o{i}", f"af{i}", "wo")
            + f"\n  %y{i} = arith.addf %x{i}, %o{i} : {o4}"
            + matmul(f"g{i}", f"y{i}", "w1")
            + matmul(f"u{i}", f"y{i}", "w3")
            + f"""
  %ng{i} = arith.negf %g{i} : {hidden}
  %eg{i} = math.exp %ng{i} : {hidden}
  %dg{i} = arith.addf %eg{i}, %ones : {hidden}
  %sg{i} = arith.divf %g{i}, %dg{i} : {hidden}
  %m{i} = arith.mulf %sg{i}, %u{i} : {hidden}"""
            + matmul(f"d{i}", f"m{i}", "w2")
            + f"\n  %x{i + 1} = arith.addf %y{i}, %d{i} : {o4}"
        )

    arguments = f"%x0: {o4}, %k: {cache}, %v: {cache}, " + ", ".join(
        f"%{name}: {tensor(*sizes)}" for name, sizes in LAYER_WEIGHTS.items()
    )
    return "\n".join(
        f"func.func @{name}({arguments}) -> ({o4}, {new}, {new}) {{\n"
        f"  %scale = arith.constant {HEAD**-0.5} : f16\n  %zero = arith.constant 0.0 : f32\n"
        f"  %ones = arith.constant dense<1.0> : {hidden}"
        + "".join(map(step, range(count)))
        + f"\n  return %x{count}, %nk{count - 1}, %nv{count - 1} : {o4}, {new}, {new}\n}}"
        for name, count in counts.items()
    )  # fmt: skip


def compile_module(
    text: str, flags: list[str], splits: str, configured: bool = True
) -> tuple[bytes, str]:
    """The .vmfb and what attn-split-k said. `splits` is '' for IREE's default; with
    `configured` only what attn-configure has a decode kernel for is split."""
    import attnpass

    if not splits:
        from iree.compiler.tools import compile_str

        plain = compile_str(text, extra_args=flags)
        assert plain is not None
        return plain, ""
    report = attnpass.Report()
    pipeline = (
        "attn-propagate-layout{operands=v,k,q},attn-mask-dynamic-keys,"
        f"attn-split-k{{configured={str(configured).lower()} splits={splits}}},"
        "attn-configure,attn-vectorize,attn-hardware-exp2"
    )
    binary = attnpass.compile_str(text, pipeline=pipeline, report=report, extra_args=flags)
    assert binary is not None
    said = [o for o in report.attentions[0].operands if o.pass_name == "attn-split-k"]
    return binary, said[0].reason if said else "not split"


def compile_gpu(folder: Path, arch: str) -> None:
    """Writes the .vmfb of every variant and manifest.json."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["--iree-hal-target-device=cuda", f"--iree-cuda-target={arch}"]
    # The code is sm_80's; chunks are counted for the machine that it runs on.
    flags.append("--attn-target=sm_90")
    entries: list[dict[str, Any]] = []

    def add(text: str, kind: str, splits: str, **more: Any) -> None:
        given = flags if splits else flags[:-1]
        try:
            binary, said = compile_module(text, given, splits)
        except Exception as error:
            print(f"{kind} {more}: {str(error)[-300:]}", flush=True)
            return
        name = f"{len(entries)}.vmfb"
        (folder / name).write_bytes(binary)
        entries.append({"file": name, "kind": kind, "splits": splits, "said": said, **more})
        (folder / "manifest.json").write_text(json.dumps(entries, indent=1))

    for keys in LAYER_KEYS:
        text = layer_module(keys, {"one": 1, "few": FEW, "many": MANY})
        for splits in ("", "auto"):
            add(text, "layer", splits, keys=keys)
    for mask in (False, True):
        for rows in (1, 4):
            for keys in (*CHECK_LENGTHS, 0):
                shape, dynamic = Shape(8, rows, keys), not keys
                text = steps_module(shape, {"one": 1}, mask=mask, dynamic=dynamic)
                for splits in ("auto", "4", "16") if dynamic else ("auto",):
                    add(text, "check", splits, shape=asdict(shape), mask=mask, dynamic=dynamic)
    for shape in GPU_SHAPES:
        text = steps_module(shape, {"one": 1, "few": FEW, "many": MANY})
        for splits in ("", "auto", *map(str, GPU_SPLITS[1:])):
            add(text, "time", splits, shape=asdict(shape))
    print(f"{len(entries)} modules in {folder}")


def run_gpu(folder: Path, result: dict[str, Any]) -> None:
    """Times and checks every module of `folder` on the GPU, beside PyTorch, into `result`."""
    import torch
    from iree import runtime

    entries = json.loads((folder / "manifest.json").read_text())
    config = runtime.Config("cuda")
    result |= {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": []}
    result["layers"] = run_layers(folder, [e for e in entries if e["kind"] == "layer"])
    shapes = dict.fromkeys(Shape(**e["shape"]) for e in entries if e["kind"] == "time")
    for shape in shapes:
        mine = [e for e in entries if e["kind"] == "time" and Shape(**e["shape"]) == shape]
        q, k, v, _ = tensors(shape, False)
        right = reference(q, k, v, None)
        result["rows"] += [
            {"shape": shape.name, "variant": name, **measured}
            for name, measured in time_torch(q, k, v, shape, right).items()
        ]
        inputs = [runtime.asdevicearray(config.device, x.cpu().numpy()) for x in (q, k, v)]
        for entry in mine:
            functions = load(config, folder / entry["file"])
            row = {"shape": shape.name, "splits": entry["splits"], "said": entry["said"]}
            row["variant"] = "attnpass" if entry["splits"] else "iree"
            try:
                row["error"] = relative_error(functions["one"](*inputs).to_host(), right)
                row |= speed(
                    shape, slope(lambda name, f=functions, x=inputs: f[name](*x).to_host())
                )
            except Exception as error:
                row["failed"] = str(error)[:200]
            result["rows"].append(row)
            print(json.dumps(row), flush=True)
    result["checks"] = [
        check for e in entries if e["kind"] == "check" for check in check_gpu(folder, e)
    ]


def run_layers(folder: Path, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Milliseconds of a decode step of a layer, by cache length, beside PyTorch."""
    import torch
    from iree import runtime
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention, silu

    config = runtime.Config("cuda")
    torch.manual_seed(0)

    def random(*sizes: int, scale: float = 1.0) -> Any:
        return (torch.randn(sizes, device="cuda") * scale).half()

    weights = {name: random(*of, scale=of[0] ** -0.5) for name, of in LAYER_WEIGHTS.items()}
    # The MLP's output is quadratic in its input: many steps must not overflow.
    weights["w2"] *= 0.01
    given = [runtime.asdevicearray(config.device, w.cpu().numpy()) for w in weights.values()]
    rows: list[dict[str, Any]] = []
    for keys in LAYER_KEYS:
        x0 = random(1, WIDTH)
        k, v = (random(1, KV_HEADS, keys, HEAD) for _ in range(2))

        def steps(count: int, w: dict[str, Any] = weights, x0: Any = x0, k: Any = k, v: Any = v):
            x, new = x0, ()
            for _ in range(count):
                q = (x @ w["wq"]).view(1, KV_HEADS, HEADS // KV_HEADS, HEAD)
                new = x @ w["wk"], x @ w["wv"]
                y = x + scaled_dot_product_attention(q, k, v).view(1, WIDTH) @ w["wo"]
                x = y + (silu(y @ w["w1"]) * (y @ w["w3"])) @ w["w2"]
            return x, *new

        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.no_grad():
            right = steps(1)[0].float().cpu().numpy()
            seconds = slope(replayed(steps))
        rows.append({"keys": keys, "variant": "torch FA2", "ms": round(seconds * 1e3, 4)})
        inputs = [runtime.asdevicearray(config.device, x.cpu().numpy()) for x in (x0, k, v)]
        for entry in (e for e in entries if e["keys"] == keys):
            functions = load(config, folder / entry["file"])
            row = {"keys": keys, "variant": "attnpass" if entry["splits"] else "iree"}
            row["said"] = entry["said"]
            try:
                call = functools.partial(
                    lambda f, x, name: f[name](*x)[0].to_host(), functions, [*inputs, *given]
                )
                # Against PyTorch in f16: both round at the same places.
                row["difference"] = relative_error(call("one"), right)
                row["ms"] = round(slope(call) * 1e3, 4)
            except Exception as error:
                row["failed"] = str(error)[:200]
            rows.append(row)
        for row in rows[-3:]:
            print(json.dumps(row), flush=True)
    return rows


def replayed(steps: Callable[[int], Any]) -> Callable[[str], None]:
    """`steps` of few and many, captured as CUDA graphs; a call replays one and waits."""
    import torch

    torch.cuda.synchronize()
    graphs = {}
    for label, count in (("few", FEW), ("many", MANY)):
        graphs[label] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[label]):
            steps(count)

    def replay(label: str) -> None:
        graphs[label].replay()
        torch.cuda.synchronize()

    return replay


def check_gpu(folder: Path, entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Errors of one module against float32, at each length that it takes."""
    from iree import runtime

    # A device of its own: one that failed stays failed.
    config = runtime.Config("cuda")
    function = load(config, folder / entry["file"])["one"]
    checks = []
    for keys in CHECK_LENGTHS if entry.get("dynamic") else (entry["shape"]["keys"],):
        shape = Shape(**{**entry["shape"], "keys": keys})
        q, k, v, mask = tensors(shape, entry["mask"])
        arrays = [x.cpu().numpy() for x in (q, k, v, mask) if x is not None]
        check = {"shape": shape.name, "mask": entry["mask"], "splits": entry["splits"]}
        check |= {"dynamic": bool(entry.get("dynamic")), "said": entry["said"]}
        try:
            output = function(*[runtime.asdevicearray(config.device, x) for x in arrays]).to_host()
            check["error"] = relative_error(output, reference(q, k, v, mask))
        except Exception as error:
            check["failed"] = str(error)[:200]
        print(json.dumps(check), flush=True)
        checks.append(check)
    return checks


def tensors(shape: Shape, with_mask: bool) -> tuple[Any, Any, Any, Any]:
    """q, k, v and a mask (or None) on the GPU; every row sees its first key."""
    import torch

    torch.manual_seed(0)
    sizes = [(shape.heads, keys, shape.head_dim) for keys in (shape.rows, shape.keys, shape.keys)]
    q, k, v = (torch.randn(size, dtype=torch.float16, device="cuda") for size in sizes)
    if not with_mask:
        return q, k, v, None
    mask = torch.rand(shape.heads, shape.rows, shape.keys, device="cuda") < 0.7
    mask[:, :, 0] = True
    return q, k, v, mask


def reference(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention in float32, a head at a time, as numpy."""
    import torch

    rows = []
    for head in range(len(q)):
        scores = q[head].double() @ k[head].double().T / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[head], float("-inf"))
        rows.append(torch.softmax(scores, -1) @ v[head].double())
    return torch.stack(rows).float().cpu().numpy()


def relative_error(output: Any, right: Any) -> float:
    """Relative L2 error."""
    import numpy as np

    difference = output.astype(np.float32).reshape(right.shape) - right
    return float(np.linalg.norm(difference) / np.linalg.norm(right))


def slope(call: Any, repeats: int = 7) -> float:
    """Seconds a step: the difference between many and few dependent steps, best of each."""
    best = {"few": math.inf, "many": math.inf}
    for _ in range(repeats):
        for name in best:
            start = time.perf_counter()
            call(name)
            best[name] = min(best[name], time.perf_counter() - start)
    return (best["many"] - best["few"]) / (MANY - FEW)


def speed(shape: Shape, seconds: float) -> dict[str, float]:
    return {"ms": round(seconds * 1e3, 5), "GB/s": round(shape.bytes / seconds / 1e9, 1)}


def time_torch(q: Any, k: Any, v: Any, shape: Shape, right: Any) -> dict[str, dict[str, Any]]:
    """PyTorch's kernels on the same tensors, timed in the same way, from CUDA graphs."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    k4, v4 = k[None], v[None]

    def steps(count: int) -> Any:
        x = q[None]
        for _ in range(count):
            x = scaled_dot_product_attention(x, k4, v4)
        return x

    rows: dict[str, dict[str, Any]] = {}
    kernels = {"torch FA2": SDPBackend.FLASH_ATTENTION, "torch cuDNN": SDPBackend.CUDNN_ATTENTION}
    for name, kernel in kernels.items():
        try:
            with sdpa_kernel(kernel), torch.no_grad():
                error = relative_error(steps(1)[0].cpu().numpy(), right)
                call = replayed(steps)
            rows[name] = {"error": error, **speed(shape, slope(call))}
        except Exception as problem:
            rows[name] = {"failed": str(problem)[:200]}
        print(json.dumps({"shape": shape.name, "variant": name, **rows[name]}), flush=True)
    return rows


def run_cpu() -> dict[str, Any]:
    """Compiles and times on the host, in turns: IREE's default and several counts."""
    import os

    import numpy as np
    from iree import runtime

    flags = [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
    ]
    config = runtime.Config("local-task")
    rows: list[dict[str, Any]] = []
    for shape in CPU_SHAPES:
        rng = np.random.default_rng(0)
        sizes = [(shape.heads, keys, shape.head_dim) for keys in (shape.rows, shape.keys)]
        q, k = (rng.standard_normal(size, dtype=np.float32) for size in sizes)
        v = rng.standard_normal(k.shape, dtype=np.float32)
        scores = np.exp(np.einsum("bmd,bkd->bmk", q, k) / math.sqrt(shape.head_dim))
        right = np.einsum("bmk,bkd->bmd", scores / scores.sum(-1, keepdims=True), v)
        inputs = [runtime.asdevicearray(config.device, x) for x in (q, k, v)]
        calls: dict[str, Callable[[], Any]] = {}
        found: dict[str, dict[str, Any]] = {}
        for splits in CPU_SPLITS:
            text = steps_module(shape, {"one": 1})
            binary, said = compile_module(text, flags, splits, configured=False)
            function = load(config, binary)["one"]
            calls[splits] = functools.partial(call, function, inputs)
            error = relative_error(calls[splits](), right)
            found[splits] = {"splits": splits or "default", "said": said, "error": error}
        for splits, seconds in times_in_turns(calls).items():
            best = {"best": round(min(seconds) * 1e3, 5)}
            row = {**found[splits], **speed(shape, statistics.median(seconds)), **best}
            rows.append({"shape": shape.name, **row})
            print(json.dumps(rows[-1]), flush=True)
    return {"threads": os.cpu_count(), "rows": rows}


def call(function: Any, inputs: list[Any]) -> Any:
    return function(*inputs).to_host()


def times_in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of calls; the first of each turn is not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(CPU_ROUNDS):
        for name, call in calls.items():
            call()
            for _ in range(CPU_CALLS):
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    return times


def write_cpu_page() -> None:
    """The table of docs/split-k.md: medians and best calls."""
    from doc_blocks import RESULTS, table, write_block

    data = json.loads((RESULTS / "split_k_cpu.json").read_text())
    rows: dict[str, list[str]] = {}
    for row in data["rows"]:
        cells = rows.setdefault(row["shape"], [row["shape"].replace("x", " x ")])
        cells.append(f"{row['ms']:.3g} ({row['best']:.3g})")
    head = ["heads x rows x keys", "IREE default", "whole", "2 chunks", "4 chunks", "8 chunks"]
    write_block("split-k.md", "cpu", table(head, rows.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    cpu = commands.add_parser("cpu", help="measure on this machine's CPU")
    commands.add_parser("cpu-page", help="rewrite the page of what cpu measured")
    compiling = commands.add_parser("compile", help="compile the variants for a GPU")
    compiling.add_argument("folder", type=Path)
    compiling.add_argument("--arch", default="sm_80", help="IREE's cuda target")
    running = commands.add_parser("run", help="measure compiled variants on a GPU")
    running.add_argument("folder", type=Path)
    for command in (cpu, running):
        command.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    if options.command == "compile":
        compile_gpu(options.folder, options.arch)
        return
    if options.command == "cpu-page":
        write_cpu_page()
        return
    result: dict[str, Any] = {}
    try:
        if options.command == "cpu":
            result |= run_cpu()
        else:
            run_gpu(options.folder, result)
    finally:
        # What was measured before a failure is worth keeping.
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
