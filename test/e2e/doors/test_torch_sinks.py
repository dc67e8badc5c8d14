"""Attention with a sink for each head, as gpt-oss writes it and as others do, from PyTorch: numbers
on a CPU against float64, and what becomes of it for a Hopper GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

import attnpass.torch  # noqa: E402
from attnpass.driver.modules import module_bytes  # noqa: E402
from attnpass.torch.compiled import _imported  # noqa: E402
from attnpass.torch.exported import export  # noqa: E402

KINDS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
TOLERANCE = {"f16": 2e-3, "bf16": 1e-2, "f32": 5e-6}


@dataclass(frozen=True)
class Case:
    """Heads in groups that share K and V; the last of `rows` sees all `keys`, a row sees itself and
    those in front of it, `window` of them where that is not 0. What hides keys is added, `lowest`
    or minus infinity; it is computed, or an `argument`, which hides the first keys of the second
    sequence and all keys from its first row. The softmax is in f32 where it is `wide`, and has the
    largest score taken off where it is `shifted`. `form`: the sink is a `column` of the scores, a
    `key` of zeros that scaled_dot_product_attention gets, or weighs what is without it: by a
    sigmoid (`lse`), or `side_by_side` with the logarithm of the sum, behind `flex` as well."""

    kind: str = "f32"
    rows: int = 48
    keys: int = 48
    sequences: int = 2
    window: int = 0
    lowest: bool = True
    argument: bool = False
    wide: bool = False
    shifted: bool = True
    form: str = "column"
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64

    def inputs(self) -> list[Any]:
        random = torch.Generator().manual_seed(5)

        def drawn(heads: int, count: int) -> Any:
            sizes = (self.sequences, heads, count, self.head_dim)
            return torch.randn(*sizes, generator=random).to(KINDS[self.kind])

        query, key, value = (
            drawn(heads, count)
            for heads, count in (
                (self.heads, self.rows),
                (self.kv_heads, self.keys),
                (self.kv_heads, self.keys),
            )
        )
        # Some sinks have nearly all weight, some none.
        sinks = torch.linspace(-6, 9, self.heads).to(KINDS[self.kind])
        sinks[0], sinks[1] = 6e4, -6e4
        return [2 * query, key, value, sinks, *([self.mask()] if self.argument else [])]

    def mask(self) -> Any:
        kind = KINDS[self.kind]
        hidden = torch.finfo(kind).min if self.lowest else -math.inf
        mask = (
            Written(self).mask(self.rows, self.keys, hidden, kind).repeat(self.sequences, 1, 1, 1)
        )
        if self.argument and self.sequences > 1:
            mask[1, :, :, : self.keys // 3] = hidden
            mask[1, :, 0] = hidden
        return mask

    def wanted(self, inputs: list[Any]) -> Any:
        query, key, value, sinks, *mask = (tensor.double() for tensor in inputs)
        groups = self.heads // self.kv_heads
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
        scores = query @ key.transpose(2, 3) * self.head_dim**-0.5
        hidden = mask[0] if mask else Written(self).mask(*scores.shape[2:], -math.inf, scores.dtype)
        column = sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores + hidden, column], -1).softmax(-1)[..., :-1]
        return (weights @ value).transpose(1, 2)


class Written(torch.nn.Module):
    """The attention of a case; (sequences, rows, heads, head dim)."""

    def __init__(self, case: Case):
        super().__init__()
        self.case = case

    def mask(self, rows: int, keys: int, hidden: float, kind: Any) -> Any:
        row = torch.arange(rows)[:, None] + (keys - rows)
        key = torch.arange(keys)[None, :]
        seen = key <= row
        if self.case.window:
            seen = seen & (key > row - self.case.window)
        return torch.where(seen, 0.0, hidden).to(kind)[None, None]

    def forward(self, query: Any, key: Any, value: Any, sinks: Any, mask: Any = None) -> Any:
        case = self.case
        if mask is None:
            hidden = torch.finfo(query.dtype).min if case.lowest else -math.inf
            mask = self.mask(query.shape[2], key.shape[2], hidden, query.dtype)
        groups = query.shape[1] // key.shape[1]
        key, value = (self.repeated(x, groups) for x in (key, value))
        return getattr(self, case.form)(query, key, value, sinks, mask)

    def repeated(self, x: Any, groups: int) -> Any:
        sequences, heads, count, width = x.shape
        x = x[:, :, None].expand(sequences, heads, groups, count, width)
        return x.reshape(sequences, heads * groups, count, width)

    def column(self, query: Any, key: Any, value: Any, sinks: Any, mask: Any) -> Any:
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5 + mask
        column = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        scores = torch.cat([scores, column], -1)
        if self.case.shifted:
            scores = scores - scores.max(-1, keepdim=True).values
        kind = torch.float32 if self.case.wide else scores.dtype
        weights = F.softmax(scores, -1, dtype=kind)[..., :-1].to(value.dtype)
        return (weights @ value).transpose(1, 2).contiguous()

    def key(self, query: Any, key: Any, value: Any, sinks: Any, mask: Any) -> Any:
        key, value = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in (key, value))
        mask = mask.expand(*query.shape[:3], -1)
        column = sinks.reshape(1, -1, 1, 1).expand(*mask.shape[:3], 1)
        mask = torch.cat([mask, column], -1)
        return F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)

    def without(
        self, query: Any, key: Any, value: Any, sinks: Any, mask: Any
    ) -> tuple[Any, Any, Any]:
        scores = (query @ key.transpose(2, 3)).float() * query.shape[-1] ** -0.5 + mask.float()
        result = scores.softmax(-1).to(value.dtype) @ value
        return result, scores.logsumexp(-1, True), sinks.reshape(1, -1, 1, 1).float()

    def lse(self, query: Any, *others: Any) -> Any:
        result, lse, sinks = self.without(query, *others)
        return (result * torch.sigmoid(lse - sinks)).to(query.dtype).transpose(1, 2)

    def side_by_side(self, query: Any, *others: Any) -> Any:
        result, lse, sinks = self.without(query, *others)
        both = torch.cat([lse, sinks.expand(*lse.shape)], -1).logsumexp(-1, True)
        return (result * torch.exp(lse - both)).to(query.dtype).transpose(1, 2)


class Flex(Written):
    """FlexAttention on grouped heads, as transformers calls it."""

    def forward(self, query: Any, key: Any, value: Any, sinks: Any) -> Any:
        window = self.case.window

        def seen(b: Any, h: Any, row: Any, place: Any) -> Any:
            return (row >= place) & (row - place < window) if window else row >= place

        sizes = (query.shape[2], key.shape[2])
        blocks = create_block_mask(seen, None, None, *sizes, device="cpu")
        result, lse = flex_attention(
            query, key, value, block_mask=blocks, enable_gqa=True, return_lse=True
        )
        lse = lse[..., None]
        both = torch.cat([lse, sinks.view(1, -1, 1, 1).expand(*lse.shape)], -1)
        share = torch.exp(lse - both.logsumexp(-1, True))
        return (result * share).to(query.dtype).transpose(1, 2)


def written(case: Case) -> Written:
    return (Flex if case.form == "flex" else Written)(case).eval()


# Of f16, numbers to 65504.
CASES = {
    "f32": Case(),
    "bf16": Case("bf16"),
    "window": Case("f16", window=9),
    "infinite": Case("f16", lowest=False, wide=True),
    "not shifted": Case("bf16", lowest=False, shifted=False),
    "padding": Case("f16", argument=True),
    "infinite padding": Case("bf16", argument=True, lowest=False, keys=70),
    "decode over padding": Case("f16", rows=1, keys=513, argument=True, lowest=False),
    "tokens in a window": Case("f32", rows=3, keys=512, window=100),
    "key": Case("f32", form="key", lowest=False),
    "lse in a window": Case("f16", form="lse", window=9),
    "side by side": Case("f32", form="side_by_side", lowest=False),
    "flex in a window": Case("bf16", form="flex", window=9),
}


class Several(torch.nn.Module):
    """Attentions beside one another, each with its own arguments."""

    def __init__(self, cases: Iterable[Case]):
        super().__init__()
        self.parts = torch.nn.ModuleList(written(case) for case in cases)

    def forward(self, *inputs: Any) -> Any:
        return [part(*given) for part, given in zip(self.parts, inputs, strict=True)]


@cache
def results() -> dict[str, Any]:
    """What each case gives, by one program."""
    inputs = [case.inputs() for case in CASES.values()]
    fast = attnpass.torch.compile(Several(CASES.values()), inputs, device="cpu")
    raised = fast.report.found("raised")
    found = sum("its weights and its sink's" in str(record) for record in raised)
    assert found == sum(case.form != "key" for case in CASES.values())
    return dict(zip(CASES, fast(*inputs), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    case = CASES[name]
    got, wanted = results()[name].double(), case.wanted(case.inputs())
    assert float((got - wanted).norm() / wanted.norm()) < TOLERANCE[case.kind]


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_unknown_lengths(kind: str) -> None:
    case = Case(kind)
    length = torch.export.Dim("length", min=2, max=512)
    shapes = ({2: length}, {2: length}, {2: length}, None)
    model = written(case)
    fast = attnpass.torch.compile(model, case.inputs(), device="cpu", dynamic_shapes=shapes)
    for rows in (48, 77):
        inputs = replace(case, rows=rows, keys=rows).inputs()
        got, wanted = fast(*inputs).double(), case.wanted(inputs)
        assert float((got - wanted).norm() / wanted.norm()) < TOLERANCE[kind]


LARGE = Case("f16", rows=2048, keys=2048, sequences=1, heads=64, kv_heads=8)
STEP = replace(LARGE, rows=1, keys=4096, sequences=8)
KERNELS = {
    "causal": (LARGE, "attention_f16_d64_wide_causal_sink"),
    "bf16": (replace(LARGE, kind="bf16"), "attention_bf16_d64_wide_causal_sink"),
    "few heads": (
        replace(LARGE, heads=16, kv_heads=2, rows=512, keys=512),
        "attention_f16_d64_causal_sink",
    ),
    "window": (replace(LARGE, window=128), "attention_f16_d64_window_sink"),
    "padding": (replace(LARGE, argument=True), "attention_f16_d64_mask_f32_aligned_sink"),
    "odd padding": (
        replace(LARGE, argument=True, rows=333, keys=517, sequences=2),
        "attention_f16_d64_mask_f32_sink",
    ),
    "lse": (replace(LARGE, form="lse", lowest=False), "attention_f16_d64_wide_causal_sink"),
    "flex": (replace(LARGE, form="flex", window=128), "attention_f16_d64_window_sink"),
    "decode": (STEP, "cached_f16_d64_by"),
    "decode, wide heads": (replace(STEP, heads=32, head_dim=128), "cached_f16_d128_by"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_for_hopper(name: str) -> None:
    case, kernel = KERNELS[name]
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--compile-to=flow"]
    # By its price IREE's code is as fast under a mask of rows.
    flags += ["--attn-kernels=always"] if case.argument else []
    *_, module, _ = _imported(export(written(case), case.inputs(), None, None, False))
    text = attnpass.compile_str(module_bytes(module), input_type="torch", extra_args=flags)
    assert text is not None
    assert f"@{kernel}" in text.decode()
    assert "online_attention" not in text.decode()
