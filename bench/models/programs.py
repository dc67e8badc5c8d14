"""Blocks by name (of blocks.py, others.py, pieces.py, kinds.py), their weights, and their programs
in IREE's torch dialect."""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from bench.models import blocks, kinds, others, pieces
from bench.models.blocks import Tensor

_MODELS = blocks.MODELS | others.MODELS | pieces.MODELS | kinds.MODELS


def block_of(model: str, sizes: Mapping[str, Any], kind: Any, device: str) -> Any:
    """A block with memory for its weights, which has any numbers in it."""
    with torch.device("meta"):
        block = _MODELS[model](**sizes)
    return block.to(kind).to_empty(device=device).eval().requires_grad_(False)


def fill(block: Any, seed: int = 7) -> None:
    """Random weights: matrices keep a row's norm, norms are about 1, biases small."""
    with torch.no_grad():
        for module in block.modules():
            generator = torch.Generator("cpu").manual_seed(seed)
            for name, weight in module.named_parameters(recurse=False):
                noise = torch.randn(weight.shape, generator=generator).to(weight.device)
                weight.copy_(_scaled(noise, name, isinstance(module, blocks.Conv1D)))


def _scaled(noise: Tensor, name: str, by_rows: bool) -> Tensor:
    if noise.dim() > 1:
        return noise / math.sqrt(noise.shape[-2 if by_rows or noise.dim() > 2 else -1])
    return 0.1 * noise + (0.0 if name == "bias" else 1.0)


class Called(nn.Module):
    """A block as a function of its inputs and then its weights."""

    def __init__(self, block: Any, inputs: int):
        super().__init__()
        # In a list, or its weights would be this module's, too.
        self.held, self.inputs = [block], inputs

    def forward(self, *values: Tensor) -> Tensor:
        (block,) = self.held
        weights = dict(zip(dict(block.named_parameters()), values[self.inputs :], strict=True))
        return torch.func.functional_call(block, weights, values[: self.inputs])


def text_of(block: Any, inputs: Sequence[Tensor], unknown: Sequence[Any]) -> str:
    """The block in IREE's torch dialect, its weights arguments behind its inputs; `unknown` are
    the sizes of each input that the program leaves open, as torch.export takes them. Tensors are
    not read."""
    from attnpass.torch.exported import decomposed, export, stateless
    from attnpass.torch.importer import imported
    from attnpass.torch.normalize import normalize

    weights = list(block.parameters())
    open_sizes = ((*unknown, *([None] * len(weights))),)
    program = export(Called(block, len(inputs)), [*inputs, *weights], None, open_sizes, False)
    module, _ = imported(stateless(normalize(decomposed(program))))
    return str(module)


def with_parameters(text: str, inputs: int) -> str:
    """A program of `text_of` whose weights are no arguments but parameters `w0`, `w1`, ... of scope
    `model`, which the runtime reads when it loads the program."""
    start, end = text.index("(%arg0"), text.index(") -> ")
    arguments = text[start + 1 : end].split(", %")
    given, weights = arguments[:inputs], arguments[inputs:]
    declared, loaded = "", ""
    for number, argument in enumerate(weights):
        name, kind = argument.split(": ")
        builtin = re.sub(r"!torch.vtensor<\[([\d,]*)\],(\w+)>", r"tensor<\1x\2>", kind)
        builtin = builtin.replace(",", "x")
        named = f'#flow.parameter.named<"model"::"w{number}">'
        declared += f"  util.global private @w{number} = {named} : {builtin}\n"
        loaded += f"    %w{number} = util.global.load @w{number} : {builtin}\n"
        loaded += f"    %{name} = torch_c.from_builtin_tensor %w{number} : {builtin} -> {kind}\n"
    function, body = text.rindex("  func.func", 0, start), text.index("{\n", end) + 2
    signature = text[function : start + 1] + ", %".join(given) + text[end:body]
    return text[:function] + declared + signature + loaded + text[body:]
