"""Whole transformer blocks on a Hopper GPU, beside PyTorch: eager, as a CUDA graph, compiled.

Blocks are those of bench/models/blocks.py at the sizes of real models, their weights arguments.
`iree` is IREE 3.13 at O2, where it is fastest, with no pass of ours (for sm_80: it compiles
no attention for sm_90); `attnpass` the code of IREE's that the passes configure; `kernels` has
precompiled kernels for attention and products. A time is that of a call with its synchronisation:
the least median of several rounds, in which programs take turns. `device_ms` is what runs on the
GPU in a call, from CUPTI through torch's profiler, `kernels` the longest of it in microseconds.
Errors are relative L2 distances from float64, the largest of all results.
"""

# pyright: reportMissingImports=false
# (torch is an extra here, and on the GPU machine)

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.device import gpu, load, to_iree, to_torch, torch_type
from bench.harness import attn_compile
from bench.results import Row, row
from bench.timing import call_seconds, captured, kernels_of, ms

CUDA = ("--iree-hal-target-device=cuda", "--iree-input-type=torch")
WAYS = {
    "iree": ("--iree-cuda-target=sm_80", "--attn-disable"),
    "attnpass": ("--iree-cuda-target=sm_90", "--attn-kernels=never", "--attn-products=never"),
    "kernels": ("--iree-cuda-target=sm_90", "--attn-kernels=cost", "--attn-products=cost"),
}
# Kernels of a call whose names the results keep.
LONGEST = 10
LLAMA = {"width": 4096, "count": 32, "groups": 8, "hidden": 14336}
LARGE = {"width": 1024, "count": 16, "hidden": 4096}


@dataclass(frozen=True)
class Input:
    """An argument: random numbers, or a `padding` mask, or the `place` of a row in a cache.
    `unknown` names the sizes, by dim, that the program leaves open."""

    shape: tuple[int, ...]
    what: str = "random"
    unknown: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    name: str
    words: str
    model: str
    sizes: Mapping[str, Any]
    inputs: tuple[Input, ...]
    kind: str = "f16"
    # Of IREE alone.
    level: str = "O2"


def _llama(name: str, words: str, rows: int, unknown: bool = False, **more: Any) -> Block:
    dims = [{1: "rows"}, {0: "rows"}] if unknown else [{}, {}]
    inputs = (Input((1, rows, 4096), unknown=dims[0]), *[Input((rows, 128), unknown=dims[1])] * 2)
    kind = more.pop("kind", "f16")
    return Block(name, words, "llama", {**LLAMA, **more}, inputs, kind)


def _decode(sequences: int, cached: int) -> Block:
    caches = [Input((sequences, 8, cached, 128))] * 2
    row = (Input((sequences, 1, 4096)), Input((1, 128)), Input((1, 128)), Input((1,), "place"))
    words = f"Llama 8B layer, decode, {sequences} sequences over a static cache of {cached}"
    name, inputs = f"decode{sequences}x{cached}", (*row, *caches)
    # From O2 on IREE 3.13 writes a cache by index to illegal addresses (attn-scatter-indices).
    return Block(name, words, "decode", LLAMA, inputs, level="O1")


def _vit(name: str, words: str, images: int, unknown: Mapping[int, str]) -> Block:
    given = (Input((images, 577, 1024), unknown=unknown),)
    return Block(name, words, "encoders", {"layers": 4, **LARGE, "joint": True}, given)


def cases() -> list[Block]:
    whisper = {"layers": 2, "width": 1280, "count": 20, "hidden": 5120, "key_bias": False}
    padded = (Input((8, 512, 1024)), Input((8, 512), "padding"))
    tokens = [(1, 4096, 3072), (1, 512, 3072), (1, 3072), (4608, 128), (4608, 128)]
    return [
        _llama("llama2048", "Llama 8B layer, 2048 rows", 2048),
        _vit("vit16x577", "ViT-L, 4 layers, 16 x 577", 16, {}),
        _decode(8, 4096),
        _llama("llama1777_unknown", "Llama 8B layer, rows unknown, run at 1777", 1777, True),
        _llama(
            "llama2048_written",
            "Llama 8B layer, 2048 rows, attention written out",
            2048,
            by_hand=True,
            kind="bf16",
        ),
        _vit("vit13x577_unknown", "ViT-L, 4 layers, images unknown, run at 13", 13, {0: "images"}),
        Block(
            "bert8x512",
            "BERT-large, 4 layers, 8 x 512, padded",
            "encoders",
            {"layers": 4, **LARGE, "behind": True},
            padded,
        ),
        Block(
            "gpt2_4x1024",
            "GPT-2 medium, 4 layers, 4 x 1024, written out, weights (k, n)",
            "gpt2",
            {"layers": 4, "width": 1024, "count": 16},
            (Input((4, 1024, 1024)),),
        ),
        Block(
            "phi2048",
            "Phi-3 mini layer, 2048 rows",
            "llama",
            {"width": 3072, "count": 32, "groups": 32, "hidden": 8192},
            (Input((1, 2048, 3072)), *[Input((2048, 96))] * 2),
        ),
        Block(
            "vith16x257",
            "ViT-H, 4 layers, 16 x 257",
            "encoders",
            {"layers": 4, "width": 1280, "count": 16, "hidden": 5120, "joint": True},
            (Input((16, 257, 1280)),),
        ),
        Block(
            "siglip16x729",
            "SigLIP, 4 layers, 16 x 729",
            "encoders",
            {"layers": 4, "width": 1152, "count": 16, "hidden": 4304},
            (Input((16, 729, 1152)),),
        ),
        Block(
            "deepseek2048",
            "DeepSeek attention of 128 heads, 2048 rows",
            "latent",
            {"width": 7168, "count": 128, "query_rank": 1536, "rank": 512},
            (Input((1, 2048, 7168)), *[Input((2048, 64))] * 2),
        ),
        Block(
            "flux4096x512",
            "Flux, two streams, 4096 + 512 tokens",
            "streams",
            {"width": 3072, "count": 24},
            tuple(map(Input, tokens)),
        ),
        Block(
            "whisper4x1500",
            "Whisper large, encoder, 2 layers, 4 x 1500",
            "encoders",
            whisper,
            (Input((4, 1500, 1280)),),
        ),
    ]


def compile(folder: Path, wanted: list[Block], _: argparse.Namespace) -> None:
    """Writes each block as MLIR and a .vmfb for each way that compiles. Needs torch."""
    import torch

    from bench.models.blocks import block_of, text_of

    for case in wanted:
        block = block_of(case.model, case.sizes, torch_type(case.kind), "cpu")
        source = folder / f"{case.name}.mlir"
        inputs, names = _inputs(case, "cpu"), {n for i in case.inputs for n in i.unknown.values()}
        dims = {name: torch.export.Dim(name, max=8192) for name in names}
        unknown = [{dim: dims[n] for dim, n in i.unknown.items()} or None for i in case.inputs]
        source.write_text(text_of(block, inputs, unknown))
        for way, flags in WAYS.items():
            level = case.level if way == "iree" else "O2"
            flags = (*CUDA, *flags, f"--iree-opt-level={level}")
            if failed := attn_compile(source, _file(folder, case, way), *flags):
                print(f"{case.name} {way}: {failed}", flush=True)


def _file(folder: Path, case: Block, way: str) -> Path:
    return folder / f"{case.name}.{way}.vmfb"


def run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    with torch.no_grad():
        yield from _run(folder, case, options)


def _run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    from bench.models.blocks import block_of, fill

    block = block_of(case.model, case.sizes, torch_type(case.kind), "cuda")
    fill(block)
    inputs = _inputs(case, "cuda")
    wanted = _reference(case, block, inputs)
    calls = _peers(block, inputs, compiled=not options.numbers)
    found: dict[str, dict[str, Any]] = {
        way: {"error": _error(calls[way](), wanted)} for way in calls if way != "torch graph"
    }
    given = [to_iree(gpu().device, one) for one in (*inputs, *block.parameters())]
    for way in WAYS:
        if not _file(folder, case, way).exists():
            continue
        try:
            function, found[way] = _loaded(_file(folder, case, way))
            found[way]["error"] = _error(_taken(function(*given), block, inputs), wanted)
            calls[way] = lambda f=function: f(*given)
        except Exception as problem:
            found[way] = {"failed": f"{type(problem).__name__}: {problem}"[:300]}
    torch.cuda.synchronize()
    del wanted
    for way, spent in ({} if options.numbers else call_seconds(calls)).items():
        found.setdefault(way, {}).update(ms=ms(spent), **_on_gpu(calls[way]))
    for way, numbers in found.items():
        yield row(case.name, way, numbers)


def _peers(block: Any, inputs: list[Any], compiled: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's ways, each call to its end."""
    import torch

    def ended(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (call(), torch.cuda.synchronize())[0]

    peers: dict[str, Callable[[], Any]] = {"torch": ended(lambda: block(*inputs))}
    peers["torch graph"] = captured(lambda: block(*inputs))
    if compiled:
        fast = torch.compile(block)
        peers["torch compile"] = ended(lambda: fast(*inputs))
    return peers


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    """A module's function, the milliseconds that it takes to load, and its size."""
    config, binary = gpu(), path.read_bytes()
    start = time.perf_counter()
    function = load(config, binary)["main"]
    return function, {"load_ms": ms(time.perf_counter() - start, 2), "bytes": len(binary)}


def _taken(results: Any, block: Any, inputs: list[Any]) -> list[Any]:
    """The results of a module as tensors."""
    several = results if isinstance(results, list | tuple) else [results]
    return [to_torch(one, inputs[0].dtype).view(one.shape) for one in several]


def _on_gpu(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call runs on the GPU: milliseconds, and those of the longest kernels by name."""
    spent: defaultdict[str, float] = defaultdict(float)
    for name, microseconds in kernels_of(call):
        spent[name[:60]] += microseconds
    longest = sorted(spent.items(), key=lambda item: -item[1])[:LONGEST]
    kernels = {name: round(us, 1) for name, us in longest}
    return {"device_ms": round(sum(spent.values()) / 1e3, 4), "kernels": kernels}


def _reference(case: Block, block: Any, inputs: list[Any]) -> list[Any]:
    """The block's results in float64."""
    import torch

    from bench.models.blocks import block_of

    wide = block_of(case.model, case.sizes, torch.float64, "cuda")
    wide.load_state_dict(block.state_dict())
    results = wide(*(one.double() if one.is_floating_point() else one for one in inputs))
    return list(results) if isinstance(results, tuple) else [results]


def _error(results: Any, wanted: list[Any]) -> float:
    """The largest relative L2 distance; infinite where a result is not finite."""
    several = results if isinstance(results, tuple | list) else (results,)
    worst = 0.0
    for got, right in zip(several, wanted, strict=True):
        error = float((got.double() - right).norm() / right.norm())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def _inputs(case: Block, device: str) -> list[Any]:
    import torch

    torch.manual_seed(0)
    kind, made = torch_type(case.kind), []
    for one in case.inputs:
        if one.what == "random":
            made.append(torch.randn(one.shape, device=device).to(kind))
        elif one.what == "place":
            made.append(torch.tensor([case.inputs[-1].shape[2] - 96], device=device))
        else:
            batch, keys = one.shape
            kept = keys - torch.arange(batch, device=device) * (keys // (2 * batch))
            made.append((torch.arange(keys, device=device) < kept[:, None]).long())
    return made
