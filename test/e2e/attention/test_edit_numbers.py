"""Attention made again in other forms gives the same numbers: dims cut, dropped, in other order,
operands and results that lie otherwise, a mask more, for both ops, with and without masks, with
sizes known and not, and with score functions of positions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from forms import Form
from helpers import ALL_RUN, compile_text, run_module
from iree.compiler import ir

from attnpass.attention.edit import edit, iteration_size
from attnpass.attention.facts import AttentionFacts, describe, find
from attnpass.ir import Builder, Size, erase_dead, sizes_of

# Rows, keys and head dims; the loops' order is not the one that results have.
_SIZES = (6, 20, 16, 8)
_ORDERS = {"usual": "hmndk,hmd,hkd,hkn,hmn", "odd": "dnkhm,dmh,kdh,nhk,nmh"}
# Adds a tenth of the key's position less the row's.
_BY_POSITION = """%at_k = iree_linalg_ext.index {k} : index
      %at_m = iree_linalg_ext.index {m} : index
      %i_k = arith.index_cast %at_k : index to i32
      %i_m = arith.index_cast %at_m : index to i32
      %i = arith.subi %i_k, %i_m : i32
      %f = arith.sitofp %i : i32 to f32
      %tenth = arith.constant 0.1 : f32
      %t = arith.mulf %f, %tenth : f32
      %b = arith.addf %score, %t : f32
      iree_linalg_ext.yield %b : f32"""
_PLAIN = "iree_linalg_ext.yield %score : f32"


def _forms() -> dict[str, tuple[Form, bool]]:
    cases = (
        ("usual", "", "row", "", "attention", True),
        ("odd", "", "row", "mk", "attention", False),
        ("usual", "f32", "row", "k", "attention", True),
        ("odd", "i1", "transposed", "", "attention", True),
        ("usual", "", "row", "k", "online_attention", False),
        ("odd", "f32", "key", "", "online_attention", True),
        ("usual", "i1", "broadcast", "mk", "online_attention", True),
    )
    forms = {}
    for number, (order, mask, masked, dynamic, op, positions) in enumerate(cases):
        form = Form(_ORDERS[order], mask, masked, "f32", dynamic, op, "", _SIZES)
        forms[f"f{number}"] = form, positions
    return forms


FORMS = _forms()


def _text(name: str) -> str:
    form, positions = FORMS[name]
    loops = form.orders[0]
    region = _BY_POSITION.format(k=loops.index("k"), m=loops.index("m")) if positions else _PLAIN
    return form.text(name).replace(_PLAIN, region)


def _cut(facts: AttentionFacts) -> ir.Operation:
    """Each dim whose size is known as two, the smaller of which is behind; heads, which become
    one and two, lose the one again."""
    cuts: list[list[Size]] = []
    for dim in range(facts.num_dims):
        size = iteration_size(facts, dim)
        cuts.append([size // 2, 2] if isinstance(size, int) else [size])
    facts = describe(edit(facts).cut(cuts).replace())
    kept = (iteration_size(facts, dim) for dim in range(facts.num_dims))
    return edit(facts).cut([[] if size == 1 else [size] for size in kept]).replace()


def _moved(facts: AttentionFacts) -> ir.Operation:
    """Iteration dims in another order, those of all operands and results in reverse."""
    build = Builder(facts.op)
    made = edit(facts).renumber([(dim + 2) % facts.num_dims for dim in range(facts.num_dims)])
    for name in facts.tensor_operands:
        order = range(len(facts.map_of(name)))[::-1]
        value = build.transpose(facts.value(name), list(order))
        made = made.operand(name, value, made.map_of(name)[::-1])
    return made.replace()


def _larger(facts: AttentionFacts) -> ir.Operation:
    """Under a mask that hides nothing, where there is none, with more columns than are read."""
    build, made = Builder(facts.op), edit(facts)
    if not facts.has_mask:
        sizes = [iteration_size(facts, dim) for dim in facts.k2]
        made = made.mask(build.all_true(sizes), facts.k2)
    (n,) = facts.n
    f32 = ir.F32Type.get()
    for name in ("value", "output"):
        value, at = facts.value(name), facts.map_of(name).index(n)
        sizes = list(sizes_of(value))
        sizes[at] = 2 * _SIZES[3]
        more = build.fill(build.constant_float(0.0, f32), build.empty(sizes, f32))
        made = made.operand(name, build.insert_slice(value, more))
    return made.replace()


EDITS = {"cut": _cut, "moved": _moved, "larger": _larger}


# Each form is edited in two ways of three.
RUNS = [
    (way, name)
    for number, way in enumerate(EDITS)
    for place, name in enumerate(FORMS)
    if ALL_RUN or place % len(EDITS) != number
]


@cache
def _compiled(way: str) -> bytes:
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse("".join(_text(name) for one, name in RUNS if one == way))
        old = find(module.operation)
        for facts in old:
            EDITS[way](facts)
        erase_dead([facts.op for facts in old])
        assert module.operation.verify()
        return compile_text(str(module), mode="never")


def _wanted(name: str) -> np.ndarray:
    form, positions = FORMS[name]
    if not positions:
        return form.wanted()
    _, q, k, v, out = form.orders
    given = form.inputs()
    query, key, value = (array.astype(np.float64) for array in given[:3])
    scores = np.einsum(f"{q},{k}->hmk", query, key) * 0.25
    rows, keys = _SIZES[:2]
    scores += 0.1 * (np.arange(keys)[None, :] - np.arange(rows)[:, None])
    if form.mask:
        scores = scores + form._added(given[3])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum(f"hmk,{v}->{out}", weights, value)


@pytest.mark.parametrize(("way", "name"), RUNS)
def test_same_numbers(way: str, name: str) -> None:
    form, _ = FORMS[name]
    got = form.result(run_module(_compiled(way), form.inputs(), name)).astype(np.float64)
    wanted = _wanted(name)
    assert got.shape == wanted.shape
    assert np.linalg.norm(got - wanted) < 2e-5 * np.linalg.norm(wanted)
