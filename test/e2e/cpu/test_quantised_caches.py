"""Few rows over K and V that are widened from narrower tensors: vector loops read these as they
lie, at the levels at which IREE fuses what widens them, and numbers are right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    ALL_RUN,
    compile_text,
    rel_error,
    renamed,
    run_module,
    runs_here,
    symbol,
)

from attnpass import Report
from attnpass.report.entries import Record

HEADS, KEYS, DIM = 3, 40, 24
_TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i16": np.int16,
}
_ERRORS = {"f32": 2e-6, "f16": 2e-3, "bf16": 1e-2}
# What makes an element of the codes and two more operands.
_SCALED = """
    %w = arith.sitofp %c : {code} to {kind}
    %y = arith.mulf %w, %s : {kind}"""
_UNSIGNED = """
    %w = arith.uitofp %c : {code} to {kind}
    %y = arith.mulf %w, %s : {kind}"""
_ZERO_POINTS = """
    %w = arith.sitofp %c : {code} to {kind}
    %d = arith.subf %w, %z : {kind}
    %y = arith.mulf %d, %s : {kind}"""
_WHOLE_ZERO_POINT = """
    %three = arith.constant 3 : i32
    %i = arith.extsi %c : {code} to i32
    %d = arith.subi %i, %three : i32
    %w = arith.sitofp %d : i32 to {kind}
    %y = arith.divf %w, %s : {kind}"""
_EXTENDED = """
    %w = arith.extf %c : {code} to {kind}
    %y = arith.mulf %w, %s : {kind}"""
_TANH = """
    %w = arith.sitofp %c : {code} to {kind}
    %t = math.tanh %w : {kind}
    %y = arith.mulf %t, %s : {kind}"""
_BY_KEY, _BY_CHANNEL, _ONE = "(b, k)", "(b, n)", "()"


@dataclass(frozen=True)
class Form:
    """How K and V are made of codes; `order` has the dims of the codes. `stored` forms
    are widened in memory."""

    name: str
    body: str = _SCALED
    scales: str = _BY_KEY
    rows: int = 4
    code: str = "i8"
    kind: str = "f32"
    order: str = "(b, k, n)"
    unknown: bool = False
    wide_key: bool = False
    transposed: bool = False
    stored: bool = False


FORMS = (
    Form("a_scale_a_key"),
    Form("one_row", rows=1),
    Form("rows_in_groups", rows=16),
    Form("unsigned", body=_UNSIGNED),
    Form("zero_points", body=_ZERO_POINTS),
    Form("whole_zero_point", body=_WHOLE_ZERO_POINT),
    Form("a_scale_a_channel", scales=_BY_CHANNEL),
    Form("one_scale", scales=_ONE),
    Form("f16", kind="f16"),
    Form("bf16", kind="bf16", body=_ZERO_POINTS),
    Form("16_bits", code="i16"),
    Form("narrow_floats", code="bf16", body=_EXTENDED),
    Form("keys_first", order="(k, b, n)"),
    Form("unknown_keys", unknown=True),
    Form("value_alone", wide_key=True),
    Form("many_rows", rows=17, stored=True),
    Form("tanh", body=_TANH, stored=True),
    Form("channels_first", order="(b, n, k)", rows=3, stored=True),
    Form("transposed", transposed=True, stored=True),
)


def _tensor(dims: str, kind: str, unknown: bool) -> str:
    sizes = {"b": HEADS, "k": "?" if unknown else KEYS, "n": DIM}
    return f"tensor<{''.join(f'{sizes[dim]}x' for dim in _names(dims))}{kind}>"


def _names(dims: str) -> list[str]:
    return [dim for dim in dims.strip("()").split(", ") if dim]


def _text(form: Form) -> str:
    kv = "(b, n, k)" if form.transposed else "(b, k, n)"
    codes = _tensor(form.order, form.code, form.unknown)
    scales = _tensor(form.scales, form.kind, form.unknown)
    wide = _tensor(kv, form.kind, form.unknown)
    query = f"tensor<{HEADS}x{form.rows}x{DIM}x{form.kind}>"
    maps = [f"affine_map<(b, k, n) -> {dims}>" for dims in (form.order, *[form.scales] * 2, kv)]

    def made(name: str) -> str:
        return f"""
  %{name} = linalg.generic {{indexing_maps = [{", ".join(maps)}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%{name}c, %{name}s, %{name}z : {codes}, {scales}, {scales}) outs(%space : {wide}) {{
  ^bb0(%c: {form.code}, %s: {form.kind}, %z: {form.kind}, %o: {form.kind}):
{form.body.format(code=form.code, kind=form.kind)}
    linalg.yield %y : {form.kind}
  }} -> {wide}"""

    dims, turned = "(b, m, n, d, k)", form.transposed
    places = ["(b, m, d)", "(b, d, k)" if turned else "(b, k, d)", kv, "()", "(b, m, n)"]
    listed = ", ".join(f"affine_map<{dims} -> {place}>" for place in places)
    given = ", ".join(f"%{name}c: {codes}, %{name}s: {scales}, %{name}z: {scales}" for name in "kv")
    at = _names(form.order).index("k")
    key = "%wide" if form.wide_key else "%k"
    return f"""
func.func @main(%q: {query}, %wide: {wide}, {given}) -> {query} {{
  %scale = arith.constant 0.2 : {form.kind}
  %at = arith.constant {at} : index
  %n = tensor.dim %kc, %at : {codes}
  %space = tensor.empty({"%n" if form.unknown else ""}) : {wide}{made("k")}{made("v")}
  %e = tensor.empty() : {query}
  %r = iree_linalg_ext.attention <indexing_maps = [{listed}]>
      ins(%q, {key}, %v, %scale : {query}, {wide}, {wide}, {form.kind}) outs(%e : {query}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {query}
  return %r : {query}
}}
"""


def _wide(form: Form, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The elements, (heads, keys, channels), in float64."""
    if form.body == _UNSIGNED:
        codes = codes.view(np.uint8)
    codes = codes.astype(np.float64).transpose([_names(form.order).index(dim) for dim in "bkn"])
    shape = [
        size if dim in _names(form.scales) else 1
        for dim, size in zip("bkn", codes.shape, strict=True)
    ]
    scale, zero = (one.astype(np.float64).reshape(shape) for one in (scale, zero))
    if form.body == _ZERO_POINTS:
        return (codes - zero) * scale
    if form.body == _WHOLE_ZERO_POINT:
        return (codes - 3) / scale
    return (np.tanh(codes) if form.body == _TANH else codes) * scale


def _inputs(form: Form) -> tuple[list[np.ndarray], np.ndarray]:
    """Arguments, and the result in float64."""
    random, kind = np.random.default_rng(3), _TYPES[form.kind]
    sizes = {"b": HEADS, "k": KEYS, "n": DIM}
    given, wides = [], []
    for _ in "kv":
        shape = [sizes[dim] for dim in _names(form.order)]
        codes = random.integers(-100, 101, shape).astype(_TYPES[form.code])
        scale, zero = (
            random.uniform(low, high, [sizes[dim] for dim in _names(form.scales)]).astype(kind)
            for low, high in ((0.005, 0.02), (-9, 9))
        )
        if form.body == _WHOLE_ZERO_POINT:
            scale = (1 / scale.astype(np.float32)).astype(kind)
        given += [codes, scale, zero]
        wides.append(_wide(form, codes, scale, zero))
    query = random.standard_normal((HEADS, form.rows, DIM)).astype(kind)
    key, value = wides
    wide = key.astype(kind)
    if form.wide_key:
        key = wide.astype(np.float64)
    scores = 0.2 * query.astype(np.float64) @ key.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    if form.transposed:
        wide = np.ascontiguousarray(wide.transpose(0, 2, 1))
    return [query, wide, *given], weights / weights.sum(-1, keepdims=True) @ value


# A level and a CPU beside O2 on the host, in turns; each form is in one of both.
_OTHERS = (("O0", "host"), ("O2", "haswell"), ("O3", "host"), ("O2", "x86-64"))
_RUNS = [
    (form, *way)
    for number, form in enumerate(FORMS)
    for other, way in enumerate((("O2", "host"), _OTHERS[number // 2 % len(_OTHERS)]))
    if ALL_RUN or number % 2 == other or (other == 0 and not runs_here(way[1]))
]


@cache
def _compiled(level: str, cpu: str) -> tuple[bytes, Report]:
    """All forms of a level and a CPU, one function each."""
    report, flags = Report(), [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    forms = [form for form, *way in _RUNS if way == [level, cpu]]
    text = "".join(renamed(_text(form), symbol("of", form.name, "end")) for form in forms)
    return compile_text(text, mode="cost", flags=flags, report=report), report


@pytest.mark.parametrize(
    ("form", "level", "cpu"), _RUNS, ids=lambda value: getattr(value, "name", value)
)
def test_numbers_and_places(form: Form, level: str, cpu: str) -> None:
    vmfb, report = _compiled(level, cpu)
    function = symbol("of", form.name, "end")

    def found(*what: str) -> list[Record]:
        return [one for one in report.found(*what) if one.op.function.startswith(function)]

    assert not report.found("no-loops", "fallback")
    (loops,) = found("loops")
    # More rows than lanes: each element of K and V is read several times.
    is_many = loops.details["lanes"] == "rows"
    assert form.rows > (4 if is_many else 0)
    is_stored = form.stored or is_many
    narrow = 0 if is_stored else 1 if form.wide_key else 2
    assert [len(found(what)) for what in ("stored", "note")] == [2 * is_stored, narrow]
    given, wanted = _inputs(form)
    if runs_here(cpu):
        assert rel_error(run_module(vmfb, given, function), wanted) < _ERRORS[form.kind]
