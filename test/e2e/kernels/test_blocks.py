"""Whole blocks for a Hopper GPU, compiled as far as `flow`: whose each product, attention, norm,
sort and cache write is.

The blocks are those of bench/models/blocks.py, a few hundred wide, with what real ones have:
grouped queries and rotary embedding, LayerNorm and biases, a static cache that is written.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import attnpass

BLOCKS = Path(__file__).parent / "blocks"
FLAGS = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90", "--compile-to=flow"]
# Of each block: the kernels of its products and attention, what the products' do behind them, and
# how many dispatches of IREE's own there are at most, by what they do.
EXPECTED = {
    "llama": (
        {"product": 4, "attention": 1},
        {"joined3": 1, "bias": 1, "add": 2, "silu": 1, "gated": 1},
        {"reduction": 2, "transpose": 2},
    ),
    # K and V are returned, heads in front of rows: the transposes are those of rotary embedding.
    "cache": (
        {"product": 5, "attention": 1},
        {"joined2": 1, "bias": 1, "add": 2, "silu": 1, "gated": 1},
        {"reduction": 2, "transpose": 2},
    ),
    "vit": (
        {"product": 4, "attention": 1},
        {"bias": 4, "add": 2, "gelu": 1},
        {"reduction": 2},
    ),
    "decode": (
        {"product": 5, "attention": 1},
        {"joined3": 1, "general": 5},
        {"reduction": 3, "scatter": 2, "elementwise": 6},
    ),
}
# Of blocks whose head dims are no powers of two: the kernel of their attention.
HEAD_DIMS = {
    "siglip": "blocks_f16_d80",
    "deepseek": "attention_f16_d192x128_causal",
    "deepseek_written": "attention_f16_d192x128_causal",
}
BEHIND = ("joined2", "joined3", "bias", "add", "gelu", "silu", "gated", "multiply", "general")


@functools.cache
def compiled(name: str) -> tuple[str, dict[str, Any]]:
    """The block at `flow`, and the report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        text = attnpass.compile_str(
            (BLOCKS / f"{name}.mlir").read_text(),
            input_type="torch",
            kernels="always",
            products="always",
            report=str(report),
            extra_args=FLAGS,
        )
        assert text is not None
        return text.decode(), json.loads(report.read_text())


def dispatched(text: str) -> tuple[list[str], list[str]]:
    """The names of kernels that are dispatched, and of IREE's own code."""
    names = re.findall(r"flow\.dispatch @[\w$]+(?:::@\w+)*::@([\w$]+)", text)
    kernels = [name for name in names if "dispatch" not in name]
    return kernels, [name for name in names if "dispatch" in name]


def purpose(name: str) -> str:
    words = ("matmul", "attention", "scatter", "reduction", "transpose")
    return next((word for word in words if word in name), "elementwise")


@pytest.mark.parametrize("name", EXPECTED)
def test_products_and_attention_are_kernels(name: str) -> None:
    kernels, others = dispatched(compiled(name)[0])
    wanted, behind, most = EXPECTED[name]
    kinds = [
        re.sub("decode|divided|short|blocks|cached", "attention", kernel.partition("_")[0])
        for kernel in kernels
    ]
    assert Counter(kinds) == wanted
    words = Counter(w for kernel in kernels for w in kernel.split("_") if w in BEHIND)
    assert words == behind
    found = Counter(map(purpose, others))
    assert all(count <= most.get(word, 0) for word, count in found.items()), others


def kernels_told(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of products that kernels compute; what else is told of products is how they are
    fitted to these."""
    found = [one for one in report["records"] if one["op"]["kind"] == "product"]
    assert {one["what"] for one in found} <= {"kernel", "fitted"}
    return [one for one in found if one["what"] == "kernel"]


def test_kernels_for_few_rows_add_the_residuals_and_multiply_the_gate() -> None:
    """They are told to at run time: the report says so."""
    reasons = [one["reason"] for one in kernels_told(compiled("decode")[1])]
    done = Counter(reason.partition(", with ")[2] for reason in reasons)
    together = "2 more of the products of its rows"
    assert done == {"a residual": 2, "SiLU": 1, "another product's result": 1, together: 3}


def test_experts_multiply_the_rows_of_their_groups() -> None:
    """Qwen3's way for many tokens: the router's product and those with both weights have kernels,
    rows are put in order by merges, which share a kernel, and nothing compares all pairs of rows,
    multiplies by all experts or writes row by row."""
    text, report = compiled("experts")
    kernels, others = dispatched(text)
    first, *grouped = kernels
    assert first.startswith("product_bf16") and grouped == ["product_bf16_grouped_tile256"] * 2
    rows, experts = 3001 * 2, 8
    assert not re.search(f"{rows}x(?:1x)?{rows}|{experts}x{rows}x256", text)
    assert not re.search("scatter|linalg_ext.sort|linalg_ext.scan|optimization_barrier", text)
    merges = Counter(name for name in others if f"broadcast_{rows}_i32" in name)
    assert sorted(merges.values()) == [1, 12]
    found = Counter(map(purpose, others)) - Counter(map(purpose, merges.elements()))
    assert found <= Counter(reduction=5, elementwise=10), others
    named = [one["reason"] for one in report["records"] if one["op"]["kind"] == "product"]
    assert sum("grouped" in reason for reason in named) == 2 and len(named) == 3


@pytest.mark.parametrize("name", HEAD_DIMS)
def test_other_head_dims_have_kernels(name: str) -> None:
    """As torch writes such blocks, by its own function or two products and a softmax."""
    kernels, others = dispatched(compiled(name)[0])
    assert [kernel for kernel in kernels if not kernel.startswith("product")] == [HEAD_DIMS[name]]
    assert not [other for other in others if "attention" in other]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_report_says_whose_each_product_is(name: str) -> None:
    """One record for each product of the model; a gate and what it multiplies are of one kernel."""
    text, report = compiled(name)
    records = kernels_told(report)
    source = (BLOCKS / f"{name}.mlir").read_text()
    assert len(records) == source.count("torch.aten.linear")
    named = Counter(one["reason"].partition(":")[0] for one in records)
    for kernel, count in named.items():
        assert text.count(f'"{kernel}"') or text.count(f"@{kernel}"), kernel
        assert "gated" not in kernel or count == 2
    (attention,) = report["attentions"]
    assert any(one["decision"] == "kernel" for one in attention["operands"])


def test_a_cache_is_written_in_place() -> None:
    """What the callers' caches hold is copied nowhere: a dispatch writes rows into each, by indices
    that another has made."""
    text, report = compiled("decode")
    caches = re.findall(r"%(\S+) = hal\.tensor\.import .*-> tensor<8x2x512x128xf16>", text)
    rows = dict(
        re.findall(r"%(\S+) = flow\.tensor\.reshape %(\S+) : tensor<8x2x512x128xf16>", text)
    )
    written = re.findall(r"= flow\.dispatch .*-> %(\w+)\b", text)
    assert len(caches) == 2
    assert sorted(rows[name] for name in written) == sorted(caches)
    assert "flow.tensor.clone" not in text
    reasons = [one["reason"] for one in report["records"] if one["what"] == "fitted"]
    assert sum(one.startswith("writes rows of 128 elements by one index") for one in reasons) == 2
