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
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.block_case import Block, Input, compile_block, several, worst_error
from bench.device import gpu, load, to_iree, to_torch
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
# Sizes of models.
LLAMA = {"width": 4096, "count": 32, "groups": 8, "hidden": 14336}
PHI_PACKED = {"width": 3072, "count": 32, "hidden": 8192}
PHI = {"width": 3072, "count": 32, "groups": 32, "hidden": 8192}
BERT = {"layers": 4, "width": 1024, "count": 16, "hidden": 4096, "behind": True}
VIT_L = {"layers": 4, "width": 1024, "count": 16, "hidden": 4096, "joint": True}
VIT_H = {"layers": 4, "width": 1280, "count": 16, "hidden": 5120, "joint": True}
SIGLIP = {"layers": 4, "width": 1152, "count": 16, "hidden": 4304}
WHISPER = {"layers": 2, "width": 1280, "count": 20, "hidden": 5120, "key_bias": False}
GPT2 = {"layers": 4, "width": 1024, "count": 16}
DEEPSEEK = {"width": 7168, "count": 128, "query_rank": 1536, "rank": 512}
FLUX = {"width": 3072, "count": 24}


def _llama(name: str, words: str, rows: int, unknown: bool = False, **more: Any) -> Block:
    dims = [{1: "rows"}, {0: "rows"}] if unknown else [{}, {}]
    inputs = (Input((1, rows, 4096), unknown=dims[0]), *[Input((rows, 128), unknown=dims[1])] * 2)
    kind = more.pop("kind", "f16")
    return Block(name, "llama", {**LLAMA, **more}, inputs, kind, words)


def _decode(sequences: int, cached: int) -> Block:
    caches = [Input((sequences, 8, cached, 128))] * 2
    row = (Input((sequences, 1, 4096)), Input((1, 128)), Input((1, 128)), Input((1,), "place"))
    words = f"Llama 8B layer, decode, {sequences} sequences over a static cache of {cached}"
    name, inputs = f"decode{sequences}x{cached}", (*row, *caches)
    # From O2 on IREE 3.13 writes a cache by index to illegal addresses (attn-scatter-indices).
    return Block(name, "decode", LLAMA, inputs, words=words, level="O1")


def _vit(name: str, words: str, images: int, unknown: Mapping[int, str]) -> Block:
    return _block(name, words, "encoders", VIT_L, Input((images, 577, 1024), unknown=unknown))


def _block(
    name: str, words: str, model: str, sizes: Mapping[str, Any], *inputs: Input | tuple[int, ...]
) -> Block:
    given = (one if isinstance(one, Input) else Input(one) for one in inputs)
    return Block(name, model, sizes, tuple(given), words=words)


def cases() -> list[Block]:
    llama = "Llama 8B layer, 2048 rows"
    padding, flux = Input((8, 512), "padding"), "Flux, two streams, 4096 + 512 tokens"
    tokens = ((1, 4096, 3072), (1, 512, 3072), (1, 3072), (4608, 128), (4608, 128))
    gpt2 = "GPT-2 medium, 4 layers, 4 x 1024, written out, weights (k, n)"
    bert, phi = "BERT-large, 4 layers, 8 x 512, padded", "Phi-3 mini layer, 2048 rows"
    whisper = "Whisper large, encoder, 2 layers, 4 x 1500"
    latent, places = "DeepSeek attention of 128 heads, 2048 rows", [(2048, 64)] * 2
    return [
        _llama("llama2048", llama, 2048),
        _vit("vit16x577", "ViT-L, 4 layers, 16 x 577", 16, {}),
        _decode(8, 4096),
        _llama("llama1777_unknown", "Llama 8B layer, rows unknown, run at 1777", 1777, True),
        _llama(
            "llama2048_written", f"{llama}, attention written out", 2048, by_hand=True, kind="bf16"
        ),
        _vit("vit13x577_unknown", "ViT-L, 4 layers, images unknown, run at 13", 13, {0: "images"}),
        _block("bert8x512", bert, "encoders", BERT, (8, 512, 1024), padding),
        _block("gpt2_4x1024", gpt2, "gpt2", GPT2, (4, 1024, 1024)),
        _block("phi2048", phi, "llama", PHI, (1, 2048, 3072), *[(2048, 96)] * 2),
        _block("vith16x257", "ViT-H, 4 layers, 16 x 257", "encoders", VIT_H, (16, 257, 1280)),
        _block("siglip16x729", "SigLIP, 4 layers, 16 x 729", "encoders", SIGLIP, (16, 729, 1152)),
        _block("deepseek2048", latent, "latent", DEEPSEEK, (1, 2048, 7168), *places),
        _block("flux4096x512", flux, "streams", FLUX, *tokens),
        _block("whisper4x1500", whisper, "encoders", WHISPER, (4, 1500, 1280)),
        *(replace(case, other=True) for case in _others()),
    ]


def _others() -> list[Block]:
    def turned(rows: int, size: int, unknown: bool = False) -> list[Input]:
        return [Input((rows, size), unknown={0: "rows"} if unknown else {})] * 2

    def caches(
        heads: int, length: int, size: int, batch: int, unknown: bool = False
    ) -> list[Input]:
        return [Input((batch, heads, length, size), unknown={2: "keys"} if unknown else {})] * 2

    place, row = Input((1,), "place"), (8, 1, 4096)
    unknown = {0: "batch", 1: "rows"}
    bert = {**BERT, "layers": 1}
    padded = [Input((8, 512, 1024), unknown=unknown), Input((8, 512), "padding", unknown)]
    gemma = {"width": 2304, "count": 8, "groups": 4, "size": 256, "hidden": 9216}
    qwen = {"width": 3584, "count": 28, "groups": 4, "hidden": 18944}
    neox, falcon = {"width": 2048, "count": 16}, {"width": 4544, "count": 71}
    opt = {"width": 2048, "count": 32, "hidden": 8192}
    clip = {"width": 768, "count": 12, "hidden": 3072}
    swin = {"width": 192, "count": 6, "window": 7, "shift": 3}
    sam = {"width": 768, "count": 12, "window": 14, "shift": 0}
    t5 = {"width": 1024, "count": 16, "hidden": 2816}
    experts = {"width": 1024, "count": 8, "hidden": 2048}
    whisper = {"width": 1280, "count": 20}
    steps = "Llama 8B layer, a step of 8 sequences, caches by cat"
    return [
        _block("t5", "T5 large, 8 x 512", "t5", t5, (8, 512, 1024), Input((512, 512), "distances")),
        _block(
            "gemma2", "Gemma 2 2B, 2048 rows", "gemma2", gemma, (1, 2048, 2304), *turned(2048, 256)
        ),
        _block(
            "qwen2", "Qwen2 7B, 2048 rows", "prefill", qwen, (1, 2048, 3584), *turned(2048, 128)
        ),
        _block(
            "experts", "8 experts of 1024 x 2048, 1024 rows", "experts", experts, (2, 512, 1024)
        ),
        _block(
            "swin",
            "Swin, shifted windows, 16 x 28 x 28",
            "windows",
            swin,
            (16, 28, 28, 192),
            (16, 49, 49),
        ),
        _block("sam", "SAM, windows, 2 x 64 x 64", "windows", sam, (2, 64, 64, 768)),
        _block(
            "dit",
            "DiT-XL, 8 x 1024",
            "dit",
            {"width": 1152, "count": 16},
            (8, 1024, 1152),
            (8, 1152),
        ),
        _block(
            "sdxl",
            "SDXL, 2 x 1024, 77 of text",
            "sdxl",
            {**whisper, "text": 2048},
            (2, 1024, 1280),
            (2, 77, 2048),
        ),
        _block(
            "sd3",
            "SD3, 4096 + 154 tokens",
            "streams",
            {"width": 1536, "count": 24},
            (1, 4096, 1536),
            (1, 154, 1536),
            (1, 1536),
        ),
        _block(
            "bart",
            "BART decoder, 8 x 128 over 512",
            "bart",
            {"width": 1024, "count": 16},
            (8, 128, 1024),
            (8, 512, 1024),
            Input((8, 512), "padding"),
        ),
        _block(
            "bert_unknown",
            "BERT-large layer, batch and rows unknown, run at 8 x 512",
            "encoders",
            bert,
            *padded,
        ),
        _block(
            "whisper_step",
            "Whisper large, a step of 4 sequences",
            "whisper",
            whisper,
            (4, 1, 1280),
            *caches(20, 1500, 64, 4),
            place,
            *caches(20, 448, 64, 4),
        ),
        _block(
            "phi_packed",
            "Phi-3 mini layer, packed, 2048 rows",
            "packed",
            PHI_PACKED,
            (1, 2048, 3072),
            *turned(2048, 96),
        ),
        _block(
            "phi_unknown",
            "Phi-3 mini layer, packed, rows unknown, run at 1777",
            "packed",
            PHI_PACKED,
            Input((1, 1777, 3072), unknown={1: "rows"}),
            *turned(1777, 96, True),
        ),
        _block(
            "neox",
            "GPT-NeoX layer, 2 x 1024",
            "parallel",
            {**neox, "shared": False},
            (2, 1024, 2048),
            *turned(1024, 32),
        ),
        _block(
            "falcon",
            "Falcon 7B layer, 2048 rows",
            "parallel",
            {**falcon, "shared": True},
            (1, 2048, 4544),
            *turned(2048, 64),
        ),
        _block("bloom", "BLOOM layer, 2 x 1024", "bloom", neox, (2, 1024, 2048), (16,)),
        _block("opt", "OPT layer, 2 x 1024", "other", {**opt, "causal": True}, (2, 1024, 2048)),
        _block(
            "clip",
            "CLIP text layer, 16 x 77",
            "other",
            {**clip, "causal": False},
            (16, 77, 768),
            (77, 77),
        ),
        _block(
            "prefill",
            "Llama 8B layer, 2048 rows, returns K and V",
            "prefill",
            LLAMA,
            (1, 2048, 4096),
            *turned(2048, 128),
        ),
        _block(
            "prefill_unknown",
            "the same, rows unknown, run at 1777",
            "prefill",
            LLAMA,
            Input((1, 1777, 4096), unknown={1: "rows"}),
            *turned(1777, 128, True),
        ),
        _block(
            "chunk",
            "Llama 8B layer, 512 rows into a cache of 4096",
            "chunk",
            LLAMA,
            (1, 512, 4096),
            *turned(512, 128),
            place,
            *caches(8, 4096, 128, 1),
        ),
        _block(
            "cat",
            f"{steps}, 2047 keys",
            "growing",
            LLAMA,
            row,
            *turned(1, 128),
            *caches(8, 2047, 128, 8),
        ),
        _block(
            "cat_unknown",
            "the same, how many keys is unknown",
            "growing",
            LLAMA,
            row,
            *turned(1, 128),
            *caches(8, 2047, 128, 8, True),
        ),
        _block(
            "cat_window",
            "the same, a window of 2048",
            "growing",
            {**LLAMA, "window": True},
            row,
            *turned(1, 128),
            *caches(8, 2048, 128, 8),
        ),
        _block(
            "eva",
            "EVA-02 layer, 8 x 577, hidden 2730",
            "eva",
            {"width": 1024, "count": 16, "hidden": 2730},
            (8, 577, 1024),
            *turned(577, 64),
        ),
        _block(
            "lora",
            "a projection with LoRA, 2048 x 4096",
            "lora",
            {"width": 4096, "rank": 16},
            (1, 2048, 4096),
        ),
    ]


def compile(folder: Path, wanted: list[Block], _: argparse.Namespace) -> None:
    """Writes each block as MLIR and a .vmfb for each way that compiles. Needs torch."""
    for case in wanted:
        own = {"kernels": WAYS["kernels"]} if case.other else WAYS
        levels = {way: case.level if way == "iree" else "O2" for way in own}
        ways = {w: (*CUDA, *of, f"--iree-opt-level={levels[w]}") for w, of in own.items()}
        compile_block(folder, case, ways)


def run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    with torch.no_grad():
        yield from _run(folder, case, options)


def _run(folder: Path, case: Block, options: argparse.Namespace) -> Iterator[Row]:
    import torch

    block, inputs = case.filled("cuda"), case.given("cuda")
    wanted = case.exact(block, inputs)
    calls = _peers(block, inputs, compiled=not (options.numbers or case.other))
    found: dict[str, dict[str, Any]] = {
        way: {"error": worst_error(calls[way](), wanted)} for way in calls if way != "torch graph"
    }
    given = [to_iree(gpu().device, one) for one in (*inputs, *block.parameters())]
    for way in WAYS:
        path = case.file(folder, way)
        if not path.exists():
            continue
        try:
            function, found[way] = _loaded(path)
            found[way]["error"] = worst_error(_taken(function(*given), inputs), wanted)
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


def _taken(results: Any, inputs: list[Any]) -> list[Any]:
    """The results of a module as tensors."""
    return [to_torch(one, inputs[0].dtype).view(one.shape) for one in several(results)]


def _on_gpu(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call runs on the GPU: milliseconds, and those of the longest kernels by name."""
    spent: defaultdict[str, float] = defaultdict(float)
    for name, microseconds in kernels_of(call):
        spent[name[:60]] += microseconds
    longest = sorted(spent.items(), key=lambda item: -item[1])[:LONGEST]
    kernels = {name: round(us, 1) for name, us in longest}
    return {"device_ms": round(sum(spent.values()) / 1e3, 4), "kernels": kernels}
