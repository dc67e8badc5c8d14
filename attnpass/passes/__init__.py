"""The pass contract and the registry of passes.

A pass is a frozen dataclass: its fields are its command-line options, `run` does the
work on a `builtin.module`. One file a pass; `REGISTRY` maps the pass name to the class
that is imported only when the pass is asked for. Other packages add passes through the
entry-point group `attnpass.passes` (name = pass name, value = `module:Class`).
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from iree.compiler import ir

    from ..attention import AttentionFacts
    from ..configs.user_specs import UserSpecs
    from ..report.records import Report
    from ..targets import Target

REGISTRY: dict[str, str] = {
    "attn-bubble-transpose-v": "attnpass.passes.bubble_transpose_v:BubbleTransposeV",
    "attn-configure": "attnpass.passes.configure:Configure",
    "attn-cut-heads": "attnpass.passes.cut_heads:CutHeads",
    "attn-decompose": "attnpass.passes.decompose:Decompose",
    "attn-drop-unit-dims": "attnpass.passes.drop_unit_dims:DropUnitDims",
    "attn-extract": "attnpass.passes.extract:Extract",
    "attn-flex-masks": "attnpass.passes.flex_masks:FlexMasks",
    "attn-fold-transpose": "attnpass.passes.fold_transpose:FoldTranspose",
    "attn-fuse-normalization": "attnpass.passes.fuse_normalization:FuseNormalization",
    "attn-fuse-transpose": "attnpass.passes.fuse_transpose:FuseTranspose",
    "attn-gather-indices": "attnpass.repair.gather_indices:GatherIndices",
    "attn-gather-slices": "attnpass.repair.gather_slices:GatherSlices",
    "attn-generic-products": "attnpass.repair.generic_products:GenericProducts",
    "attn-hardware-exp2": "attnpass.passes.hardware_exp2:HardwareExp2",
    "attn-mask-positions": "attnpass.passes.mask_positions:MaskPositions",
    "attn-natural-scores": "attnpass.passes.natural_scores:NaturalScores",
    "attn-normal-form": "attnpass.passes.normal_form:NormalForm",
    "attn-order-factors": "attnpass.repair.order_factors:OrderFactors",
    "attn-order-dims": "attnpass.passes.order_dims:OrderDims",
    "attn-hidden-rows": "attnpass.passes.hidden_rows:HiddenRows",
    "attn-empty-dispatches": "attnpass.repair.empty_dispatches:EmptyDispatches",
    "attn-lone-lanes": "attnpass.repair.lone_lanes:LoneLanes",
    "attn-whole-sums": "attnpass.repair.whole_sums:WholeSums",
    "attn-lowest-masks": "attnpass.passes.lowest_masks:LowestMasks",
    "attn-own-buffers": "attnpass.passes.own_buffers:OwnBuffers",
    "attn-pad-heads": "attnpass.passes.pad_heads:PadHeads",
    "attn-pad-keys": "attnpass.passes.pad_keys:PadKeys",
    "attn-join-dims": "attnpass.passes.join_dims:JoinDims",
    "attn-keep-apart": "attnpass.repair.keep_apart:KeepApart",
    "attn-keep-tiles": "attnpass.passes.keep_tiles:KeepTiles",
    "attn-mask-dynamic-keys": "attnpass.passes.mask_dynamic_keys:MaskDynamicKeys",
    "attn-propagate-layout": "attnpass.passes.propagate_layout:PropagateLayout",
    "attn-share-masks": "attnpass.passes.share_masks:ShareMasks",
    "attn-raise": "attnpass.passes.raise_attention:RaiseAttention",
    "attn-same-types": "attnpass.repair.same_types:SameTypes",
    "attn-scatter-indices": "attnpass.repair.scatter_indices:ScatterIndices",
    "attn-shared-memory": "attnpass.passes.shared_memory:SharedMemory",
    "attn-split-k": "attnpass.passes.split_k:SplitK",
    "attn-store-operands": "attnpass.passes.store_operands:StoreOperands",
    "attn-store-results": "attnpass.repair.store_results:StoreResults",
    "attn-tile-dynamic": "attnpass.passes.tile_dynamic:TileDynamic",
    "attn-tile-products": "attnpass.passes.tile_products:TileProducts",
    "attn-use-kernels": "attnpass.passes.use_kernels:UseKernels",
    "attn-vectorize": "attnpass.passes.vectorize:Vectorize",
    "attn-widen": "attnpass.passes.widen:Widen",
}


@dataclass
class PassContext:
    """What a pass may use besides its module: the report it writes to, the target, the passes of
    ours that come after it in the same run, and configurations that the user gave by flags."""

    report: Report
    target: Target | None = None
    later: tuple[Pass, ...] = ()
    specs: UserSpecs | None = None

    def target_for(self, module: ir.Operation, name: str = "") -> Target | None:
        """The target that a pass decides for: the one of this name if given, else the run's,
        else the module's own. Raises AttnError for a name that is no target."""
        from ..targets import resolve_target

        named = resolve_target(module, name) if name else self.target
        return named or resolve_target(module)

    def replace_attention(
        self, module: ir.Operation, replace: Callable[[AttentionFacts], str | None]
    ) -> bool:
        """Replaces attention ops, reports what became of each, and erases them; returns whether
        IR changed.

        `replace` gives the users of an attention another one and returns what a reader should
        know of that, or returns None and leaves it.
        """
        from ..attention import find
        from ..ir import erase_dead

        replaced: list[ir.Operation] = []
        with module.context:
            for facts in find(module):
                became = replace(facts)
                if became:
                    replaced.append(facts.op)
                    self.report.note(f"{facts.kind} at {facts.place}: {became}")
            erase_dead(replaced)
        return bool(replaced)


@dataclass(frozen=True)
class Pass:
    """Base of every pass.

    Subclasses set `name`, `summary` (one line) and, where they do not work on the IR of
    IREE's `preprocessing` phase, `phase`; those that mend wrong numbers say in `mends` what is
    wrong where they have to be left out. They declare options with `option(...)`. Where they
    leave the modules of some backends alone, `backends` has the others. A plugin's pass joins the
    default pipeline behind the step that it names in `after`.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    phase: ClassVar[str] = "preprocessing"
    mends: ClassVar[str] = ""
    backends: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[str] = ""

    @classmethod
    def concerns(cls, backends: Collection[str]) -> bool:
        """Whether the pass may change a module for one of these backends (or for any, if none
        is named)."""
        return not cls.backends or not backends or bool({*cls.backends} & {*backends})

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        """Rewrites `module` (a `builtin.module`) in place; returns whether it changed.

        Raises AttnError for input that the pass cannot work on.
        """
        raise NotImplementedError


def option(default: Any, doc: str, choices: tuple[str, ...] = ()) -> Any:
    """A pass option: a dataclass field with a one-line `doc` and, for words, `choices`."""
    return field(default=default, metadata={"doc": doc, "choices": choices})


def plugin_names() -> list[str]:
    """Names of the passes of installed plugins, sorted."""
    return sorted(_plugins())


def pass_names() -> list[str]:
    """Names of all passes, ours and those of installed plugins, sorted."""
    return sorted({*REGISTRY, *_plugins()})


def load_pass(name: str) -> type[Pass]:
    """The pass class of this name; PipelineError if there is none."""
    path = REGISTRY.get(name) or _plugins().get(name)
    if path is None:
        import difflib

        known = {known.removeprefix("attn-"): known for known in pass_names()}
        close = difflib.get_close_matches(name.removeprefix("attn-"), known, n=1)
        hint = f"; did you mean '{known[close[0]]}'?" if close else "; --show-passes lists them"
        raise PipelineError(f"unknown pass '{name}'{hint}")
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def make_pass(name: str, options: dict[str, str]) -> Pass:
    """A pass with its options parsed from text; PipelineError names what is wrong."""
    cls = load_pass(name)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, text in options.items():
        spec = fields.get(key.replace("-", "_"))
        if spec is None:
            known = ", ".join(f.replace("_", "-") for f in fields) or "none"
            raise PipelineError(f"pass '{name}' has no option '{key}' (it has: {known})")
        values[spec.name] = _parse_option(name, spec, text)
    return cls(**values)


def _parse_option(pass_name: str, spec: dataclasses.Field[Any], text: str) -> Any:
    choices = spec.metadata["choices"]
    kind = type(spec.default)
    if kind is tuple:
        words = tuple(word for word in text.strip("{}").split(",") if word)
        bad = [word for word in words if choices and word not in choices]
    elif kind is bool:
        words = {"true": True, "1": True, "": True, "false": False, "0": False}.get(text.lower())
        bad, choices = ([text] if words is None else []), ("true", "false")
    elif kind is int:
        words = int(text) if re.fullmatch(r"-?[0-9]+", text) else None
        bad, choices = ([text] if words is None else []), ("a whole number",)
    else:
        words, bad = text, [text] if choices and text not in choices else []
    if bad:
        raise PipelineError(
            f"pass '{pass_name}': '{bad[0]}' is not a value of option "
            f"'{spec.name.replace('_', '-')}' (use {', '.join(choices)})"
        )
    return words


def _plugins() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group="attnpass.passes")}
