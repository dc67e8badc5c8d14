"""What becomes of V in whole models: IREE's default, its flag off, and attnpass.

    python tools/model_table.py --json bench/results/models.json --page
    python tools/model_table.py --models FOLDER... --json other.json

Each model is compiled four ways to `flow` and to llvm-cpu, run, and held against its known
answers. Without `--models` these are the models of tools/models.py; a folder given there
has an `input.mlir` and an `io.npz` (see model_check.load_model). `--page` writes docs/models.md
from the JSON file. Exits with 1 if a model is worse off with the passes (see `complaints`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import models
from doc_blocks import machine, size, table, text_table, write_block
from flow_ir import Flow, read_flow, walk
from iree.compiler import ir
from mlir_trace import Model
from model_check import OFF, build, compile_model, load_model, worst_error

from attnpass import Report
from attnpass.attention.facts import OP_NAMES, describe
from attnpass.ir import defining_op, users
from attnpass.ir.views import repeat_of
from attnpass.layout.rules.loop_nest import is_contraction

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


def measure(model: Model) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"v": v_chains(model), "ways": {}}
    for name, (mode, flags) in VARIANTS.items():
        built = build(model, mode, flags)
        flow = read_flow(built.flow)
        way = facts_of(flow) | {"error": worst_error(built.vmfb, model)}
        if mode:
            way["decisions"] = decisions(built.report)
        row["ways"][name] = way
    given = [chain.startswith(GIVEN) for chain in row["v"]]
    row["complaints"] = complaints(row["ways"], all(given))
    return row


def facts_of(flow: Flow) -> dict[str, Any]:
    """Counts of a module at `flow`."""
    return {
        "dispatches": len(flow.dispatches),
        "moving": len(flow.moving),
        "bytes": flow.bytes,
        "moved": flow.moved,
        "v": ["k2" if inner else "n" for inner in flow.v_innermost],
    }


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


# The page


def write_page(data: dict[str, Any]) -> None:
    rows = data["models"]
    write_block("models.md", "models", _summary(data) + "\n" + _counts(rows) + _whys(rows))


def _summary(data: dict[str, Any]) -> str:
    rows = data["models"]
    attentions = sum(bool(row["v"]) for row in rows.values())
    lost = [f"- {name}: {text}\n" for name, row in rows.items() for text in row["complaints"]]
    text = f"{len(rows)} models, {attentions} with an attention op; IREE {data['iree']}.\n"
    if lost:
        return text + "\nNot reached:\n" + "".join(lost)
    return text + "No row is lost to IREE.\n"


def _counts(rows: dict[str, Any]) -> str:
    head = ["model"]
    for name in ("IREE", "flag off", "cost", "always"):
        head += [f"{name}: V", "dispatches (moving)", "bytes (moved)"]
    lines = []
    for name, row in rows.items():
        line = [name]
        for way in row["ways"].values():
            line.append(" ".join(dict.fromkeys(way["v"])) or "-")
            line.append(f"{way['dispatches']} ({way['moving']})")
            line.append(f"{size(way['bytes'])} ({size(way['moved'])})")
        lines.append([*line, f"{max(way['error'] for way in row['ways'].values()):.1e}"])
    return table([*head, "worst error"], lines) + "\n"


def _whys(rows: dict[str, Any]) -> str:
    head = ["model", "what stands in front of V", "at cost", "at always"]
    lines = [
        [name, "<br>".join(row["v"]), *(_why(row["ways"][way]) for way in ("cost", "always"))]
        for name, row in rows.items()
        if row["v"]
    ]
    return text_table(head, lines)


def _why(way: dict[str, Any]) -> str:
    texts = [f"{d['decision']}: {d['reason']}" for d in way["decisions"]]
    return "<br>".join(dict.fromkeys(texts))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--models", type=Path, nargs="*", help="folders; default: our own models")
    parser.add_argument("--only", nargs="*", help="names of our own models")
    parser.add_argument("--json", type=Path, help="where the numbers go")
    parser.add_argument("--page", action="store_true", help="write docs/models.md")
    options = parser.parse_args(arguments)
    if options.models:
        made = {folder.name: load_model(folder) for folder in options.models}
    else:
        made = {n: m() for n, m in models.MODELS.items() if not options.only or n in options.only}
    rows: dict[str, Any] = {}
    for name, model in made.items():
        rows[name] = row = measure(model)
        counts = [f"{way['dispatches']}({way['moving']})" for way in row["ways"].values()]
        inner = ["".join(dict.fromkeys(way["v"])) or "-" for way in row["ways"].values()]
        print(f"{name:22s}{' '.join(f'{c:>8s}' for c in counts)}  {' '.join(inner)}", flush=True)
        print("".join(f"    {text}\n" for text in row["complaints"]), end="", flush=True)
    data = {**machine(), "models": rows}
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    if options.page:
        write_page(data)
    return 1 if any(row["complaints"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
