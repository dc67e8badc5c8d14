"""Families: passes of one reason that stand side by side, and are one step of the pipeline.

Each part is a pass in a file of its own, which says itself what it mends or what it is there for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .passes import Needs, PassFamily, option

_CONFIGURE = ("configure",)


class RepairImports(PassFamily):
    name = "attn-repair-imports"
    summary = "ops of PyTorch, ONNX and JAX whose import is wrong or slow are written otherwise"
    phase = "start"
    parts = (
        "attn-flex-masks",
        "attn-plain-switches",
        "attn-kept-stores",
        "attn-known-ops",
        "attn-equal-ranks",
        "attn-wide-bytes",
        "attn-nearest-numbers",
        "attn-exact-integers",
        "attn-compared-numbers",
        "attn-plain-pads",
        "attn-bounded-grids",
        "attn-instance-norms",
        "attn-stopping-loops",
        "attn-plain-einsums",
        "attn-wide-imports",
        "attn-plain-indices",
        "attn-select-writes",
        "attn-join-reshapes",
        "attn-unsigned-reverses",
        "attn-bounded-scatters",
    )


class FoldViews(PassFamily):
    name = "attn-fold-views"
    summary = "reshapes and repeats in forms that IREE folds"
    parts = (
        "attn-match-reshapes",
        "attn-cut-groups",
        "attn-join-repeats",
        "attn-read-repeats",
        "attn-window-lines",
    )


class Parallelize(PassFamily):
    name = "attn-parallelize"
    summary = "reductions, sorts, scans and writes by index that run side by side"
    parts = (
        "attn-arg-maxima",
        "attn-rank-sorts",
        "attn-sum-scans",
        "attn-split-sums",
        "attn-signed-bounds",
        "attn-find-writes",
    )
    needs: ClassVar[Needs] = {"attn-split-sums": _CONFIGURE}


class PlainProducts(PassFamily):
    name = "attn-plain-products"
    summary = "convolutions and products of experts as plain products"
    parts = (
        "attn-spread-images",
        "attn-conv-products",
        "attn-channels-last",
        "attn-degenerate-loops",
        "attn-integer-products",
        "attn-split-products",
    )


class RepairFunctions(PassFamily):
    name = "attn-repair-functions"
    summary = "functions of numbers are written out"
    parts = (
        "attn-narrow-scalars",
        "attn-plain-tests",
        "attn-signed-powers",
        "attn-safe-divisions",
        "attn-gelu-tanh",
        "attn-exact-angles",
        "attn-linked-functions",
    )


class Canonicalize(PassFamily):
    name = "attn-canonicalize"
    summary = "types, dims, sums and masks of attention in one form"
    parts = (
        "attn-same-types",
        "attn-normal-form",
        "attn-fuse-normalization",
        "attn-mask-positions",
        "attn-share-masks",
    )


@dataclass(frozen=True)
class FitTiles(PassFamily):
    name = "attn-fit-tiles"
    summary = "GPUs: head dims, keys and rows of attention in sizes that a kernel's tiles fill"
    backends = ("cuda", "rocm")
    parts = (
        "attn-cut-heads",
        "attn-pad-heads",
        "attn-tile-dynamic",
        "attn-mask-dynamic-keys",
        "attn-pad-keys",
    )
    needs: ClassVar[Needs] = dict.fromkeys(
        ("attn-cut-heads", "attn-pad-heads", "attn-tile-dynamic", "attn-pad-keys"), _CONFIGURE
    )

    target: str = option("", "target to decide for, instead of the module's own")


@dataclass(frozen=True)
class FitProducts(PassFamily):
    name = "attn-fit-products"
    summary = "NVIDIA GPUs and CPUs: products in sizes and orders that kernels and loops want"
    backends = ("cuda", "llvm-cpu")
    parts = (
        "attn-tile-products",
        "attn-split-depths",
        "attn-pack-products",
        "attn-generic-products",
    )
    needs: ClassVar[Needs] = dict.fromkeys(
        ("attn-tile-products", "attn-split-depths", "attn-pack-products"), _CONFIGURE
    )

    target: str = option("", "target to decide for, instead of the module's own")


class FuseCopies(PassFamily):
    name = "attn-fuse-copies"
    summary = "rows of caches, slices and pieces are copied once, to where they are read"
    parts = ("attn-scatter-rows", "attn-slice-heads", "attn-fuse-pieces", "attn-place-pieces")
    needs: ClassVar[Needs] = {"attn-fuse-pieces": _CONFIGURE}


class RepairFusion(PassFamily):
    name = "attn-repair-fusion"
    summary = "what kernels would read wrong, or not compile with, is made before them"
    parts = (
        "attn-scatter-indices",
        "attn-gather-indices",
        "attn-store-crossed",
        "attn-store-gathers",
        "attn-read-terms",
        "attn-integer-sums",
        "attn-store-sums",
        "attn-store-vectors",
        "attn-gather-slices",
        "attn-link-constants",
    )


class OwnMemory(PassFamily):
    name = "attn-own-memory"
    summary = "globals and tensors keep their numbers"
    parts = ("attn-own-globals", "attn-own-buffers")


class MergeDispatches(PassFamily):
    name = "attn-merge-dispatches"
    summary = "sorts and pieces in fewer kernels"
    phase = "flow"
    parts = ("attn-launch-constants", "attn-merge-copies")


class RestoreDims(PassFamily):
    name = "attn-restore-dims"
    summary = "attention's dims in one form again, behind IREE's folding"
    phase = "flow"
    parts = ("attn-drop-unit-dims", "attn-order-dims")


class RepairKernels(PassFamily):
    name = "attn-repair-kernels"
    summary = "products, scores and loops in forms that IREE lowers right"
    phase = "flow"
    parts = (
        "attn-order-factors",
        "attn-lone-factors",
        "attn-natural-scores",
        "attn-wide-arithmetic",
        "attn-loop-carried",
        "attn-loop-starts",
        "attn-cloned-results",
    )


class RepairSums(PassFamily):
    name = "attn-repair-sums"
    summary = "sums that kernels add up whole, in tiles"
    phase = "executable-configurations"
    backends = ("cuda", "rocm")
    parts = ("attn-lone-lanes", "attn-whole-sums", "attn-tiled-sums")


class FillWorkgroups(PassFamily):
    name = "attn-fill-workgroups"
    summary = "CUDA: copies, norms and elementwise kernels in workgroups that fill the GPU"
    phase = "executable-configurations"
    backends = ("cuda",)
    parts = ("attn-moves", "attn-short-rows", "attn-full-workgroups")


class VectorLoops(PassFamily):
    name = "attn-vector-loops"
    summary = "CPUs: products, convolutions, running sums and attention as vector loops of our own"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    parts = (
        "attn-vectorize-products",
        "attn-vectorize-windows",
        "attn-vectorize-scans",
        "attn-vectorize",
    )


class RepairLinks(PassFamily):
    name = "attn-repair-links"
    summary = "CPUs: casts and maxima of 16 bits without functions that are wrong, or not there"
    phase = "executable-configurations"
    backends = ("llvm-cpu",)
    parts = (
        "attn-integers-to-bf16",
        "attn-half-maxima",
        "attn-double-halves",
        "attn-small-halves",
    )


class LowerCuda(PassFamily):
    name = "attn-lower-cuda"
    summary = "CUDA: kernels lowered with the GPU's own instructions and tiles"
    phase = "executable-configurations"
    backends = ("cuda",)
    parts = (
        "attn-hardware-exp2",
        "attn-fp8-casts",
        "attn-order-products",
        "attn-shared-memory",
    )
    needs: ClassVar[Needs] = {
        "attn-hardware-exp2": ("hardware_exp2",),
        "attn-shared-memory": ("shared_memory",),
    }


@dataclass(frozen=True)
class RepairCalls(PassFamily):
    name = "attn-repair-calls"
    summary = "CUDA: calls without empty grids, compiles at loading and late wakes"
    phase = "hal"
    backends = ("cuda",)
    parts = ("attn-empty-dispatches", "attn-spin-waits", "attn-assemble-kernels")
    needs: ClassVar[Needs] = {"attn-spin-waits": ("spin",), "attn-assemble-kernels": ("ptxas",)}

    ptxas: str = option("auto", "the assembler: `auto` for one that is installed, or its path")


FAMILIES: dict[str, type[PassFamily]] = {
    family.name: family
    for family in (
        RepairImports,
        FoldViews,
        Parallelize,
        PlainProducts,
        RepairFunctions,
        Canonicalize,
        FitTiles,
        FitProducts,
        FuseCopies,
        RepairFusion,
        OwnMemory,
        MergeDispatches,
        RestoreDims,
        RepairKernels,
        RepairSums,
        FillWorkgroups,
        VectorLoops,
        RepairLinks,
        LowerCuda,
        RepairCalls,
    )
}
