"""What stands beside attention and products on a GPU, at which part of the memory's speed.

Norms, rotary embeddings, copies of heads, casts and gates of tensors that no cache holds, compiled
from PyTorch, beside PyTorch's own (eager). `megabytes` is what a case has to read and to write;
the memory's speed is that of PyTorch's copy of 268 MB (`copy`). Errors are relative L2 distances to
float64; times are the GPU's, from CUPTI through torch's profiler, programs taking turns.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import gpu, load, to_iree, to_torch, torch_type
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
    ]


def compile(folder: Path, wanted: list[Beside], _: argparse.Namespace) -> None:
    import torch

    from bench.models.blocks import text_of

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
    right = _several(case.function(*(one.double() for one in inputs)))
    results = {"torch": _several(case.function(*inputs))}
    calls: dict[str, Callable[[], Any]] = {"torch": lambda: case.function(*inputs)}
    if case.name != "copy":
        config = gpu()
        main = load(config, folder / f"{case.name}.vmfb")["main"]
        given = [to_iree(config.device, one) for one in inputs]
        kinds = [one.dtype for one in results["torch"]]
        got = _several(main(*given))
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


def _several(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]
