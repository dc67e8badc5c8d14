"""Decode by attn-split-k on a CUDA GPU: attention and a layer, beside IREE's default and PyTorch.

`compile` writes a .vmfb for each variant of each case; `run` times them beside PyTorch's
FlashAttention and cuDNN and checks every result against float64. A step is timed as the slope
between functions that do few and many dependent steps, so that calling costs and transfers drop
out. GB/s count K and V once.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.attention import fresh_attention, reference
from bench.cases.steps import Shape, steps_module
from bench.device import gpu, load
from bench.harness import Manifest
from bench.results import Row, row
from bench.timing import backends, captured, ms, relative_error, slopes

FEW, MANY = 4, 24
STEPS = {"few": FEW, "many": MANY}

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


@dataclass(frozen=True)
class Time:
    """Attention that is timed, in chunks of each number."""

    shape: Shape

    @property
    def name(self) -> str:
        return self.shape.name


@dataclass(frozen=True)
class Layer:
    """A decode step of a layer over so many cached keys."""

    keys: int

    @property
    def name(self) -> str:
        return f"{self.keys} keys"


@dataclass(frozen=True)
class Check:
    """Attention whose numbers are checked; over an unknown number of keys at each length."""

    rows: int
    keys: int
    mask: bool

    @property
    def name(self) -> str:
        keys = self.keys or "unknown"
        return f"check 8x{self.rows}x{keys}" + ", masked" * self.mask


Case = Time | Layer | Check


def cases() -> list[Case]:
    checks = [
        Check(rows, keys, mask)
        for mask in (False, True)
        for rows in (1, 4)
        for keys in (*CHECK_LENGTHS, 0)
    ]
    return [*map(Layer, LAYER_KEYS), *map(Time, GPU_SHAPES), *checks]


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
    read = [("%k", cache, "b, h, k, d"), ("%v", cache, "b, h, k, n"), ("%scale", "f16", "")]

    def step(i: int) -> str:
        return (
            matmul(f"q{i}", f"x{i}", "wq")
            + matmul(f"nk{i}", f"x{i}", "wk")
            + matmul(f"nv{i}", f"x{i}", "wv")
            + f"""
  %qh{i} = tensor.expand_shape %q{i} {groups} output_shape {heads} : {o4} into {q4}"""
            + fresh_attention(
                f"%a{i}",
                [(f"%qh{i}", q4, "b, h, g, d"), *read],
                q4,
                written="b, h, g, n",
                dims="b, h, g, n, d, k",
            )
            + f"""
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
        "attn-propagate-layout{operands=v,k,q},attn-fit-tiles{only=mask},"
        f"attn-split-k{{configured={str(configured).lower()} splits={splits}}},"
        "attn-configure,attn-vectorize,attn-lower-cuda{only=exp2}"
    )
    binary = attnpass.compile_str(text, pipeline=pipeline, report=report, extra_args=flags)
    assert binary is not None
    said = [o for o in report.attentions[0].operands if o.pass_name == "attn-split-k"]
    return binary, said[0].reason if said else "not split"


def compile(folder: Path, wanted: list[Case], _: argparse.Namespace) -> None:
    """Writes the .vmfb of every variant, and what attn-split-k said."""
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    manifest = Manifest(folder)
    for case in wanted:
        text, variants = _text(case), _variants(case)
        for splits in variants:
            # The code is sm_80's; chunks are counted for the machine that it runs on.
            given = [*flags, "--attn-target=sm_90"] if splits else flags
            try:
                binary, said = compile_module(text, given, splits)
            except Exception as error:
                print(f"{case.name} {splits}: {str(error)[-300:]}", flush=True)
                continue
            entry = manifest.add(case.name, splits, said=said)
            (folder / entry["file"]).write_bytes(binary)
            manifest.write()
        print(case.name, flush=True)


def _text(case: Case) -> str:
    counts = {"one": 1, **STEPS}
    if isinstance(case, Layer):
        return layer_module(case.keys, counts)
    if isinstance(case, Time):
        return steps_module(case.shape, counts)
    shape = Shape(8, case.rows, case.keys)
    return steps_module(shape, {"one": 1}, mask=case.mask, dynamic=not case.keys)


def _variants(case: Case) -> tuple[str, ...]:
    """Numbers of chunks; '' is IREE's default."""
    if isinstance(case, Layer):
        return ("", "auto")
    if isinstance(case, Time):
        return ("", "auto", *map(str, GPU_SPLITS[1:]))
    return ("auto",) if case.keys else ("auto", "4", "16")


def run(folder: Path, case: Case, _: argparse.Namespace) -> Iterator[Row]:
    entries = Manifest(folder).of(case.name)
    if isinstance(case, Layer):
        yield from run_layer(folder, case, entries)
    elif isinstance(case, Time):
        yield from run_time(folder, case.shape, entries)
    else:
        yield from check(folder, case, entries)


def run_time(folder: Path, shape: Shape, entries: list[dict[str, Any]]) -> Iterator[Row]:
    """Every variant, beside PyTorch's kernels."""
    q, k, v, _ = tensors(shape, False)
    right = as_numpy(reference(q, k, v))
    yield from time_torch(q, k, v, shape, right)
    inputs = on_gpu(q, k, v)
    for entry in entries:
        functions = load(gpu(), folder / entry["file"])
        found: dict[str, Any] = {"splits": entry["way"], "said": entry["said"]}
        try:
            found["error"] = relative_error(functions["one"](*inputs).to_host(), right)
            found |= speed(shape, slope(lambda n, f=functions: f[n](*inputs).to_host()))
        except Exception as error:
            found["failed"] = str(error)[:200]
        yield row(shape.name, way_of(entry), found, part="attention")


def way_of(entry: dict[str, Any]) -> str:
    return "attnpass" if entry["way"] else "iree"


def on_gpu(*values: Any) -> list[Any]:
    """Torch tensors on IREE's device."""
    from iree import runtime

    return [runtime.asdevicearray(gpu().device, value.cpu().numpy()) for value in values]


def run_layer(folder: Path, case: Layer, entries: list[dict[str, Any]]) -> Iterator[Row]:
    """Milliseconds of a decode step of a layer, beside PyTorch."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention, silu

    torch.manual_seed(0)

    def random(*sizes: int, scale: float = 1.0) -> Any:
        return (torch.randn(sizes, device="cuda") * scale).half()

    weights = {name: random(*of, scale=of[0] ** -0.5) for name, of in LAYER_WEIGHTS.items()}
    # The MLP's output is quadratic in its input: many steps must not overflow.
    weights["w2"] *= 0.01
    x0 = random(1, WIDTH)
    k, v = (random(1, KV_HEADS, case.keys, HEAD) for _ in range(2))

    def steps(count: int) -> Any:
        x, new = x0, ()
        for _ in range(count):
            q = (x @ weights["wq"]).view(1, KV_HEADS, HEADS // KV_HEADS, HEAD)
            new = x @ weights["wk"], x @ weights["wv"]
            y = x + scaled_dot_product_attention(q, k, v).view(1, WIDTH) @ weights["wo"]
            x = y + (silu(y @ weights["w1"]) * (y @ weights["w3"])) @ weights["w2"]
        return x, *new

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.no_grad():
        right = steps(1)[0].float().cpu().numpy()
        seconds = slope(replayed(steps))
    yield row(case.name, "torch FA2", {"ms": ms(seconds)}, part="layers")
    inputs = on_gpu(x0, k, v, *weights.values())
    for entry in entries:
        functions = load(gpu(), folder / entry["file"])
        found: dict[str, Any] = {"said": entry["said"]}
        try:
            call = functools.partial(lambda f, name: f[name](*inputs)[0].to_host(), functions)
            # Against PyTorch in f16: both round at the same places.
            found["difference"] = relative_error(call("one"), right)
            found["ms"] = ms(slope(call))
        except Exception as error:
            found["failed"] = str(error)[:200]
        yield row(case.name, way_of(entry), found, part="layers")


def replayed(steps: Callable[[int], Any]) -> Callable[[str], None]:
    """`steps` of few and many, captured as CUDA graphs; a call replays one and waits."""
    graphs = {name: captured(lambda c=count: steps(c)) for name, count in STEPS.items()}
    return lambda name: graphs[name]()


def slope(call: Callable[[str], Any], repeats: int = 7) -> float:
    """Seconds a step: the difference between many and few dependent steps, best of each."""
    calls = {count: lambda n=name: call(n) for name, count in STEPS.items()}
    return slopes({"": calls}, repeats, min)[""]


def check(folder: Path, case: Check, entries: list[dict[str, Any]]) -> Iterator[Row]:
    """Errors against float64, at each length that the module takes."""
    for entry in entries:
        function = load(gpu(), folder / entry["file"])["one"]
        for keys in (case.keys,) if case.keys else CHECK_LENGTHS:
            q, k, v, mask = tensors(Shape(8, case.rows, keys), case.mask)
            given = [value for value in (q, k, v, mask) if value is not None]
            found: dict[str, Any] = {"keys": keys, "splits": entry["way"], "said": entry["said"]}
            try:
                output = function(*on_gpu(*given)).to_host()
                found["error"] = relative_error(output, as_numpy(reference(q, k, v, mask)))
            except Exception as error:
                found["failed"] = str(error)[:200]
            yield row(case.name, "attnpass", found, part="checks")


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


def as_numpy(values: Any) -> Any:
    return values.float().cpu().numpy()


def speed(shape: Shape, seconds: float) -> dict[str, float]:
    return {"ms": ms(seconds, 5), "GB/s": round(shape.bytes / seconds / 1e9, 1)}


def time_torch(q: Any, k: Any, v: Any, shape: Shape, right: Any) -> Iterator[Row]:
    """PyTorch's kernels on the same tensors, timed in the same way, from CUDA graphs."""
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    k4, v4 = k[None], v[None]

    def steps(count: int) -> Any:
        x = q[None]
        for _ in range(count):
            x = scaled_dot_product_attention(x, k4, v4)
        return x

    for name, kernel in backends("FA2", "cuDNN").items():
        try:
            with sdpa_kernel(kernel), torch.no_grad():
                error = relative_error(steps(1)[0].cpu().numpy(), right)
                found = {"error": error, **speed(shape, slope(replayed(steps)))}
        except Exception as problem:
            found = {"failed": str(problem)[:200]}
        yield row(shape.name, f"torch {name}", found, part="attention")
