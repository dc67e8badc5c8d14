"""Kernel configurations: one file a target family, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..attention.facts import AttentionFacts, describe, find_ops
from ..errors import AttnError
from ..ir import descendants, remove_attributes, set_attribute, symbol_name
from ..kernels.extern import kernels_in
from . import Target
from .amd import configurations as amd
from .cpu import configurations as cpu
from .cpu import loops as cpu_loops
from .cpu.results import write_transposed
from .gpu import copies as gpu_copies
from .gpu.block_divisor_inference import hide_divisors
from .known_faults import no_code, own_is_wrong, settled
from .layout_at_flow import report_folds
from .nvidia import configurations as nvidia
from .nvidia import contractions as nvidia_contraction
from .table import Table
from .user_specs import UserSpecs

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..report.records import Report


_GPUS = {"cuda": nvidia, "rocm": amd}

# Why an attention must not keep the configuration that it has got for a target, or ''.
Check = Callable[["ir.Operation", Target], str]


def slower_than_written_out(facts: AttentionFacts, target: Target | None) -> str:
    """Why an attention op would be slower than the products and the softmax that say the same,
    or ''. On CPUs IREE's own code for the op is, 1.2 to 12 times: attention needs loops of ours.
    """
    if target is None or target.backend != "llvm-cpu":
        return ""
    loops = cpu_loops.tiles(facts, cpu.register_bytes(target))
    if isinstance(loops, str):
        return f"an attention op has no vector loops on this CPU, and is slower then: {loops}"
    partial = facts.kind == "online_attention"
    if partial and not any(cpu_loops.fits_beside_result(facts, one) for one in loops.from_best()):
        # What a sink adds to stands behind the sums, which cannot lie where the result goes.
        width = facts.sizes[facts.n[0]]
        return f"a head dim of {width} leaves vector loops no room on the stack for a sink's sums"
    return ""


def configure_all(
    module: ir.Operation,
    target: Target | None,
    report: Report,
    contractions: bool = True,
    table: Table | None = None,
    check: Check | None = None,
    specs: UserSpecs | None = None,
) -> bool:
    """Configures every attention under `module` and, on NVIDIA GPUs and with `contractions`, the
    projections beside it (and beside precompiled kernels that took its place), with a note each;
    returns whether IR changed.

    What stands in `table` goes before the built-in configurations. `check` says of an
    attention that has got its configuration why it must not keep it, or ''. What `specs` of the
    user's configure is theirs.
    """
    changed = False
    theirs = _configured_by_user(module, target, specs, report)
    if target and target.backend == "llvm-cpu":
        changed = write_transposed(module, cpu.register_bytes(target))
    ops = find_ops(module)
    for op in ops:
        try:
            facts = describe(op)
        except AttnError as error:
            # IREE folds unit dims before this phase: a single key leaves no k2 dim.
            place = f"attention at {error.location}"
            if f"{place} is left as it is: {error.message}" not in report.notes:
                report.note(f"{place} keeps IREE's own configuration: {error.message}")
            continue
        place = f"{facts.kind} at {facts.place}"
        report_folds(facts, report)
        if flag := theirs.get(facts.function):
            report.note(f"{place} has the configuration that {flag} gives it")
            continue
        found, source = _configuration(facts, target, table)
        if _attach(facts.op, place, found, target, report, source, check):
            changed = True
            if target and target.backend == "llvm-cpu" and "decomposition_config" not in found:
                loops = cpu_loops.tiles(facts, cpu.register_bytes(target))
                why = loops if isinstance(loops, str) else "the table has none for it"
                report.note(f"{place} gets no loops of ours: {why}")
        elif not facts.own_configuration and (why := own_is_wrong(facts, target)):
            report.known_wrong(f"{place}: {why}", facts.location)
    on_cuda = target is not None and target.backend == "cuda"
    attends = bool(ops or kernels_in(module))
    if target and target.backend in _GPUS and (changed or (on_cuda and attends)):
        _configure_copies(module, target, theirs)
    if changed and target and target.backend in _GPUS:
        hide_divisors(module)
    if target and on_cuda and contractions and attends:
        changed |= _configure_contractions(module, target, report, theirs)
    return changed


def _configured_by_user(
    module: ir.Operation, target: Target | None, specs: UserSpecs | None, report: Report
) -> dict[str, str]:
    """The flag of the user's that configures a dispatch, by the name of its function."""
    if specs is None or target is None:
        return {}
    if why := specs.unread(target.backend):
        report.ignored(why)
    return specs.configured(module, target.backend)


def _functions(module: ir.Operation, without: dict[str, str]) -> list[ir.Operation]:
    """The functions of dispatches, but those named in `without`."""
    functions = descendants(module, "flow.executable", "builtin.module", "func.func")
    return [one for one in functions if symbol_name(one) not in without]


def _configure_copies(module: ir.Operation, target: Target, theirs: dict[str, str]) -> None:
    subgroup = _GPUS[target.backend].subgroup(target)
    if subgroup is None:
        return
    for function in _functions(module, without=theirs):
        # On AMD's GPUs nothing was timed.
        gpu_copies.configure(function, subgroup, all_copies=target.backend == "cuda")


def _configure_contractions(
    module: ir.Operation, target: Target, report: Report, theirs: dict[str, str]
) -> bool:
    changed = False
    for function in _functions(module, without=theirs):
        facts = nvidia_contraction.find(function)
        if facts is not None:
            found = nvidia_contraction.configuration(facts, target)
            place = f"contraction at {facts.location}"
            changed |= _attach(facts.op, place, found, target, report)
    return changed


def _attach(
    op: ir.Operation,
    place: str,
    found: dict[str, str] | str,
    target: Target | None,
    report: Report,
    source: str = "",
    check: Check | None = None,
) -> bool:
    """Gives an op the attributes found, or notes why there are none; `source` says where they
    come from, if not from the built-in tables."""
    if not isinstance(found, str):
        for name, text in found.items():
            set_attribute(op, name, text)
        why = check(op, target) if check and target and target.backend == "cuda" else ""
        if why:
            remove_attributes(op, *found)
            found = why
    if isinstance(found, str):
        report.note(f"{place} keeps IREE's own configuration: {found}")
        return False
    words = found["compilation_info"]
    report.note(f"{place} is configured for {target.name if target else ''}{source}: {words}")
    return True


def nothing_is_right(facts: AttentionFacts, target: Target | None, configured: bool) -> str:
    """What is wrong with the code that an attention in the open will get, or ''; whether or not
    it will be `configured`, and whatever `describe` makes of it."""
    if facts.own_configuration:
        return ""
    if why := no_code(facts):
        return why
    why = own_is_wrong(settled(facts), target)
    if not why or target is None:
        return ""
    return "" if configured and _will_be_configured(facts.op, target) else why


def _will_be_configured(op: ir.Operation, target: Target) -> bool:
    try:
        facts = settled(describe(op))
    except AttnError:
        return False
    kinds = (facts.k1, facts.k2, facts.n)
    return all(kinds) and not isinstance(built_in(facts, target), str)


def padded_keys(facts: AttentionFacts, target: Target) -> int | None:
    """The number of keys, above that of this attention, that has a configuration where its
    own has none; None where there is no such number, or none is needed."""
    if facts.own_configuration or target.backend not in _GPUS:
        return None
    return _GPUS[target.backend].padded_keys(facts, target)


def padded_heads(facts: AttentionFacts, target: Target) -> tuple[int, int] | None:
    """Head dims of Q and V, above those of this attention, that have a configuration where its
    own have none; None where there are none such, or none are needed."""
    if facts.own_configuration or target.backend not in _GPUS:
        return None
    return _GPUS[target.backend].padded_heads(facts, target)


def cut_head(facts: AttentionFacts, target: Target) -> int | None:
    """The part of the head dim of Q and K that a configuration is to take where it takes not all,
    the other part being few scores that are added; None where nothing is to be cut."""
    if facts.own_configuration or target.backend != "cuda":
        return None
    return nvidia.cut_head(facts, target)


def dynamic_tiles(facts: AttentionFacts, target: Target) -> dict[int, int]:
    """Sizes, by iteration dim, of the tiles that an attention over an unknown number of keys,
    or of grouped rows, needs for a configuration; empty where tiles would not help."""
    if target.backend not in _GPUS or facts.own_configuration:
        return {}
    found = _GPUS[target.backend].dynamic_tiles(facts, target)
    return {} if isinstance(found, str) else found


def split_refusal(facts: AttentionFacts, target: Target) -> str:
    """Why chunks of this attention's keys would get no decode configuration, or ''."""
    if target.backend == "cuda":
        return nvidia.decodes(facts, target)
    if target.backend == "llvm-cpu":
        return cpu.decodes(facts, target)
    return f"no decode kernel was measured for {target.name}"


def _configuration(
    facts: AttentionFacts, target: Target | None, table: Table | None
) -> tuple[dict[str, str] | str, str]:
    """The attributes to attach, as text by name, or why there are none; words for the table
    that they come from."""
    if facts.own_configuration:
        return f"it has a {facts.own_configuration}", ""
    if target is None:
        return "the module names no single target", ""
    entry = table.find(facts, target.name) if table else None
    if table is None or entry is None:
        return built_in(facts, target), ""
    return entry.configuration or f"{table.source} says so", f" from {table.source}"


def built_in(facts: AttentionFacts, target: Target) -> dict[str, str] | str:
    """The attributes that the built-in tables have, as text by name, or why there are none."""
    if target.backend == "llvm-cpu":
        return cpu.configuration(facts, target)
    if target.backend in _GPUS:
        return _GPUS[target.backend].configuration(facts, target)
    return f"there is no table for {target.name}"
