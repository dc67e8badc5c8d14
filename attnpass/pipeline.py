"""What a compile runs: the table of steps, and what a caller may choose of it.

The default pipeline, the options of commands and functions, the list of fallbacks and
`attn-compile --attn-show-pipeline` are made from this page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import PipelineError
from .passes import ALIASES, load_pass, plugin_names

Options = TypeVar("Options")
MODES = ("cost", "always", "never")
# `auto` is `cost` where the target has kernels, `never` elsewhere.
KERNEL_MODES = ("auto", *MODES)
CACHES = ("kept", "transposed")
# What leaves out the steps that need an option.
_OFF = (False, "never", "kept")


def choice(
    default: Any, doc: str, words: tuple[str, ...] = (), flag: str = "", form: str = ""
) -> Any:
    """A field that attn-compile has a flag for: what it says, the words that it takes, its flag
    where that is not called as the field, and what is shown for a value that is no such word."""
    metadata = {"doc": doc, "words": words, "flag": flag, "form": form}
    return dataclasses.field(default=default, metadata=metadata)


def flagged(options: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass that attn-compile has flags for, in their order."""
    return [field for field in dataclasses.fields(options) if "doc" in field.metadata]


def listed(options: type[Options]) -> type[Options]:
    """A dataclass whose docstring lists its fields that have flags."""
    docs = ((field.name, field.metadata["doc"].replace("\n", " ")) for field in flagged(options))
    lines = "\n".join(f"    {name:<16} {doc}" for name, doc in docs)
    options.__doc__ = f"{options.__doc__}\n\n{lines}"
    return options


@listed
@dataclass
class PipelineOptions:
    """What every door (attn-compile, `compile_file`, `compile_str`, `pipeline_hook`) lets a caller
    choose of the default pipeline; TypeError for another name, PipelineError for a bad word
    once it is run."""

    mode: str = choice("cost", "what the layout pass commits", MODES)
    cache: str = choice("kept", "whether V caches become V^T for the caller, too", CACHES)
    kernels: str = choice("auto", "where precompiled Hopper kernels are taken", KERNEL_MODES)
    products: str = choice("auto", "where precompiled Hopper kernels take products", KERNEL_MODES)
    configure: bool = choice(True, "kernel configurations, and decode in chunks of the keys")
    hardware_exp2: bool = choice(True, "the GPU's exp2 and fp8 casts in CUDA kernels")
    shared_memory: bool = choice(True, "CUDA tiles in shared memory as tensor cores read them")
    workspace: bool = choice(True, "CUDA: memory that the module holds between calls")
    spin: bool = choice(True, "CUDA: looking for the end of a call before a thread sleeps")
    raise_attention: bool = choice(
        True, "attention made of products and a softmax between them", flag="raise"
    )
    table: str = choice(
        "", "a file of configurations that attn-tune wrote, before the built-in", form="FILE"
    )


def choices() -> list[dataclasses.Field[Any]]:
    """The fields of PipelineOptions, in their order."""
    return flagged(PipelineOptions)


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The flag of attn-compile that sets a field, without its dashes."""
    return "attn-" + (field.metadata["flag"] or field.name.replace("_", "-"))


@dataclass(frozen=True)
class Step:
    """A pass of the default pipeline, and why it stands where it does.

    It runs where each option that `needs` names is on; `options` makes its own of the caller's.
    A pass that is several steps runs the parts `only` in each.
    """

    name: str
    why: str
    needs: tuple[str, ...] = ()
    options: Callable[[PipelineOptions], str] = lambda chosen: ""
    only: str = ""

    @property
    def label(self) -> str:
        """The step's name, as the pass's own label is."""
        return f"{self.name}{{only={self.only}}}" if self.only else self.name

    def runs(self, chosen: PipelineOptions) -> bool:
        return not any(getattr(chosen, name) in _OFF for name in self.needs)

    def text(self, chosen: PipelineOptions) -> str:
        """The step as pipeline text."""
        options = self.options(chosen)
        return f"{self.name}{{{options}}}" if options else self.label


_CONFIGURE = ("configure",)

# In the order in which they run; passes say themselves at which phase, and for which backends.
STEPS = (
    # start
    Step("attn-flex-masks", "the import of FlexAttention calls hidden keys a score of -inf"),
    Step("attn-tensor-and", "the import fails on `a & b` of two tensors"),
    Step("attn-floor-divisions", "the import divides integers as floats of 24 bits"),
    Step("attn-compared-numbers", "the import reads constants as what they are compared with"),
    Step("attn-plain-pads", "the import moves nothing for pads below 0, or has no program"),
    Step("attn-bounded-grids", "the import reads outside images, and pads them with zeros alone"),
    Step("attn-instance-norms", "the import of ONNX divides by another count than unknown sizes'"),
    Step("attn-plain-einsums", "the import of ONNX joins dims of einsums to one of them"),
    Step(
        "attn-wide-sums", "norms, means and softmaxes of 16 bits are imported to be summed in them"
    ),
    Step(
        "attn-plain-indices",
        "the import takes negative positions as they are, and has no program for some indices",
    ),
    Step("attn-select-writes", "IREE writes by index in one thread, one element after the other"),
    Step("attn-join-reshapes", "the import of ONNX joins dims of unknown sizes to one of them"),
    Step("attn-bounded-scatters", "the import of StableHLO writes outside of tensors"),
    # preprocessing
    Step("attn-kept-nans", "IREE's import of bounds and maxima loses NaN"),
    Step("attn-match-reshapes", "IREE fuses nothing across reshapes to computed sizes"),
    Step("attn-join-repeats", "IREE copies weights that are repeated along dims it joins"),
    Step("attn-arg-maxima", "IREE comes to no end with an argmax over a vocabulary"),
    Step("attn-rank-sorts", "IREE sorts a row in one thread"),
    Step("attn-sum-scans", "IREE adds up a running sum in one thread"),
    Step("attn-split-sums", "IREE has a workgroup for a sum, however long", _CONFIGURE),
    Step("attn-signed-bounds", "IREE's least of positive integers is -1 on GPUs"),
    Step("attn-find-writes", "IREE writes by index in one thread, whatever is written"),
    Step("attn-conv-products", "IREE's convolutions are a tenth as fast as products"),
    Step("attn-degenerate-loops", "IREE has no program for loops of one place or of none"),
    Step("attn-split-products", "IREE transposes the weights of experts at each call"),
    Step("attn-signed-powers", "IREE's power of a negative number is NaN on CPUs"),
    Step("attn-safe-divisions", "CPUs end the process where IREE divides integers by 0"),
    Step("attn-gelu-tanh", "GELU by tanh is imported with a factor of three digits"),
    Step("attn-exact-angles", "IREE's sines of large angles are wrong from the 5th digit on"),
    Step("attn-linked-functions", "IREE links no library for some functions on CPUs"),
    Step(
        "attn-raise",
        "all that follows works on attention ops; without configurations they are slower than "
        "what they are made of",
        ("configure", "raise_attention"),
    ),
    Step("attn-same-types", "no kernel for GPUs multiplies two narrow types"),
    Step("attn-normal-form", "one order of dims and one type of masks, before anything is fitted"),
    Step("attn-fuse-normalization", "attention that divides by its sum itself has more kernels"),
    Step("attn-mask-positions", "IREE numbers positions wrong where it joins or cuts dims"),
    Step("attn-share-masks", "a mask is read once, not once a head"),
    Step("attn-order-concats", "IREE joins heads behind their transposes in many runs", _CONFIGURE),
    Step(
        "attn-explicit-repeats",
        "rules hand layouts through broadcasts, not through reads by index",
        ("mode",),
    ),
    Step(
        "attn-transpose-caches",
        "what no producer can deliver as V^T a caller can hold so",
        ("cache", "mode"),
    ),
    Step(
        "attn-propagate-layout",
        "what makes V, K and Q can often deliver another order for nothing",
        options=lambda chosen: f"mode={chosen.mode} operands=v,k,q",
    ),
    Step("attn-lowest-masks", "the kernels that come next hide keys by -inf"),
    Step(
        "attn-use-kernels",
        "kernels take what stands as the layout pass has left it",
        ("kernels",),
        lambda chosen: f"mode={chosen.kernels}",
    ),
    Step(
        "attn-use-products",
        "kernels take products with what stands behind them, before tiles are fitted",
        ("products",),
        lambda chosen: f"mode={chosen.products}",
    ),
    Step("attn-gather-weights", "IREE reads weights that are taken by index one by one"),
    Step("attn-widen", "GPUs multiply by 16 bits faster than they cast in a kernel", _CONFIGURE),
    Step(
        "attn-fit-tiles",
        "head dims, and keys known only at run time, fit a kernel's tiles",
        _CONFIGURE,
        only="cut,heads,tiles",
    ),
    Step("attn-fit-tiles", "IREE's kernels for GPUs count keys that are not there", only="mask"),
    Step("attn-tile-products", "rows of products fit a kernel's tiles", _CONFIGURE),
    Step("attn-pack-products", "constant weights are packed once", _CONFIGURE),
    Step("attn-generic-products", "IREE lowers named products wrong below O2"),
    Step(
        "attn-scatter-rows",
        "IREE imports a write of rows of a cache as one of elements; before attn-fuse-pieces, "
        "behind which nobody sees how the table of indices is made",
    ),
    Step("attn-slice-heads", "IREE copies slices that are reshaped"),
    Step("attn-fuse-pieces", "IREE copies parts of heads out and back in", _CONFIGURE),
    Step("attn-place-pieces", "IREE transposes what it joins along inner dims, and turns it back"),
    Step("attn-scatter-indices", "IREE fuses what makes a scatter's indices into its kernel"),
    Step("attn-gather-indices", "IREE takes wrong rows in gathers, or has no program for them"),
    Step("attn-store-crossed", "IREE fuses an op into a sum's kernel that reads it in two orders"),
    Step("attn-store-gathers", "IREE fuses rows that several ops read into one op's kernel"),
    Step("attn-store-sums", "IREE fuses a sum into its norm's kernel, and copies its rows there"),
    Step(
        "attn-gather-slices",
        "IREE numbers a slice's elements without its gaps, or has no program for it",
    ),
    Step("attn-join-dims", "IREE cuts dims where it joins reshapes, and kernels lose them"),
    Step("attn-store-operands", "vector loops read K, V and masks from memory", _CONFIGURE),
    Step(
        "attn-fit-tiles",
        "keys fit a kernel's tiles; in front of attn-gather-slices, K and V that are cut out of "
        "a projection would be copied before",
        _CONFIGURE,
        only="keys",
    ),
    Step(
        "attn-split-k",
        "few rows keep few cores busy; behind what changes the number of keys",
        _CONFIGURE,
        lambda _: "configured=true",
    ),
    Step("attn-own-buffers", "IREE takes globals with equal initial values for one"),
    Step(
        "attn-decompose",
        "what IREE gets wrong in every form is written out; last, when forms are final",
        options=lambda chosen: f"only=wrong configured={str(chosen.configure).lower()}",
    ),
    Step("attn-store-results", "IREE fails on kernels that repeat attention's result"),
    # global-optimization
    Step("attn-keep-tiles", "IREE joins known rows to unknown dims", _CONFIGURE),
    # flow
    Step("attn-launch-constants", "IREE has a kernel for each step of a sort"),
    Step("attn-merge-copies", "IREE writes pieces before it copies them to where they stand"),
    Step("attn-drop-unit-dims", "IREE's folding leaves dims of size one beside others"),
    Step("attn-order-dims", "IREE's folding leaves dims in other orders"),
    Step("attn-split-indices", "IREE reads what lies behind a division one by one", _CONFIGURE),
    Step(
        "attn-configure",
        "the ops are in their kernels, with the dims that these have",
        _CONFIGURE,
        lambda chosen: f"source={{{chosen.table}}}" if chosen.table else "",
    ),
    Step("attn-order-factors", "IREE swaps rows and columns where the second factor comes first"),
    Step("attn-natural-scores", "IREE scales scores by log2(e) before a score function runs"),
    Step(
        "attn-own-results",
        "IREE puts all results into one allocation, larger than what stays mapped",
        ("workspace",),
    ),
    # stream
    Step(
        "attn-hold-workspace",
        "IREE's CUDA driver maps what is allocated anew at each call",
        ("workspace",),
    ),
    # executable-configurations
    Step("attn-lone-lanes", "IREE adds up the first subgroup alone, or too few of them"),
    Step("attn-whole-sums", "IREE loses parts of some sums, and sums beyond others"),
    Step("attn-moves", "IREE copies lines of no whole vectors one element a thread", _CONFIGURE),
    Step("attn-short-rows", "IREE has a workgroup for each row of a head's norm", _CONFIGURE),
    Step(
        "attn-full-workgroups",
        "IREE has a workgroup of 32 threads for 256 numbers, and few of these run at once",
        _CONFIGURE,
    ),
    Step("attn-hidden-rows", "a division by a sum of 0 is NaN"),
    Step(
        "attn-vectorize-products",
        "IREE reads weights at a fraction of the memory's speed, and masks rows that its tiles do "
        "not divide; before attention, beside which they stand, is loops itself",
        _CONFIGURE,
    ),
    Step("attn-vectorize", "IREE multiplies scores one by one on CPUs", _CONFIGURE),
    Step(
        "attn-integers-to-bf16",
        "IREE links no program that makes bf16 of integers on CPUs; behind loops that read codes",
    ),
    Step("attn-half-maxima", "IREE links no program of softmaxes of f16 on CPUs"),
    Step(
        "attn-lower-cuda",
        "IREE makes polynomials of exp2 and tanh",
        ("hardware_exp2",),
        only="exp2",
    ),
    Step(
        "attn-lower-cuda", "IREE cannot translate fp8 casts; in kernels left so far", only="casts"
    ),
    Step("attn-order-products", "IREE pairs summed dims by their places; in kernels left so far"),
    Step(
        "attn-lower-cuda",
        "IREE's tiles meet in one bank of memory; behind what orders products of kernels so far",
        ("shared_memory",),
        only="shared-memory",
    ),
    # hal
    Step("attn-empty-dispatches", "a GPU refuses a grid of no workgroup"),
    Step(
        "attn-spin-waits",
        "a thread that IREE's CUDA driver wakes runs again long after the GPU's last kernel",
        ("spin",),
    ),
)


def steps(chosen: PipelineOptions) -> list[Step]:
    """The steps that run with these options, with those of plugins that name their place.

    Raises PipelineError where a plugin's pass is to stand behind one that is none of them.
    """
    found = list(STEPS)
    for name in plugin_names():
        cls = load_pass(name)
        if cls.after:
            places = [place for place, step in enumerate(found) if _is(step, cls.after)]
            if not places:
                raise PipelineError(
                    f"pass '{name}' of a plugin is to run behind '{cls.after}', "
                    "which is no step of the default pipeline"
                )
            found.insert(places[-1] + 1, Step(name, f"a plugin's, behind {cls.after}"))
    return [step for step in found if step.runs(chosen)]


def _is(step: Step, name: str) -> bool:
    """Whether a step is meant by the name of its pass, its label, or a name that it had."""
    now, only = ALIASES.get(name, (name, ""))
    return name == step.label or (now == step.name and only in ("", *step.only.split(",")))


def default_pipeline(mode: str = "cost", **options: Any) -> str:
    """The default pipeline as text; `options` are those of PipelineOptions."""
    return text_of(PipelineOptions(mode=mode, **options))


def text_of(chosen: PipelineOptions) -> str:
    """The steps that run with these options, as pipeline text."""
    return ",".join(step.text(chosen) for step in steps(chosen))


def left_out_by(**options: Any) -> frozenset[str]:
    """The steps that run with everything on, and not with these options, by their labels."""
    everything = PipelineOptions(kernels="always", products="always", cache="transposed")
    less = dataclasses.replace(everything, **options)
    return frozenset(step.label for step in STEPS if step.runs(everything) and not step.runs(less))


def shown(
    chosen: PipelineOptions,
    backends: Collection[str] = (),
    pipeline: str = "",
    phase: str | None = None,
) -> str:
    """What runs with these options, by phase, with why; of the default pipeline what concerns
    `backends`, if any are given. `pipeline` stands in for it, and `phase` for the phases of the
    passes on tensors, as in `pipeline_hook`; PipelineError for a bad one."""
    from .phases import by_phase
    from .runner import Foreign, parse_pipeline, stage_name

    ours = {} if pipeline else {step.label: step for step in steps(chosen)}
    lines: list[str] = []
    for name, stages in by_phase(parse_pipeline(pipeline or text_of(chosen)), phase).items():
        here: list[str] = []
        for stage in stages:
            step = ours.get(stage_name(stage))
            if step is None:
                here.append(f"  {stage_name(stage)}")
            if not isinstance(stage, Foreign) and (step is None or stage.concerns(backends)):
                here += [f"  {step.text(chosen)}"] if step else []
                here.append(f"      {stage.summary}")
                here += _reasons(step) if step else []
        lines += [name, *here] if here else []
    return "\n".join(lines) + "\n"


def _reasons(step: Step) -> list[str]:
    off = [f"      off by {_switches(step)}"] if step.needs else []
    return [f"      because {step.why}", *off]


def _switches(step: Step) -> str:
    by_name = {field.name: field for field in choices()}
    flags = []
    for name in step.needs:
        words = by_name[name].metadata["words"] or ("false",)
        word = next(word for word in words if word in (*_OFF, "false"))
        flags.append(f"--{flag_of(by_name[name])}={word}")
    return " or ".join(flags)


def usage(options: type[Any] = PipelineOptions, width: int = 33) -> str:
    """The lines of attn-compile's help for the fields of `options`."""
    lines: list[str] = []
    for field in flagged(options):
        flag, doc = f"--{flag_of(field)}", field.metadata["doc"]
        if field.metadata["form"]:
            flag = f"{flag}={field.metadata['form']}"
        elif field.metadata["words"]:
            flag, doc = f"{flag}={'|'.join(field.metadata['words'])}", f"{doc} ({field.default})"
        elif field.default is True:
            flag, doc = f"{flag}=false", f"without {doc}"
        lines += _line(flag, doc.replace("\n", "\n" + " " * width), width)
    return "\n".join(lines)


def _line(flag: str, doc: str, width: int) -> Sequence[str]:
    if len(flag) + 2 < width - 1:
        return [f"  {flag}".ljust(width) + doc]
    return [f"  {flag}", " " * width + doc]
