"""attn-configure: kernel configurations for attention, attached where ranks are final."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe, find_ops
from ..errors import AttnError
from ..ir import Refusal, descendants, set_attribute, symbol_name
from ..kernels import kernels_in
from ..machines import Configured, Target
from ..machines.gpu import copies as gpu_copies
from ..machines.table import Table, load_table
from ..machines.user_specs import UserSpecs
from ..passes import PassContext, TargetPass, option
from ..report.ops import Op, op_of
from ..report.records import Report
from .block_divisor_inference import block_divisor_inference
from .layout_at_flow import report_folds


@dataclass(frozen=True)
class Configure(TargetPass):
    """Attaches a kernel configuration to each attention op that a table has one for.

    IREE's defaults tile V's head dim (by 16 columns on CPUs, 32 on NVIDIA GPUs) and compute Q K^T
    once for every tile; the tables take the head dim whole. On NVIDIA GPUs the f16 and bf16
    projections of a module with attention get tiles by their size too. The entries for AMD GPUs
    were compiled and run in an interpreter, not timed. An op that has a configuration keeps it,
    and one that no entry is known to be right for is left, with the reason in the report.
    """

    name = "attn-configure"
    summary = "attach kernel configurations to attention and projections"
    phase = "flow"

    source: str = option("table", "where configurations come from: table, none or a file")
    contractions: bool = option(True, "configure projections too, on NVIDIA GPUs")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if self.source == "none":
            return False
        target, report = self.target_for(module, context), context.report
        file = self.source.strip("{}")
        table = None if file == "table" else load_table(file, module.context)
        if table and target and (others := table.without(target.name)):
            report.ignored(f"{file} has no entry for {target.name}, but for {others}")
        theirs = _configured_by_user(module, target, context.specs, report)
        changed = target is not None and target.prepare(module)
        ops = find_ops(module)
        for op in ops:
            changed |= _configure_attention(op, target, table, theirs, report)
        attends = bool(ops or kernels_in(module))
        if target and (changed or (target.copies_were_timed and attends)):
            _configure_copies(module, target, theirs)
        elif target and target.copies_were_timed and descendants(module, "hal.executable"):
            # Images that are padded between kernels of products, and the like.
            _configure_copies(module, target, theirs, only_moves=True)
        if changed and target and target.is_gpu:
            block_divisor_inference(module)
        if target and self.contractions and attends:
            changed |= _configure_products(module, target, target.projections, theirs, report)
        if target:
            changed |= _configure_products(module, target, target.plain_products, theirs, report)
        return changed


def _configure_attention(
    op: ir.Operation,
    target: Target | None,
    table: Table | None,
    theirs: dict[str, str],
    report: Report,
) -> bool:
    """Configures one attention: as `table` says if it has an entry, else by the built-in tables.
    One in a function of `theirs` is left to the user's flag."""
    try:
        facts = describe(op)
    except AttnError as error:
        # IREE folds unit dims before this phase: a single key leaves no k2 dim.
        if not report.is_left(op):
            report.record(op, "not-configured", error.message)
        return False
    report_folds(facts, report)
    if flag := theirs.get(facts.function):
        report.record(op, "configured-by-user", flag=flag)
        return False
    found, source = _configuration(facts, target, table)
    is_attached = _attach(op_of(op), op, found, target, report, source)
    if isinstance(found, Refusal) or not is_attached:
        why = target.own_is_wrong(facts) if target and not facts.own_configuration else None
        if why:
            report.known_wrong(why, op)
        return False
    if target and "decomposition_config" not in found and (why := target.loops_refusal(facts)):
        report.record(op, "no-loops", why)
    return True


def _configured_by_user(
    module: ir.Operation, target: Target | None, specs: UserSpecs | None, report: Report
) -> dict[str, str]:
    """The flag of the user's that configures a dispatch, by the name of its function."""
    if specs is None or target is None:
        return {}
    if why := specs.unread(target):
        report.ignored(why)
    return specs.configured(module, target)


def _functions(module: ir.Operation, without: dict[str, str]) -> list[ir.Operation]:
    """The functions of dispatches, but those named in `without`."""
    functions = descendants(module, "flow.executable", "builtin.module", "func.func")
    return [one for one in functions if symbol_name(one) not in without]


def _configure_copies(
    module: ir.Operation, target: Target, theirs: dict[str, str], only_moves: bool = False
) -> None:
    if target.subgroup is None:
        return
    for function in _functions(module, without=theirs):
        if only_moves:
            gpu_copies.configure_move(function, target.subgroup)
        else:
            gpu_copies.configure(function, target.subgroup, all_copies=target.copies_were_timed)


def _configure_products(
    module: ir.Operation,
    target: Target,
    configured: Callable[[ir.Operation], Sequence[Configured]],
    theirs: dict[str, str],
    report: Report,
) -> bool:
    changed = False
    for function in _functions(module, without=theirs):
        for op, found in configured(function):
            changed |= _attach(op_of(op, "contraction"), op, found, target, report)
    return changed


def _attach(
    about: Op,
    op: ir.Operation,
    found: dict[str, str] | Refusal,
    target: Target | None,
    report: Report,
    source: str = "",
) -> bool:
    """Gives an op the attributes found, or says of it why there are none; `source` says where
    they come from, if not from the built-in tables."""
    if isinstance(found, Refusal):
        report.record(about, "not-configured", found.reason)
        return False
    for name, text in found.items():
        set_attribute(op, name, text)
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
) -> tuple[dict[str, str] | Refusal, str]:
    """The attributes to attach, as text by name, or why there are none; words for the table
    that they come from."""
    if facts.own_configuration:
        return Refusal(f"it has a {facts.own_configuration}"), ""
    if target is None:
        return Refusal("the module names no single target"), ""
    entry = table.find(facts, target.name) if table else None
    if table is None or entry is None:
        return target.configuration(facts), ""
    return entry.configuration or Refusal(f"{table.source} says so"), f" from {table.source}"
