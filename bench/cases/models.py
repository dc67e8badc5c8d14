"""What becomes of V in whole models: IREE's default, its flag off, and attnpass.

Each model is compiled four ways to `flow` and to llvm-cpu, run, and held against its known
answers: those of the folder, where it has folders with an `input.mlir` and an `io.npz` (see
bench.models.check.load_model), else our own in bench/models. `complaints` say in what a model is
worse off with the passes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iree.compiler import ir

from attnpass import Report
from attnpass.attention.facts import OP_NAMES, describe
from attnpass.ir import defining_op, users
from attnpass.ir.views import repeat_of
from attnpass.layout.rules.loop_nest import is_contraction
from bench.harness import Named
from bench.models import families
from bench.models.check import OFF, build, compile_model, load_model, worst_error
from bench.models.flow import read_flow, walk
from bench.models.trace import Model
from bench.results import Row, row

IS_ON_CPU = True

VARIANTS: dict[str, tuple[str | None, list[str]]] = {
    "default": (None, []),
    "off": (None, [OFF]),
    "cost": ("cost", []),
    "always": ("always", []),
}
LONGEST_CHAIN = 12
# Where V comes in as it is, a whole cache or an argument, nothing can absorb V^T.
GIVEN = ("import", "concat", "scatter")
# How much worse than IREE's a result may be: both differ from the reference by rounding.
ROUNDING = 3.0


def cases() -> list[Named]:
    return [Named(name) for name in families.MODELS]


def cases_in(folder: Path) -> list[Named]:
    """A user's own models, where there are any."""
    own = sorted(path.parent.name for path in folder.glob("*/input.mlir"))
    return [Named(name) for name in own] or cases()


def run(folder: Path, case: Named, _: argparse.Namespace) -> Iterator[Row]:
    own = folder / case.name
    model = load_model(own) if own.exists() else families.MODELS[case.name]()
    chains, ways = v_chains(model), {}
    for name, (mode, flags) in VARIANTS.items():
        built = build(model, mode, flags)
        flow = read_flow(built.flow)
        read = ["k2" if inner else "n" for inner in flow.v_innermost]
        ways[name] = flow.counts | {"v": read, "error": worst_error(built.vmfb, model)}
        if mode:
            ways[name]["decisions"] = decisions(built.report)
    given = [chain.startswith(GIVEN) for chain in chains]
    found = {"chains": chains, "complaints": complaints(ways, all(given))}
    yield row(case.name, "module", found)
    for name, way in ways.items():
        yield row(case.name, name, way)


def decisions(report: Report) -> list[dict[str, str]]:
    """What was decided for V in each attention, without places in files."""
    return [
        {"decision": record.decision, "reason": re.sub(r" at \S+:\d+:\d+", "", record.reason)}
        for attention in report.attentions
        for record in attention.operands
        if record.operand == "value"
    ]


def complaints(ways: dict[str, Any], v_is_given: bool) -> list[str]:
    """In what the passes lose: to IREE, or to what mode `always` promises where V is made."""
    off, always, default, cost = (ways[name] for name in ("off", "always", "default", "cost"))
    found = []
    if always["dispatches"] > off["dispatches"]:
        found.append("always: more dispatches than IREE with its flag off")
    if "n" in always["v"] and not v_is_given:
        kept = [d["reason"] for d in always["decisions"] if d["decision"] != "absorbed"]
        found += [f"always: V is not k2-innermost: {reason}" for reason in dict.fromkeys(kept)]
    if cost["moving"] > default["moving"]:
        found.append("cost: more data movement dispatches than IREE by default")
    if cost["dispatches"] > default["dispatches"]:
        found.append("cost: more dispatches than IREE by default")
    if (cost["moved"] or 0) > (default["moved"] or 0):
        found.append("cost: more bytes in data movement than IREE by default")
    worst = max(cost["error"], always["error"])
    if worst > ROUNDING * max(default["error"], off["error"], 1e-7):
        found.append("numbers differ from IREE's by more than rounding")
    return found


def v_chains(model: Model) -> list[str]:
    """What stands in front of V where the passes begin, one text per different chain."""
    text = compile_model(model, None, [OFF, "--compile-to=preprocessing"]).decode()
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        found = [
            _chain(describe(op).value("value"))
            for op in walk(module.operation)
            if op.name in OP_NAMES
        ]
    return list(dict.fromkeys(found))


def _chain(value: ir.Value) -> str:
    names: list[str] = []
    while len(names) < LONGEST_CHAIN:
        op = defining_op(value)
        if op is None:
            names.append("argument")
            break
        several = len(users(value)) > 1
        names.append(_name(op) + (f" ({len(users(value))} users)" if several else ""))
        following = _main_operand(op)
        if following is None:
            break
        value = following
    return ", ".join(reversed(names))


def _name(op: ir.Operation) -> str:
    if op.name != "linalg.generic":
        return op.name.rpartition(".")[2].removesuffix("_shape")
    if repeat_of(op) is not None:
        return "repeat"
    inner = [inside.name for inside in walk(op) if inside.name != "linalg.yield"]
    if "tensor.extract" in inner:
        return "gather"
    short = [name.rpartition(".")[2] for name in inner if name.startswith(("arith.", "math."))]
    return "+".join(short) or "copy"


def _main_operand(op: ir.Operation) -> ir.Value | None:
    """The operand that V's content comes through; None where it is made."""
    ends = ("tensor.concat", "arith.constant", "hal.tensor.import", "util.global.load")
    if op.name in ends or is_contraction(op) or not op.operands:
        return None
    if op.name == "linalg.generic" and _name(op) == "gather":
        extract = next(inside for inside in walk(op) if inside.name == "tensor.extract")
        return extract.operands[0]
    if op.name == "iree_linalg_ext.scatter":
        return None
    return op.operands[0]
