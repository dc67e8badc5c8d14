"""Decode by attn-split-k on a CUDA GPU, beside IREE's default and PyTorch.

`compile` writes a .vmfb for each variant of each case; `run` times them beside PyTorch's
FlashAttention and cuDNN and checks every result against float64. A step is timed as the slope
between functions that do few and many dependent steps, so that calling costs and transfers drop
out. GB/s count K and V once.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.attention import reference
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
class Check:
    """Attention whose numbers are checked; over an unknown number of keys at each length."""

    rows: int
    keys: int
    mask: bool

    @property
    def name(self) -> str:
        keys = self.keys or "unknown"
        return f"check 8x{self.rows}x{keys}" + ", masked" * self.mask


Case = Time | Check


def cases() -> list[Case]:
    checks = [
        Check(rows, keys, mask)
        for mask in (False, True)
        for rows in (1, 4)
        for keys in (*CHECK_LENGTHS, 0)
    ]
    return [*map(Time, GPU_SHAPES), *checks]


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
    if isinstance(case, Time):
        return steps_module(case.shape, counts)
    shape = Shape(8, case.rows, case.keys)
    return steps_module(shape, {"one": 1}, mask=case.mask, dynamic=not case.keys)


def _variants(case: Case) -> tuple[str, ...]:
    """Numbers of chunks; '' is IREE's default."""
    if isinstance(case, Time):
        return ("", "auto", *map(str, GPU_SPLITS[1:]))
    return ("auto",) if case.keys else ("auto", "4", "16")


def run(folder: Path, case: Case, _: argparse.Namespace) -> Iterator[Row]:
    entries = Manifest(folder).of(case.name)
    if isinstance(case, Time):
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
