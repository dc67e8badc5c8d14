"""What stands beside attention and products on a GPU, at which part of the memory's speed.

Norms, rotary embeddings, copies of heads, casts and gates of tensors that no cache holds, and what
convolutional models have beside their products, compiled from PyTorch, beside PyTorch's own
(eager). `megabytes` is what a case has to read and to write; the memory's speed is that of
PyTorch's copy of 268 MB (`copy`). Errors are relative L2 distances to float64; times are the GPU's,
from CUPTI through torch's profiler, programs taking turns.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import gpu, load, several, to_iree, to_torch, torch_type
from bench.harness import must_compile
from bench.results import Row, row
from bench.timing import gpu_microseconds, relative_error

SM_90 = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--iree-input-type=torch")
TURNS = 9
Tensor = Any


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float() if x.element_size() < 4 else x
    return (wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype) * weight


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.layer_norm(x, (x.shape[-1],), weight, bias)


def rotary(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    import torch

    half = x.shape[-1] // 2
    return x * cosines + torch.cat((-x[..., half:], x[..., :half]), -1) * sines


def heads(x: Tensor, size: int) -> Tensor:
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def silu_gate(gate: Tensor, up: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.silu(gate) * up


@dataclass(frozen=True)
class Beside:
    """One function of tensors of these shapes; `kind` is their type."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    kind: str = "f16"

    def inputs(self, device: str) -> list[Tensor]:
        import torch

        source = torch.Generator(device).manual_seed(0)
        made = (torch.randn(shape, generator=source, device=device) for shape in self.shapes)
        return [one.to(torch_type(self.kind)) for one in made]


ROWS, WIDE, NARROW = (16384, 4096), (4096,), (1024,)
TOKENS, HEADS, ANGLES = (1, 16384, 4096), (1, 32, 16384, 128), (1, 1, 16384, 128)


def cases() -> list[Beside]:
    return [
        Beside("copy", lambda x: x.clone(), ((16384, 8192),)),
        Beside("RMS norm", rms_norm, (ROWS, WIDE)),
        Beside(
            "residual and RMS norm",
            lambda x, y, w: (x + y, rms_norm(x + y, w)),
            (ROWS, ROWS, WIDE),
        ),
        Beside("RMS norm of heads", rms_norm, ((1, 16384, 32, 128), (128,))),
        Beside("layer norm", layer_norm, (ROWS, WIDE, WIDE)),
        Beside("layer norm of 1024", layer_norm, ((73728, 1024), NARROW, NARROW)),
        Beside("layer norm of 768", layer_norm, ((32768, 768), (768,), (768,)), "f32"),
        Beside(
            "residual and layer norm",
            lambda x, y, w, b: (x + y, layer_norm(x + y, w, b)),
            ((73728, 1024), (73728, 1024), NARROW, NARROW),
        ),
        Beside("rotary embedding", rotary, (HEADS, ANGLES, ANGLES)),
        Beside(
            "heads of 128 in front, rotary embedding",
            lambda x, c, s: rotary(heads(x, 128), c, s).contiguous(),
            (TOKENS, ANGLES, ANGLES),
        ),
        Beside("heads of 128 in front", lambda x: heads(x, 128).contiguous(), (TOKENS,)),
        Beside("heads of 80 in front", lambda x: heads(x, 80).contiguous(), ((16, 4096, 1280),)),
        Beside("heads of 128 behind", lambda x: x.transpose(1, 2).flatten(2), (HEADS,)),
        Beside("V transposed", lambda x: heads(x, 128).transpose(2, 3).contiguous(), (TOKENS,)),
        Beside(
            "8 heads, each 4 times",
            lambda x: x[:, :, None].expand(-1, -1, 4, -1, -1).flatten(1, 2),
            ((1, 8, 16384, 128),),
        ),
        Beside("f32 to f16", lambda x: x.half(), (ROWS,), "f32"),
        Beside("f16 to f32", lambda x: x.float(), (ROWS,)),
        Beside("SiLU of a gate", silu_gate, (ROWS, ROWS)),
        Beside("softmax", lambda x: x.softmax(-1), ((32, 1024, 2048),)),
        Beside("softmax of 32000", lambda x: x.softmax(-1), ((2048, 32000),)),
        Beside("log-softmax of 50257", lambda x: x.log_softmax(-1), ((2048, 50257),), "f32"),
        *_of_images(),
    ]


def _of_images() -> list[Beside]:
    """Ops of convolutional models, channels in front."""
    import torch
    from torch.nn import functional

    channels = (256,)
    return [
        Beside("norm to length 1", functional.normalize, ((16, 256, 56, 56),)),
        Beside(
            "layer norm of channels",
            lambda x, w, b: (
                layer_norm(x.permute(0, 2, 3, 1), w, b).permute(0, 3, 1, 2).contiguous()
            ),
            ((16, 256, 56, 56), channels, channels),
        ),
        Beside(
            "batch norm and ReLU",
            lambda x, m, v, w, b: functional.batch_norm(x, m, v.abs(), w, b).relu(),
            ((32, 256, 56, 56), channels, channels, channels, channels),
        ),
        Beside(
            "group norm",
            lambda x, w, b: functional.group_norm(x, 32, w, b),
            ((4, 320, 64, 64), (320,), (320,)),
        ),
        Beside("instance norm", functional.instance_norm, ((8, 64, 128, 128),)),
        Beside(
            "max pool, 3 x 3", lambda x: functional.max_pool2d(x, 3, 2, 1), ((32, 64, 112, 112),)
        ),
        Beside("mean pool, 2 x 2", lambda x: functional.avg_pool2d(x, 2), ((32, 256, 56, 56),)),
        Beside("means of 7 x 7", lambda x: x.mean((2, 3)), ((64, 2048, 7, 7),)),
        Beside("means of 14 x 14", lambda x: x.mean((2, 3)), ((32, 672, 14, 14),)),
        Beside("sums of 16384 rows of 1001", lambda x: x.sum(0), ((16384, 1001),), "f32"),
        Beside(
            "depthwise convolution, 3 x 3",
            lambda x, w: functional.conv2d(x, w, padding=1, groups=256),
            ((32, 256, 28, 28), (256, 1, 3, 3)),
        ),
        Beside(
            "depthwise convolution, 7 x 7",
            lambda x, w: functional.conv2d(x, w, padding=3, groups=96),
            ((32, 96, 56, 56), (96, 1, 7, 7)),
        ),
        Beside(
            "nearest pixels, twice as many",
            lambda x: functional.interpolate(x, scale_factor=2.0),
            ((8, 256, 64, 64),),
        ),
        Beside(
            "patches of 3 x 3", lambda x: functional.unfold(x, 3, padding=1), ((16, 64, 56, 56),)
        ),
        Beside("pixel shuffle", lambda x: functional.pixel_shuffle(x, 2), ((16, 256, 64, 64),)),
        Beside(
            "windows of 7 x 7, shifted",
            lambda x: (
                torch.roll(x, (-3, -3), (1, 2))
                .view(32, 8, 7, 8, 7, 96)
                .transpose(2, 3)
                .reshape(-1, 49, 96)
            ),
            ((32, 56, 56, 96),),
        ),
    ]


def compile(folder: Path, wanted: list[Beside], _: argparse.Namespace) -> None:
    import torch

    from bench.models.programs import text_of

    class Block(torch.nn.Module):
        def __init__(self, function: Callable[..., Any]):
            super().__init__()
            self.function = function

        def forward(self, *given: Tensor) -> Any:
            return self.function(*given)

    for case in wanted:
        if case.name == "copy":
            continue
        inputs = case.inputs("cpu")
        source = folder / "module.mlir"
        source.write_text(text_of(Block(case.function), inputs, [None] * len(inputs)))
        must_compile(source, folder / f"{case.name}.vmfb", *SM_90)
        source.unlink()


def run(folder: Path, case: Beside, _: argparse.Namespace) -> Iterator[Row]:
    import torch

    inputs = case.inputs("cuda")
    right = several(case.function(*(one.double() for one in inputs)))
    results = {"torch": several(case.function(*inputs))}
    calls: dict[str, Callable[[], Any]] = {"torch": lambda: case.function(*inputs)}
    if case.name != "copy":
        config = gpu()
        main = load(config, folder / f"{case.name}.vmfb")["main"]
        given = [to_iree(config.device, one) for one in inputs]
        kinds = [one.dtype for one in results["torch"]]
        got = several(main(*given))
        results["attnpass"] = [to_torch(*pair) for pair in zip(got, kinds, strict=True)]
        calls["attnpass"] = lambda: main(*given)
    moved = sum(one.nbytes for one in (*inputs, *results["torch"]))
    spent = gpu_microseconds(calls, TURNS)
    for way, found in results.items():
        pairs = zip(found, right, strict=True)
        error = max(relative_error(one.cpu(), other.cpu()) for one, other in pairs)
        speed = round(moved / spent[way] / 1e3)
        yield row(
            case.name, way, {"error": error, "us": spent[way]}, megabytes=moved / 1e6, GBps=speed
        )
    torch.cuda.empty_cache()
