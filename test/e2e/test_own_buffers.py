"""Mutable globals that begin equal, as caches of K and V, are written each for itself."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import compile_text, run_module

from attnpass import Report

# Globals with their types; two of other types begin with the same bytes.
NAMES = ("ck", "cv", "other")
KINDS = {"f32": np.float32, "f16": np.float16, "i8": np.int8}


def _text(kinds: tuple[str, ...]) -> str:
    """`step` writes a row of each global and returns all of them."""
    zero = {"i8": "0"}
    text, body, results = "", "", []
    for at, (name, kind) in enumerate(zip(NAMES, kinds, strict=False)):
        whole, row = f"tensor<4x2x{kind}>", f"tensor<1x2x{kind}>"
        text += f"util.global private mutable @{name} = dense<{zero.get(kind, '0.0')}> : {whole}\n"
        body += f"""
  %old{at} = util.global.load @{name} : {whole}
  %new{at} = tensor.insert_slice %row{at} into %old{at}[%i, 0] [1, 2] [1, 1] : {row} into {whole}
  util.global.store %new{at}, @{name} : {whole}"""
        results.append((f"%new{at}", whole, f"%row{at}: {row}"))
    values, types, rows = (", ".join(words) for words in zip(*results, strict=True))
    return f"""{text}
func.func @step(%p: tensor<i32>, {rows}) -> ({types}) {{
  %at = tensor.extract %p[] : tensor<i32>
  %i = arith.index_cast %at : i32 to index{body}
  return {values} : {types}
}}
"""


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("kinds", [("f32", "f32"), ("f16", "f16", "i8"), ("f32", "f32", "f32")])
def test_each_global_keeps_what_is_stored_in_it(kinds: tuple[str, ...], level: str) -> None:
    report = Report()
    flags = [f"--iree-opt-level={level}"]
    program = compile_text(_text(kinds), mode="cost", report=report, flags=flags)
    assert any(f"{len(kinds)} mutable globals" in note for note in report.notes)
    rows = [np.full((1, 2), at + 1, KINDS[kind]) for at, kind in enumerate(kinds)]
    results = run_module(program, [np.array(1, np.int32), *rows], "step")
    for at, result in enumerate(results):
        wanted = np.zeros((4, 2))
        wanted[1] = at + 1
        assert np.array_equal(result.astype(float), wanted)
