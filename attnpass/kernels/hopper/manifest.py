"""Precompiled attention kernels and what the manifest says about them.

The kernels are data: machine code that `tools/build_kernels.py` made from the sources in this
folder, where it lies, too.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_FILES = files("attnpass.kernels.hopper")
# Kinds of kernels that take blocks of the rows that share K and V, each by a workgroup or cluster.
BY_BLOCK = ("divided", "short", "blocks", "cached", "split", "lone")


@cache
def _images(file: str) -> bytes:
    """The machine code of the kernels that a file holds, one after the other."""
    return lzma.decompress(_FILES.joinpath(file).read_bytes())


@dataclass(frozen=True, kw_only=True)
class DeviceCode:
    """Machine code and how it is launched. `scratch_per_workgroup` and `shared_memory` are in
    bytes, `workgroup_size` in threads; `constants` are its 32-bit parameters, in order. Its code is
    `size` bytes from `offset` on of what `file` holds, kernels that have much code in common."""

    name: str
    target: str
    scratch_per_workgroup: int
    shared_memory: int
    workgroup_size: int
    constants: tuple[str, ...]
    source: str
    source_hash: str
    file: str
    offset: int
    size: int
    hash: str

    def image(self) -> bytes:
        """The kernel's machine code, as the CUDA driver loads it."""
        return _images(self.file)[self.offset : self.offset + self.size]


@dataclass(frozen=True, kw_only=True)
class Kernel(DeviceCode):
    """One kernel for attention, as the manifest describes it.

    `kind` is `prefill` (blocks of rows over all keys), `decode` (few rows over a cache; its
    partial results go to a kernel of kind `combine`), `latent` (decode over a cache whose first
    columns are V), `divided` (blocks of rows, whose keys a `cluster` of workgroups divides),
    `short` (blocks of rows over few keys), `blocks` (the same, one after the other), `cached` (up
    to 16 rows over a cache, whose keys a `cluster` divides), `split` (the same by single
    workgroups, with partial results as `decode` has them), `lone` (16 rows of one of many heads
    over few keys, by one warp) or `combine`. `element_type` is that of the query, `cache_type` that
    of K and `value_type` that of V. `head_dims` are those of Q.K and
    of V; kernels that are told how many `columns` there are take fewer, too.
    `v_layout` is `row-major` (keys, head dim) or `transposed`; `mask` is `none`, `causal`,
    `window` (causal, and no keys far behind), `operand` (a tensor of `mask_type`) or `keys` (one
    row of it for all rows); `soft_cap` says whether it caps scores (a decode kernel only where it
    is told to); the number of keys
    must be a multiple of `keys_multiple` (for the rows of V^T or of a mask to be aligned) and
    every operand aligned to `alignment` bytes. Decode kernels read the keys in tiles of
    `keys_per_tile`; `programs_per_unit` of them fit on a multiprocessor at once; prefill
    kernels that have it, too, do all the work with so many programs. Those that combine take
    `columns_per_workgroup` elements of a row at a time. Those with a `sink` add the weight of a
    score that belongs to no key, and are for nothing else. Where a mask hides every key the result
    is 0; one that `settles_unseen` rows gives the mean of V where it has nothing but its lowest
    number (`unseen.py`). `measured` is the best speed that
    bench/results/kernels_h200.json has for the kernel, in words; it did `measured_work`
    (operations, with those on what it fills up; where caches are read: bytes of K and V) in
    `measured_seconds`. Empty, and 0, where it was not timed.
    """

    kind: str
    element_type: str
    cache_type: str
    value_type: str
    output_type: str
    head_dims: tuple[int, int]
    v_layout: str
    mask: str
    mask_type: str
    keys_multiple: int
    rows_per_workgroup: int
    alignment: int
    soft_cap: bool = False
    keys_per_tile: int = 0
    programs_per_unit: int = 0
    columns_per_workgroup: int = 0
    cluster: int = 1
    sink: bool = False
    settles_unseen: bool = False
    measured: str = ""
    measured_work: float = 0
    measured_seconds: float = 0

    @property
    def v_transposed(self) -> bool:
        return self.v_layout == "transposed"

    @property
    def padded(self) -> bool:
        """Whether it takes smaller head dims, the same of Q, K and V, in as long a time."""
        return "columns" in self.constants

    def takes(self, head_dims: tuple[int | None, int | None]) -> bool:
        """Whether these head dims, of Q.K and of V, are its own, or it fills them up."""
        if not self.padded:
            return self.head_dims == head_dims
        own, value = head_dims
        return own is not None and own == value and own <= self.head_dims[0] and not own % self.step

    @property
    def step(self) -> int:
        """What divides the head dims that it fills up: rows of columns are aligned, as strides
        are."""
        return 16 if self.element_type.startswith("f8") else 8

    @property
    def over_cache(self) -> bool:
        """Whether it compares every key with both limits of a row, and caps scores, if it does,
        where it is told to."""
        return self.kind in ("decode", "latent", *BY_BLOCK)

    @property
    def combined(self) -> bool:
        """Whether another kernel adds up its partial results."""
        return self.kind in ("decode", "latent", "split")

    @property
    def takes_sinks(self) -> bool:
        """Whether it adds a sink's weight, or a kernel that adds up its partial results does."""
        if not self.combined:
            return self.sink
        wanted = (self.output_type, self.head_dims[1])
        found = [k for k in load_kernels() if k.kind == "combine" and k.sink]
        return wanted in [(k.output_type, k.head_dims[1]) for k in found]

    @property
    def strided(self) -> bool:
        """Whether it is told where its operands and its result lie."""
        return "batch_heads" in self.constants


@dataclass(frozen=True)
class KernelTile:
    """A tile of kernels that have several, see cuda/turned.cu: `across` (2, 1, 0) says that it has
    256, 128 or 64 columns, and it has `down` blocks of `height` rows, or, of 64 columns, one for
    each half of a workgroup. `number` is its place among them. Of images a block is `box` pixels
    of each of several lines, and this `share` of its rows is none beyond an image's sides."""

    number: int
    across: int
    down: int
    height: int
    box: int = 0
    share: float = 1.0

    @property
    def columns(self) -> int:
        return 64 << self.across

    @property
    def blocks(self) -> int:
        return self.down if self.across else 2

    @property
    def rows(self) -> int:
        return self.height * self.blocks

    @property
    def shape(self) -> int:
        """As kernels are told."""
        own = self.number << 11 | self.height << 3 | (self.down - 1) << 2 | self.across
        return self.box << 16 | own


@dataclass(frozen=True, kw_only=True)
class ProductKernel(DeviceCode):
    """A kernel for products of rows with weights, as products.json describes it.

    It writes `result_type`. `weights` says how these lie: `nk` or `kn`. It computes tiles of 128
    rows and `columns_per_tile` columns, the depth of each divided among a `cluster`, or that one of
    `tiles` which is done soonest (tiles.py), or, where `most_rows` is not 0, up to so many
    rows at the speed of memory, `columns_per_workgroup` of the result by each `cluster` of
    workgroups; where `most_blocks` is not 0, up to so many times these columns by a workgroup, of
    which `resident` run on a multiprocessor and a cluster may divide the depth (streamed.py).
    `bias`, `activation` and `other` are what it does behind the product, in the words of
    `Epilogue`; where it is `gated` it multiplies the result with that of second weights. A
    `general` one is told at run time which of an epilogue's parts there are, and its `activation`
    is the kind of curve: `gelu`, `clamp` (not below a number) or `sigmoid` (times one of a
    polynomial). A `batched` one computes many products, and is told where the operands of each lie.
    A `grouped` one multiplies rows, which lie group by group, with the weights of their group. A
    `joined` one computes so many products of the same rows, each with weights, a bias or none, and
    a result of its own. An `imaged` one reads rows that are patches of images where these lie.
    """

    element_type: str
    result_type: str
    weights: str
    columns_per_tile: int
    most_rows: int
    columns_per_workgroup: int
    cluster: int
    bias: bool
    activation: str
    other: str
    gated: bool
    general: bool
    batched: bool
    grouped: bool
    joined: int
    tiles: tuple[KernelTile, ...] = ()
    imaged: bool = False
    most_blocks: int = 0
    resident: int = 1

    @property
    def parts(self) -> int:
        """Of how many workgroups each has a part of a tile's depth."""
        return 1 if self.most_rows else self.cluster

    @property
    def bounds_columns(self) -> bool:
        """Whether weights may have fewer columns than the result, whose rows are aligned."""
        alone = not (self.batched or self.grouped or self.joined)
        return self.general and self.weights == "nk" and alone


def entries_of(text: str) -> list[dict[str, Any]]:
    """The kernels of a manifest. What many share stands there once: lists of constants, by their
    number, and hashes of sources, by their names."""
    made = json.loads(text)
    return [
        entry
        | {"constants": made["constants"][entry["constants"]]}
        | {"source_hash": made["source_hashes"][entry["source"]]}
        for entry in made["kernels"]
    ]


@cache
def load_kernels() -> tuple[Kernel, ...]:
    """Every kernel of the manifest."""
    return tuple(
        Kernel(
            **{
                **entry,
                "head_dims": tuple(entry["head_dims"]),
                "constants": tuple(entry["constants"].split()),
            }
        )
        for entry in entries_of(_FILES.joinpath("manifest.json").read_text())
    )


@cache
def load_products() -> tuple[ProductKernel, ...]:
    """Every kernel for products."""
    entries = json.loads(_FILES.joinpath("products.json").read_text())["kernels"]
    return tuple(
        ProductKernel(
            **{
                **entry,
                "constants": tuple(entry["constants"].split()),
                "tiles": _tiles(entry.get("tiles", "")),
            }
        )
        for entry in entries
    )


def _tiles(words: str) -> tuple[KernelTile, ...]:
    sizes = [[int(size) for size in word.split("x")] for word in words.split()]
    return tuple(KernelTile(number, *each) for number, each in enumerate(sizes))
