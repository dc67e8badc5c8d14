"""The pass contract and the registry of passes.

A pass is a frozen dataclass: its fields are its command-line options, `run` does the
work on a `builtin.module`. One file a pass; `REGISTRY` maps the pass name to the class
that is imported only when the pass is asked for. Other packages add passes through the
entry-point group `attnpass.passes` (name = pass name, value = `module:Class`). Every pass name
begins with `attn-`: others are passes of IREE and MLIR.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from . import plugins
from .errors import PipelineError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable

    from iree.compiler import ir

    from .attention.facts import AttentionFacts
    from .machines import Target
    from .machines.user_specs import UserSpecs
    from .report.records import Report
    from .report.words import What

# Passes of another name are IREE's and MLIR's.
PREFIX = "attn-"

# Options of the default pipeline that parts of a family need.
Needs = Mapping[str, tuple[str, ...]]

REGISTRY: dict[str, str] = {
    "attn-arg-maxima": "attnpass.forms.arg_maxima:ArgMaxima",
    "attn-assemble-kernels": "attnpass.gpu.assemble_kernels:AssembleKernels",
    "attn-bounded-grids": "attnpass.repair.bounded_grids:BoundedGrids",
    "attn-bounded-scatters": "attnpass.repair.bounded_scatters:BoundedScatters",
    "attn-bubble-transpose-v": "attnpass.layout.bubble_transpose_v:BubbleTransposeV",
    "attn-canonicalize": "attnpass.families:Canonicalize",
    "attn-channels-last": "attnpass.forms.channels_last:ChannelsLast",
    "attn-cloned-results": "attnpass.repair.cloned_results:ClonedResults",
    "attn-compared-numbers": "attnpass.repair.compared_numbers:ComparedNumbers",
    "attn-configure": "attnpass.configure.configure:Configure",
    "attn-conv-products": "attnpass.forms.conv_products:ConvProducts",
    "attn-cut-groups": "attnpass.forms.cut_groups:CutGroups",
    "attn-cut-heads": "attnpass.gpu.fit_tiles.fit_tiles:CutHeads",
    "attn-decompose": "attnpass.forms.decompose:Decompose",
    "attn-degenerate-loops": "attnpass.repair.degenerate_loops:DegenerateLoops",
    "attn-double-halves": "attnpass.repair.double_halves:DoubleHalves",
    "attn-drop-unit-dims": "attnpass.forms.drop_unit_dims:DropUnitDims",
    "attn-empty-dispatches": "attnpass.repair.empty_dispatches:EmptyDispatches",
    "attn-equal-ranks": "attnpass.repair.equal_ranks:EqualRanks",
    "attn-exact-angles": "attnpass.repair.exact_angles:ExactAngles",
    "attn-exact-integers": "attnpass.repair.exact_integers:ExactIntegers",
    "attn-explicit-repeats": "attnpass.layout.explicit_repeats:ExplicitRepeats",
    "attn-extract": "attnpass.tuning.extract:Extract",
    "attn-fill-workgroups": "attnpass.families:FillWorkgroups",
    "attn-find-writes": "attnpass.gpu.find_writes:FindWrites",
    "attn-fit-products": "attnpass.families:FitProducts",
    "attn-fit-tiles": "attnpass.families:FitTiles",
    "attn-flex-masks": "attnpass.repair.flex_masks:FlexMasks",
    "attn-fold-transpose": "attnpass.layout.fold_transpose:FoldTranspose",
    "attn-fold-views": "attnpass.families:FoldViews",
    "attn-fp8-casts": "attnpass.gpu.lower_cuda.lower_cuda:Fp8Casts",
    "attn-full-workgroups": "attnpass.gpu.full_workgroups:FullWorkgroups",
    "attn-fully-masked-rows": "attnpass.repair.fully_masked_rows:FullyMaskedRows",
    "attn-fuse-copies": "attnpass.families:FuseCopies",
    "attn-fuse-normalization": "attnpass.raising.fuse_normalization:FuseNormalization",
    "attn-fuse-pieces": "attnpass.gpu.fuse_pieces:FusePieces",
    "attn-fuse-transpose": "attnpass.layout.fuse_transpose:FuseTranspose",
    "attn-gather-indices": "attnpass.repair.gather_indices:GatherIndices",
    "attn-gather-slices": "attnpass.repair.gather_slices:GatherSlices",
    "attn-gather-weights": "attnpass.forms.gather_weights:GatherWeights",
    "attn-gelu-tanh": "attnpass.repair.gelu_tanh:GeluTanh",
    "attn-generic-products": "attnpass.repair.generic_products:GenericProducts",
    "attn-half-maxima": "attnpass.repair.half_maxima:HalfMaxima",
    "attn-hardware-exp2": "attnpass.gpu.lower_cuda.lower_cuda:HardwareExp2",
    "attn-hold-workspace": "attnpass.gpu.hold_workspace:HoldWorkspace",
    "attn-instance-norms": "attnpass.repair.instance_norms:InstanceNorms",
    "attn-integer-products": "attnpass.forms.integer_products:IntegerProducts",
    "attn-integer-sums": "attnpass.forms.integer_sums:IntegerSums",
    "attn-integers-to-bf16": "attnpass.repair.integers_to_bf16:IntegersToBf16",
    "attn-join-dims": "attnpass.forms.join_dims:JoinDims",
    "attn-join-repeats": "attnpass.forms.join_repeats:JoinRepeats",
    "attn-join-reshapes": "attnpass.repair.join_reshapes:JoinReshapes",
    "attn-keep-apart": "attnpass.repair.keep_apart:KeepApart",
    "attn-keep-tiles": "attnpass.gpu.keep_tiles:KeepTiles",
    "attn-kept-nans": "attnpass.repair.kept_nans:KeptNans",
    "attn-kept-stores": "attnpass.repair.kept_stores:KeptStores",
    "attn-known-ops": "attnpass.repair.known_ops:KnownOps",
    "attn-launch-constants": "attnpass.forms.launch_constants:LaunchConstants",
    "attn-link-constants": "attnpass.repair.link_constants:LinkConstants",
    "attn-linked-functions": "attnpass.repair.linked_functions:LinkedFunctions",
    "attn-lone-factors": "attnpass.repair.lone_factors:LoneFactors",
    "attn-lone-lanes": "attnpass.repair.lone_lanes:LoneLanes",
    "attn-loop-carried": "attnpass.repair.loop_carried:LoopCarried",
    "attn-loop-starts": "attnpass.repair.loop_starts:LoopStarts",
    "attn-lower-cuda": "attnpass.families:LowerCuda",
    "attn-lowest-masks": "attnpass.repair.lowest_masks:LowestMasks",
    "attn-mask-dynamic-keys": "attnpass.gpu.fit_tiles.fit_tiles:MaskDynamicKeys",
    "attn-mask-positions": "attnpass.repair.mask_positions:MaskPositions",
    "attn-match-reshapes": "attnpass.forms.match_reshapes:MatchReshapes",
    "attn-merge-copies": "attnpass.forms.merge_copies:MergeCopies",
    "attn-merge-dispatches": "attnpass.families:MergeDispatches",
    "attn-moves": "attnpass.gpu.moves:Moves",
    "attn-narrow-scalars": "attnpass.repair.narrow_scalars:NarrowScalars",
    "attn-natural-scores": "attnpass.repair.natural_scores:NaturalScores",
    "attn-nearest-numbers": "attnpass.repair.nearest_numbers:NearestNumbers",
    "attn-normal-form": "attnpass.forms.normal_form:NormalForm",
    "attn-order-concats": "attnpass.layout.order_concats:OrderConcats",
    "attn-order-dims": "attnpass.forms.normal_form:OrderDims",
    "attn-order-factors": "attnpass.repair.order_factors:OrderFactors",
    "attn-order-products": "attnpass.repair.order_products:OrderProducts",
    "attn-own-buffers": "attnpass.repair.own_buffers:OwnBuffers",
    "attn-own-globals": "attnpass.repair.own_globals:OwnGlobals",
    "attn-own-memory": "attnpass.families:OwnMemory",
    "attn-own-results": "attnpass.gpu.own_results:OwnResults",
    "attn-pack-products": "attnpass.cpu.pack_products:PackProducts",
    "attn-pad-heads": "attnpass.gpu.fit_tiles.fit_tiles:PadHeads",
    "attn-pad-keys": "attnpass.gpu.fit_tiles.fit_tiles:PadKeys",
    "attn-parallelize": "attnpass.families:Parallelize",
    "attn-place-pieces": "attnpass.forms.place_pieces:PlacePieces",
    "attn-plain-einsums": "attnpass.repair.plain_einsums:PlainEinsums",
    "attn-plain-indices": "attnpass.repair.plain_indices:PlainIndices",
    "attn-plain-pads": "attnpass.repair.plain_pads:PlainPads",
    "attn-plain-products": "attnpass.families:PlainProducts",
    "attn-plain-switches": "attnpass.repair.plain_switches:PlainSwitches",
    "attn-plain-tests": "attnpass.repair.plain_tests:PlainTests",
    "attn-propagate-layout": "attnpass.layout.propagate_layout:PropagateLayout",
    "attn-raise": "attnpass.raising.raise_attention:RaiseAttention",
    "attn-rank-sorts": "attnpass.forms.rank_sorts:RankSorts",
    "attn-read-codes": "attnpass.cpu.read_codes:ReadCodes",
    "attn-read-repeats": "attnpass.forms.read_repeats:ReadRepeats",
    "attn-read-terms": "attnpass.repair.read_terms:ReadTerms",
    "attn-repair-calls": "attnpass.families:RepairCalls",
    "attn-repair-functions": "attnpass.families:RepairFunctions",
    "attn-repair-fusion": "attnpass.families:RepairFusion",
    "attn-repair-imports": "attnpass.families:RepairImports",
    "attn-repair-kernels": "attnpass.families:RepairKernels",
    "attn-repair-links": "attnpass.families:RepairLinks",
    "attn-repair-sums": "attnpass.families:RepairSums",
    "attn-restore-dims": "attnpass.families:RestoreDims",
    "attn-safe-divisions": "attnpass.repair.safe_divisions:SafeDivisions",
    "attn-same-types": "attnpass.repair.same_types:SameTypes",
    "attn-scatter-indices": "attnpass.repair.scatter_indices:ScatterIndices",
    "attn-scatter-rows": "attnpass.forms.scatter_rows:ScatterRows",
    "attn-select-writes": "attnpass.forms.select_writes:SelectWrites",
    "attn-share-masks": "attnpass.forms.share_masks:ShareMasks",
    "attn-shared-memory": "attnpass.gpu.lower_cuda.lower_cuda:SharedMemory",
    "attn-short-rows": "attnpass.gpu.short_rows:ShortRows",
    "attn-signed-bounds": "attnpass.repair.signed_bounds:SignedBounds",
    "attn-signed-powers": "attnpass.repair.signed_powers:SignedPowers",
    "attn-slice-heads": "attnpass.forms.slice_heads:SliceHeads",
    "attn-small-halves": "attnpass.repair.small_halves:SmallHalves",
    "attn-spin-waits": "attnpass.gpu.spin_waits:SpinWaits",
    "attn-split-depths": "attnpass.gpu.split_depths:SplitDepths",
    "attn-split-indices": "attnpass.forms.split_indices:SplitIndices",
    "attn-split-k": "attnpass.split_k.split_k:SplitK",
    "attn-split-products": "attnpass.forms.split_products:SplitProducts",
    "attn-split-sums": "attnpass.gpu.split_sums:SplitSums",
    "attn-spread-images": "attnpass.forms.spread_images:SpreadImages",
    "attn-stopping-loops": "attnpass.repair.stopping_loops:StoppingLoops",
    "attn-store-crossed": "attnpass.repair.store_crossed:StoreCrossed",
    "attn-store-gathers": "attnpass.repair.store_gathers:StoreGathers",
    "attn-store-operands": "attnpass.cpu.store_operands:StoreOperands",
    "attn-store-results": "attnpass.repair.store_results:StoreResults",
    "attn-store-sums": "attnpass.repair.store_sums:StoreSums",
    "attn-store-vectors": "attnpass.repair.store_vectors:StoreVectors",
    "attn-sum-scans": "attnpass.gpu.sum_scans:SumScans",
    "attn-tile-dynamic": "attnpass.gpu.fit_tiles.fit_tiles:TileDynamic",
    "attn-tile-products": "attnpass.gpu.tile_products:TileProducts",
    "attn-tiled-sums": "attnpass.repair.tiled_sums:TiledSums",
    "attn-transpose-caches": "attnpass.layout.transpose_caches:TransposeCaches",
    "attn-unsigned-reverses": "attnpass.repair.unsigned_reverses:UnsignedReverses",
    "attn-use-kernels": "attnpass.kernels.use_kernels:UseKernels",
    "attn-use-products": "attnpass.kernels.use_products:UseProducts",
    "attn-vector-loops": "attnpass.families:VectorLoops",
    "attn-vectorize": "attnpass.cpu.vectorize:Vectorize",
    "attn-vectorize-products": "attnpass.cpu.vectorize_products:VectorizeProducts",
    "attn-vectorize-scans": "attnpass.cpu.vectorize_scans:VectorizeScans",
    "attn-vectorize-windows": "attnpass.cpu.vectorize_windows:VectorizeWindows",
    "attn-whole-sums": "attnpass.repair.whole_sums:WholeSums",
    "attn-wide-arithmetic": "attnpass.repair.wide_arithmetic:WideArithmetic",
    "attn-wide-bytes": "attnpass.repair.wide_bytes:WideBytes",
    "attn-wide-imports": "attnpass.repair.wide_imports:WideImports",
    "attn-widen": "attnpass.gpu.widen:Widen",
    "attn-window-lines": "attnpass.forms.window_lines:WindowLines",
}

# Names that passes had, for one release, and what they are called now.
FORMER_NAMES = {
    "attn-tensor-and": "attn-known-ops",
    "attn-wide-sums": "attn-wide-imports",
}


def now_called(name: str) -> str:
    """The name that a pass has, by that or by one that it had."""
    return FORMER_NAMES.get(name, name)


@dataclass
class PassContext:
    """What a pass may use besides its module: the report it writes to, the target, the passes of
    ours that come after it in the same run, and configurations that the user gave by flags."""

    report: Report
    target: Target | None = None
    later: tuple[Pass, ...] = ()
    specs: UserSpecs | None = None

    def target_for(self, module: ir.Operation) -> Target | None:
        """The target that a pass decides for: the run's, else the module's own."""
        from .machines import resolve_target

        return self.target or resolve_target(module)

    def replace_attention(
        self,
        module: ir.Operation,
        replace: Callable[[AttentionFacts], str | None],
        what: What = "fitted",
    ) -> bool:
        """Replaces attention ops, records `what` was done to each, and erases them; returns
        whether IR changed.

        `replace` gives the users of an attention another one and returns what a reader should
        know of that, or returns None and leaves it.
        """
        from .attention.facts import find
        from .ir import erase_dead

        replaced: list[ir.Operation] = []
        for facts in find(module):
            became = replace(facts)
            if became:
                replaced.append(facts.op)
                self.report.record(facts.op, what, became)
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

    A part of a family says in `why` what it is there for, where `mends` does not.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    phase: ClassVar[str] = "preprocessing"
    mends: ClassVar[str] = ""
    why: ClassVar[str] = ""
    backends: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[str] = ""

    @classmethod
    def concerns(cls, backends: Collection[str]) -> bool:
        """Whether the pass may change a module for one of these backends (or for any, if none
        is named)."""
        return not cls.backends or not backends or bool({*cls.backends} & {*backends})

    def is_for(self, module: ir.Operation) -> bool:
        """Whether a module names one of the pass's backends as its target."""
        from .machines import backends

        return bool({*self.backends} & backends(module))

    def stages(self) -> tuple[Pass, ...]:
        """The passes that a pipeline runs where it names this one: more than itself where an
        option of old stands for another pass."""
        return (self,)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        """Rewrites `module` (a `builtin.module`) in place, its context current; returns whether it
        changed.

        Raises AttnError for input that the pass cannot work on.
        """
        raise NotImplementedError


def option(default: Any, doc: str, choices: tuple[str, ...] = ()) -> Any:
    """A pass option: a dataclass field with a one-line `doc` and, for words, `choices`."""
    return field(default=default, metadata={"doc": doc, "choices": choices})


@dataclass(frozen=True)
class TargetPass(Pass):
    """A pass that decides for a target, which a user may name."""

    target: str = option("", "target to decide for, instead of the module's own")

    def target_for(self, module: ir.Operation, context: PassContext) -> Target | None:
        """The target named, else the run's, else the module's own. Raises AttnError for a name that
        is no target."""
        from .machines import named_target

        return named_target(self.target) if self.target else context.target_for(module)


@dataclass(frozen=True)
class OpPass(Pass):
    """A pass that does one thing to each op of a kind, in modules for its `backends`, and tells a
    reader `what` it was; `kind` is what such an op is called, if not by its name.

    Wanted are the `ops` of these names. They are found before any is changed, the last first with
    `backwards`; `in_bodies` of linalg ops, too, where scalars are wanted. Those of a front end have
    no effect but their results: `erases` says so.
    """

    ops: ClassVar[tuple[str, ...]] = ()
    what: ClassVar[What] = "repaired"
    kind: ClassVar[str] = ""
    backwards: ClassVar[bool] = False
    in_bodies: ClassVar[bool] = False
    erases: ClassVar[bool] = False

    def wanted(self, op: ir.Operation) -> bool:
        """Whether this may be such an op."""
        return op.name in self.ops

    def change(self, op: ir.Operation) -> str:
        """Does it to an op, and says what; '' where the op stays. An op that has no users behind
        it is erased."""
        raise NotImplementedError

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from .ir import collect, erase_dead, erase_unused, is_used
        from .report.ops import Dispatches, op_of

        if self.backends and not self.is_for(module):
            return False
        changed: list[ir.Operation] = []
        found, dispatches = collect(module, self.wanted, bodies=self.in_bodies), Dispatches()
        for op in reversed(found) if self.backwards else found:
            about = op_of(op, self.kind, dispatches)
            if said := self.change(op):
                context.report.record(about, self.what, said)
                changed.append(op)
                dispatches = Dispatches()
        if self.erases:
            # Users first: what only they read is not in use then.
            unused = (op for op in reversed(changed) if not any(map(is_used, op.results)))
            erase_unused(unused)
        else:
            erase_dead(changed)
        return bool(changed)


@dataclass(frozen=True)
class PassFamily(Pass):
    """Passes of one reason, one after the other: a pipeline that names it runs its `parts`, each
    for itself, so that reports, dumps and fallbacks have the names of these. Options that it
    declares go to the parts that have them.

    In the default pipeline it is one step, in which a part runs where the options that it `needs`
    are on.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Needs] = {}

    only: tuple[str, ...] = option((), "the parts to run, without `attn-` (all, if none is named)")

    @classmethod
    def named(cls, only: Collection[str]) -> tuple[str, ...]:
        """The names of these parts, or of all if none is named, in the order in which they run.
        Raises PipelineError for a word that is no part."""
        words = [name.removeprefix(PREFIX) for name in cls.parts]
        only = [now_called(PREFIX + word).removeprefix(PREFIX) for word in only]
        if unknown := [word for word in only if word not in words]:
            raise PipelineError(
                f"pass '{cls.name}': '{unknown[0]}' is not a value of option 'only' "
                f"(use {', '.join(words)})"
            )
        return tuple(PREFIX + word for word in words if not only or word in only)

    def stages(self) -> tuple[Pass, ...]:
        given = {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self)}
        passes = map(load_pass, self.named(self.only))
        return tuple(cls(**{n: v for n, v in given.items() if _has(cls, n)}) for cls in passes)


def _has(cls: type[Pass], option: str) -> bool:
    return option in {spec.name for spec in dataclasses.fields(cls)}


def options_of(cls: type[Pass]) -> list[Field[Any]]:
    """The fields that are a pass's options, its own before those of its bases."""
    return sorted(dataclasses.fields(cls), key=lambda spec: spec.name not in cls.__annotations__)


def plugin_names() -> list[str]:
    """Names of the passes of installed plugins, sorted."""
    return sorted(name for name, entry in _entries().items() if not entry.is_ours)


def pass_names() -> list[str]:
    """Names of all passes, ours and those of installed plugins, sorted."""
    return sorted(_entries())


def load_pass(name: str) -> type[Pass]:
    """The pass class of this name, or that had it; PipelineError if there is none, PluginError
    where that of a plugin is none."""
    name = now_called(name)
    entry = _entries().get(name)
    if entry is None:
        import difflib

        known = {known.removeprefix("attn-"): known for known in pass_names()}
        close = difflib.get_close_matches(name.removeprefix("attn-"), known, n=1)
        hint = f"; did you mean '{known[close[0]]}'?" if close else "; --show-passes lists them"
        raise PipelineError(f"unknown pass '{name}'{hint}")
    cls = entry.load(Pass)
    if cls.name != name:
        raise PluginError(f"{entry}: {entry.path} calls itself '{cls.name}'")
    if not name.startswith(PREFIX):
        raise PluginError(f"{entry}: the name of a pass begins with '{PREFIX}'")
    return cls


def make_pass(name: str, options: dict[str, str]) -> Pass:
    """A pass with its options parsed from text; PipelineError names what is wrong."""
    cls = load_pass(name)
    fields = {f.name: f for f in options_of(cls)}
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


@functools.cache
def _entries() -> Mapping[str, plugins.Plugin]:
    return plugins.entries("attnpass.passes", REGISTRY)
