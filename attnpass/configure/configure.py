"""attn-configure: kernel configurations for attention, attached where ranks are final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe, find_ops
from ..errors import AttnError
from ..ir import descendants, remove_attributes, set_attribute, symbol_name
from ..kernels import kernels_in
from ..machines import GPUS, Target
from ..machines.cpu import loops as cpu_loops
from ..machines.cpu.machine import Cpu
from ..machines.cpu.results import write_transposed
from ..machines.gpu import copies as gpu_copies
from ..machines.known_faults import own_is_wrong
from ..machines.nvidia import contractions as nvidia_contraction
from ..machines.nvidia.machine import Nvidia
from ..machines.nvidia.ptxas import find_ptxas, spill_refusal
from ..machines.table import Table, load_table
from ..machines.user_specs import UserSpecs
from ..passes import Pass, PassContext, option
from ..report.ops import Op, op_of
from ..report.records import Report
from .block_divisor_inference import block_divisor_inference
from .layout_at_flow import report_folds

# Why an attention must not keep the configuration that it has got for a target, or ''.
Check = Callable[["ir.Operation", Target], str]


@dataclass(frozen=True)
class Configure(Pass):
    """Attaches a kernel configuration to each attention op that a table has one for.

    IREE's defaults tile V's head dim (by 16 columns on CPUs, 32 on NVIDIA GPUs) and compute Q K^T
    once for every tile; the tables take the head dim whole. On NVIDIA GPUs the f16 and bf16
    projections of a module with attention get tiles by their size too. The entries for AMD GPUs
    were compiled and run in an interpreter, not timed. An op that has a configuration keeps it,
    and one that no entry is known to be right for is left, with the reason in the report.
    `check=ptxas` compiles each attention for CUDA alone first and refuses kernels that spill
    registers: some seconds an op.
    """

    name: ClassVar[str] = "attn-configure"
    summary: ClassVar[str] = "attach kernel configurations to attention and projections"
    phase: ClassVar[str] = "flow"

    source: str = option("table", "where configurations come from: table, none or a file")
    contractions: bool = option(True, "configure projections too, on NVIDIA GPUs")
    check: str = option(
        "none", "what to ask of attention kernels for CUDA first", ("none", "ptxas")
    )
    target: str = option("", "target to configure for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if self.source == "none":
            return False
        target = context.target_for(module, self.target)
        file = self.source.strip("{}")
        table = None if file == "table" else load_table(file, module.context)
        if table and target and (others := table.without(target.name)):
            context.report.ignored(f"{file} has no entry for {target.name}, but for {others}")
        check, specs = self._check(), context.specs
        return configure_all(module, target, context.report, self.contractions, table, check, specs)

    def _check(self) -> Check | None:
        if self.check == "none":
            return None
        find_ptxas()
        return spill_refusal


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
    if isinstance(target, Cpu):
        changed = write_transposed(module, target.vector_bytes)
    ops = find_ops(module)
    for op in ops:
        try:
            facts = describe(op)
        except AttnError as error:
            # IREE folds unit dims before this phase: a single key leaves no k2 dim.
            if not report.is_left(op):
                report.record(op, "not-configured", error.message)
            continue
        report_folds(facts, report)
        if flag := theirs.get(facts.function):
            report.record(op, "configured-by-user", flag=flag)
            continue
        found, source = _configuration(facts, target, table)
        if _attach(op_of(op), op, found, target, report, source, check):
            changed = True
            if isinstance(target, Cpu) and "decomposition_config" not in found:
                loops = cpu_loops.tiles(facts, target.vector_bytes)
                why = loops if isinstance(loops, str) else "the table has none for it"
                report.record(op, "no-loops", why)
        elif not facts.own_configuration and (why := own_is_wrong(facts, target)):
            report.known_wrong(why, op)
    on_cuda = target is not None and target.backend == "cuda"
    attends = bool(ops or kernels_in(module))
    if target and target.backend in GPUS and (changed or (on_cuda and attends)):
        _configure_copies(module, target, theirs)
    if changed and target and target.backend in GPUS:
        block_divisor_inference(module)
    if isinstance(target, Nvidia) and contractions and attends:
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
    if target.subgroup is None:
        return
    for function in _functions(module, without=theirs):
        # On AMD's GPUs nothing was timed.
        gpu_copies.configure(function, target.subgroup, all_copies=target.backend == "cuda")


def _configure_contractions(
    module: ir.Operation, target: Target, report: Report, theirs: dict[str, str]
) -> bool:
    changed = False
    for function in _functions(module, without=theirs):
        facts = nvidia_contraction.find(function)
        if facts is not None:
            found = nvidia_contraction.configuration(facts, target)
            about = op_of(facts.op, "contraction")
            changed |= _attach(about, facts.op, found, target, report)
    return changed


def _attach(
    about: Op,
    op: ir.Operation,
    found: dict[str, str] | str,
    target: Target | None,
    report: Report,
    source: str = "",
    check: Check | None = None,
) -> bool:
    """Gives an op the attributes found, or says of it why there are none; `source` says where
    they come from, if not from the built-in tables."""
    if not isinstance(found, str):
        for name, text in found.items():
            set_attribute(op, name, text)
        why = check(op, target) if check and target and target.backend == "cuda" else ""
        if why:
            remove_attributes(op, *found)
            found = why
    if isinstance(found, str):
        report.record(about, "not-configured", found)
        return False
    report.record(
        about,
        "configured",
        target=target.name if target else "",
        source=source,
        configuration=found["compilation_info"],
    )
    return True


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
        return target.configuration(facts), ""
    return entry.configuration or f"{table.source} says so", f" from {table.source}"
