"""`attnpass.run`: a pass pipeline on a module that a script holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .passes import PassContext
from .passes.pipeline import parse_pipeline, run_pipeline
from .report.records import Report

if TYPE_CHECKING:
    from iree.compiler import ir


def default_pipeline(
    mode: str,
    *,
    cache: str = "kept",
    kernels: str = "never",
    configure: bool,
    hardware_exp2: bool,
    shared_memory: bool,
    raise_attention: bool = True,
    table: str = "",
) -> str:
    """The passes that a compile runs by default, as pipeline text; `table` is a file of tuned
    configurations."""
    options = f"mode={mode} operands=v,k,q" + (f" cache={cache}" if cache != "kept" else "")
    # Without configurations attention ops are slower than what they are made of.
    passes = ["attn-flex-masks"] + (["attn-raise"] if raise_attention and configure else [])
    passes += [
        "attn-same-types",
        "attn-normal-form",
        "attn-fuse-normalization",
        "attn-mask-positions",
        "attn-share-masks",
        f"attn-propagate-layout{{{options}}}",
        "attn-lowest-masks",
    ]
    if kernels != "never":
        passes.append(f"attn-use-kernels{{mode={kernels}}}")
    passes += ["attn-drop-unit-dims", "attn-order-dims"]
    if configure:
        passes += [
            "attn-widen",
            "attn-cut-heads",
            "attn-pad-heads",
            "attn-tile-dynamic",
            "attn-tile-products",
            "attn-keep-tiles",
        ]
    passes += [
        "attn-mask-dynamic-keys",
        "attn-generic-products",
        "attn-scatter-indices",
        "attn-gather-indices",
        "attn-gather-slices",
        "attn-join-dims",
    ]
    if configure:
        passes.append("attn-store-operands")
        passes += ["attn-pad-keys", "attn-split-k{configured=true}"]
    passes.append("attn-own-buffers")
    passes.append(f"attn-decompose{{only=wrong configured={str(configure).lower()}}}")
    passes.append("attn-store-results")
    if configure:
        passes.append(f"attn-configure{{source={{{table}}}}}" if table else "attn-configure")
    passes += [
        "attn-order-factors",
        "attn-natural-scores",
        "attn-lone-lanes",
        "attn-whole-sums",
        "attn-hidden-rows",
    ]
    if configure:
        passes.append("attn-vectorize")
    if hardware_exp2:
        passes.append("attn-hardware-exp2")
    if shared_memory:
        passes.append("attn-shared-memory")
    return ",".join(passes)


def run(
    module: ir.Module | ir.Operation | ir.OpView,
    pipeline: str | None = None,
    *,
    mode: str = "cost",
    target: str | None = None,
    verify: bool = True,
) -> Report:
    """Runs `pipeline` on `module` (a builtin.module) in place and returns its report.

    `pipeline` is text as `attn-opt -p` takes it; without it the layout pass runs in `mode`
    (`cost`, `always` or `never`). `target` names the machine to price for, where the
    module's own executable targets do not. The module's context must have IREE's dialects
    loaded (`context.load_all_available_dialects()`).

    Raises PipelineError for a bad pipeline, AttnError where a pass fails.
    """
    from .targets import resolve_target

    operation = module.operation
    stages = parse_pipeline(
        pipeline
        or default_pipeline(mode, configure=False, hardware_exp2=False, shared_memory=False)
    )
    report = Report()
    context = PassContext(report, resolve_target(operation, target))
    run_pipeline(operation, stages, context, verify=verify)
    return report
