"""What a verification found: a table, JSON, and the reproduction of a fault."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AttnError
from .folder import VerifySettings
from .search import Fault, Finding, Row

REPRODUCTION, INPUTS = "reproduction.mlir", "reproduction.npz"
# Right rows of the table beyond so many are counted, not printed.
_MOST_RIGHT = 8


def table(outcome: Finding, folder: Path) -> str:
    """The outcome for a reader: where, error, verdict."""
    right = [row for row in outcome.rows if row.verdict == "right"]
    hidden = right[_MOST_RIGHT:]
    lines = [_cells(row) for row in outcome.rows if row not in hidden]
    if outcome.fault:
        lines += [("", "", "")] + [_cells(row) for row in outcome.fault.rows]
    text = _aligned([("where", "error", "verdict"), *lines]) if lines else ""
    if hidden:
        text += f"and {len(hidden)} more that are right\n"
    if outcome.fault:
        text += _fault_text(outcome.fault, folder)
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{text}{outcome.verdict}{reason}\n"


def _cells(row: Row) -> tuple[str, str, str]:
    error = "" if row.error is None else f"{row.error:.2g}"
    words = row.verdict
    if row.reason:
        words += f" ({row.reason})"
    elif row.verdict != "right" and row.limit is not None:
        words += f" (right is up to {row.limit:.0e})"
    return row.where, error, words


def _aligned(rows: Sequence[tuple[str, str, str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{where:<{widths[0]}}  {error:<{widths[1]}}  {words}" for where, error, words in rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _fault_text(fault: Fault, folder: Path) -> str:
    text = f"\nfirst wrong: {fault.words}\n"
    if len(fault.steps) > 1:
        text += "".join(f"  {words}\n" for words in fault.steps)
    if fault.text:
        count = fault.text.count("\n")
        text += f"reproduction: {folder / REPRODUCTION} ({count} lines), {folder / INPUTS}\n"
    return text


def as_json(outcome: Finding, settings: VerifySettings, folder: Path) -> str:
    """The outcome as JSON; infinite errors as null."""
    data: dict[str, Any] = {
        "model": settings.model,
        "flags": list(settings.flags),
        "plain": settings.plain,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "results": [_row(row) for row in outcome.rows],
        "fault": None,
    }
    if outcome.fault:
        fault = outcome.fault
        data["fault"] = {
            "where": fault.words,
            "steps": fault.steps,
            "results": [_row(row) for row in fault.rows],
            "reproduction": str(folder / REPRODUCTION) if fault.text else None,
            "inputs": str(folder / INPUTS) if fault.text else None,
        }
    return json.dumps(data, indent=1) + "\n"


def _row(row: Row) -> dict[str, Any]:
    data = asdict(row)
    if row.error is not None and not math.isfinite(row.error):
        data["error"] = None
    return data


def write_reproduction(fault: Fault, settings: VerifySettings, folder: Path) -> None:
    """Writes the module and its arrays: `in0` and so on, `out0` and so on as they should be."""
    try:
        (folder / REPRODUCTION).write_text(_header(fault, settings) + fault.text)
        np.savez_compressed(folder / INPUTS, **fault.inputs, **fault.wanted)  # type: ignore
    except OSError as error:
        why = (error.strerror or "").lower()
        raise AttnError(f"cannot write there: {why}", str(folder)) from None


def _header(fault: Fault, settings: VerifySettings) -> str:
    row = fault.rows[0]
    tool = "iree-compile" if settings.plain else "attn-compile"
    known = row.reason if row.error is None else f"relative error {row.error:.2g}"
    error = f"{known}; " if known else ""
    plain = " --plain" if settings.plain else ""
    device = "llvm-cpu" if settings.driver.startswith("local") else settings.driver
    flags = " ".join(settings.flags)
    return (
        f"// Wrong by {tool}: {error}{fault.words}.\n"
        f"// Inputs (in0, ...) and right results (out0, ...) are in {INPUTS}.\n"
        f"//   attn-verify {REPRODUCTION} --inputs={INPUTS} --device={device}{plain} {flags}\n"
    )
