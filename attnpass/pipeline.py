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
from .families import FAMILIES
from .passes import PREFIX, Pass, load_pass, now_called, plugin_names

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
    ptxas: str = choice(
        "auto", "CUDA: what assembles kernels, where it is installed", form="auto|never|PATH"
    )
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
    """A pass of the default pipeline, or a family of them, and why it stands where it does.

    It runs where each option that `needs` names is on; `options` makes its own of the caller's.
    A family that is several steps runs the parts `only` in each.
    """

    name: str
    why: str
    needs: tuple[str, ...] = ()
    options: Callable[[PipelineOptions], str] = lambda chosen: ""
    only: tuple[str, ...] = ()

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes that it is, in the order in which they run."""
        return FAMILIES[self.name].named(self.only) if self.name in FAMILIES else (self.name,)

    def needed(self, name: str) -> tuple[str, ...]:
        """The options that one of its passes needs."""
        family = FAMILIES.get(self.name)
        return (*self.needs, *(family.needs.get(name, ()) if family else ()))

    def running(self, chosen: PipelineOptions) -> tuple[str, ...]:
        """Those of its passes that run with these options."""
        return tuple(
            name
            for name in self.passes
            if not any(getattr(chosen, option) in _OFF for option in self.needed(name))
        )

    def text(self, chosen: PipelineOptions) -> str:
        """The step as pipeline text, of the passes that run with these options."""
        running, options = self.running(chosen), self.options(chosen)
        if self.name in FAMILIES and running != FAMILIES[self.name].parts:
            only = f"only={','.join(name.removeprefix(PREFIX) for name in running)}"
            options = f"{only} {options}".rstrip()
        return f"{self.name}{{{options}}}" if options else self.name


_CONFIGURE = ("configure",)

# In the order in which they run; passes say themselves at which phase, and for which backends.
STEPS = (
    # start: what IREE imports
    Step("attn-repair-imports", "IREE's importers get ops of front ends wrong, or make them slow"),
    # preprocessing: ops in forms that IREE computes right and fast
    Step("attn-kept-nans", "IREE's import of bounds and maxima loses NaN"),
    Step("attn-fold-views", "IREE fuses nothing across reshapes and repeats that it cannot fold"),
    Step("attn-parallelize", "IREE has a thread or a workgroup for what many can do side by side"),
    Step("attn-plain-products", "IREE's kernels are for plain products"),
    Step("attn-repair-functions", "IREE gets functions of numbers wrong, or has no code for them"),
    # preprocessing: attention in one form
    Step(
        "attn-raise",
        "all that follows works on attention ops; without configurations they are slower than "
        "what they are made of",
        ("configure", "raise_attention"),
    ),
    Step("attn-canonicalize", "one form of attention, before layouts are planned and tiles fitted"),
    # preprocessing: the layout of what attention reads
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
    # preprocessing: kernels of our own
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
    # preprocessing: the rest made fit for IREE's kernels
    Step("attn-gather-weights", "IREE reads weights that are taken by index one by one"),
    Step("attn-widen", "GPUs multiply by 16 bits faster than they cast in a kernel", _CONFIGURE),
    Step(
        "attn-fit-tiles",
        "IREE's kernels want head dims, keys and rows that fill their tiles",
        only=("cut-heads", "pad-heads", "tile-dynamic", "mask-dynamic-keys"),
    ),
    Step("attn-fit-products", "IREE's kernels for products want sizes and orders of their own"),
    Step("attn-fuse-copies", "IREE copies what it could read, or write, where it stands"),
    Step("attn-repair-fusion", "IREE fuses ops into kernels that it then gets wrong"),
    Step("attn-join-dims", "IREE cuts dims where it joins reshapes, and kernels lose them"),
    Step("attn-store-operands", "vector loops read K, V and masks from memory", _CONFIGURE),
    Step(
        "attn-fit-tiles",
        "in front of attn-gather-slices, K and V that are cut out of a projection would be copied "
        "before",
        only=("pad-keys",),
    ),
    Step(
        "attn-split-k",
        "few rows keep few cores busy; behind what changes the number of keys",
        _CONFIGURE,
        lambda _: "configured=true",
    ),
    Step("attn-own-memory", "IREE takes two tensors for one"),
    Step(
        "attn-decompose",
        "what IREE gets wrong in every form is written out; last, when forms are final",
        options=lambda chosen: f"only=wrong configured={str(chosen.configure).lower()}",
    ),
    Step("attn-store-results", "IREE fails on kernels that repeat attention's result"),
    # global-optimization
    Step("attn-keep-tiles", "IREE joins known rows to unknown dims", _CONFIGURE),
    Step("attn-read-codes", "IREE widens weights of many rows in memory in each call", _CONFIGURE),
    # flow: ops are in their kernels
    Step("attn-merge-dispatches", "IREE has a kernel for each step of a sort, and for each copy"),
    Step("attn-restore-dims", "IREE's folding leaves dims of size one, and other orders"),
    Step("attn-split-indices", "IREE reads what lies behind a division one by one", _CONFIGURE),
    Step(
        "attn-configure",
        "the ops are in their kernels, with the dims that these have",
        _CONFIGURE,
        lambda chosen: f"source={{{chosen.table}}}" if chosen.table else "",
    ),
    Step("attn-repair-kernels", "IREE swaps factors of products, and units of scores"),
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
    # executable-configurations: one kernel after the other
    Step("attn-repair-sums", "IREE adds up too few, or too many, in some kernels' sums"),
    Step("attn-fill-workgroups", "IREE has workgroups of few threads, or threads", _CONFIGURE),
    Step("attn-fully-masked-rows", "a division by a sum of 0 is NaN"),
    Step("attn-vector-loops", "IREE's loops on CPUs read and multiply one by one", _CONFIGURE),
    Step("attn-repair-links", "IREE links no library for some functions of 16 bits on CPUs"),
    Step("attn-lower-cuda", "IREE leaves the GPU's own instructions and banks unused"),
    # hal: calls
    Step(
        "attn-repair-calls",
        "IREE's CUDA driver refuses empty grids, compiles PTX as it loads, and wakes threads late",
        options=lambda chosen: f"ptxas={{{chosen.ptxas}}}" if chosen.ptxas != "auto" else "",
    ),
)


def steps(chosen: PipelineOptions) -> list[Step]:
    """The steps that run with these options, with those of plugins that name their place.

    Raises PipelineError where a plugin's pass is to stand behind one that is none of them.
    """
    found = list(STEPS)
    for name in plugin_names():
        after = now_called(load_pass(name).after)
        if after:
            places = [place for place, step in enumerate(found) if _is(step, after)]
            if not places:
                raise PipelineError(
                    f"pass '{name}' of a plugin is to run behind '{after}', "
                    "which is no step of the default pipeline"
                )
            place, ours = places[-1], Step(name, f"a plugin's, behind {after}")
            found[place : place + 1] = _behind(found[place], after, ours)
    return [step for step in found if step.running(chosen)]


def _is(step: Step, name: str) -> bool:
    """Whether a step is meant by the name of its pass, its family, or a part of that."""
    return name == step.name or name in step.passes


def _behind(step: Step, after: str, ours: Step) -> list[Step]:
    """A step with another behind its part `after`, or behind all of it."""
    names = [name.removeprefix(PREFIX) for name in step.passes]
    place = step.passes.index(after) + 1 if after in step.passes else len(names)
    if place == len(names):
        return [step, ours]
    first, rest = (tuple(words) for words in (names[:place], names[place:]))
    return [dataclasses.replace(step, only=first), ours, dataclasses.replace(step, only=rest)]


def default_pipeline(mode: str = "cost", **options: Any) -> str:
    """The default pipeline as text; `options` are those of PipelineOptions."""
    return text_of(PipelineOptions(mode=mode, **options))


def text_of(chosen: PipelineOptions) -> str:
    """The steps that run with these options, as pipeline text."""
    return ",".join(step.text(chosen) for step in steps(chosen))


def left_out_by(**options: Any) -> frozenset[str]:
    """The passes that run with everything on, and not with these options."""
    everything = PipelineOptions(kernels="always", products="always", cache="transposed")
    less = dataclasses.replace(everything, **options)
    with_all, with_less = (
        {name for step in STEPS for name in step.running(one)} for one in (everything, less)
    )
    return frozenset(with_all - with_less)


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

    ours = {} if pipeline else {name: step for step in steps(chosen) for name in step.passes}
    lines: list[str] = []
    for name, stages in by_phase(parse_pipeline(pipeline or text_of(chosen)), phase).items():
        here: list[str] = []
        heading = None
        for stage in stages:
            step = ours.get(stage_name(stage))
            if isinstance(stage, Foreign):
                here.append(f"  {stage_name(stage)}")
            elif step is None:
                here += [f"  {stage.name}", f"      {stage.summary}"]
            elif stage.concerns(backends):
                if step.name in FAMILIES and step is not heading:
                    here += [f"  {step.text(chosen)}", *_about(FAMILIES[step.name], step.why, ())]
                heading = step
                here += _shown_pass(stage, step, chosen)
        lines += [name, *here] if here else []
    return "\n".join(lines) + "\n"


def _shown_pass(stage: Pass, step: Step, chosen: PipelineOptions) -> list[str]:
    """A pass of a step; below the family's lines, if it is part of one."""
    needs = step.needed(stage.name)
    if step.name not in FAMILIES:
        return [f"  {step.text(chosen)}", *_about(type(stage), step.why, needs)]
    lines = [stage.name, *_about(type(stage), reason_of(type(stage)), needs)]
    return [f"    {line}" for line in lines]


def reason_of(part: type[Pass]) -> str:
    """Why a part of a family is there."""
    return part.why or part.mends


def _about(cls: type[Pass], why: str, needs: tuple[str, ...]) -> list[str]:
    off = [f"      off by {_switches(needs)}"] if needs else []
    return [f"      {cls.summary}", f"      because {why}", *off]


def _switches(needs: tuple[str, ...]) -> str:
    by_name = {field.name: field for field in choices()}
    flags = []
    for name in needs:
        field = by_name[name].metadata
        words = (*field["words"], *field["form"].split("|"), "false")
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
