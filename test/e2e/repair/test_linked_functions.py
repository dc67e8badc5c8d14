"""Functions that IREE links no library for on CPUs, or computes with too few digits, are right to
the last few."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from helpers import CPU, in_each_way, run_module

import attnpass

MAP = "affine_map<(i) -> (i)>"
WANTED: dict[str, Callable[..., np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clampf": lambda x: np.clip(x, -2.5, 1),
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "powf": np.power,
    "remf": np.fmod,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "by_2": lambda x: 1 / (x * x),
    "by_3_4": lambda x: np.power(x, 0.75),
}
# Powers by known numbers.
EXPONENTS = {"by_2": -2.0, "by_3_4": 0.75}
ALWAYS = (
    *(
        "acosh",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "clampf",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "log10",
        "powf",
        "sin",
        "sinh",
        "tan",
        "trunc",
        *EXPONENTS,
    ),
)
OF_TWO = ("atan2", "powf", "remf")
ENDS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -2.5,
    1e-12,
    30.0,
    -30.0,
    np.inf,
    -np.inf,
    np.nan,
    1e5,
    39.28379,
]


def _function(name: str, kind: str, size: int) -> str:
    """A function of two tensors, of which most read the first."""
    tensor = f"tensor<{size}x{kind}>"
    given = "%a, %b" if name in OF_TWO else "%a"
    given += " to [%low, %high]" if name == "clampf" else ""
    given += ", %power" if name in EXPONENTS else ""
    op = {"remf": "arith.remf", **dict.fromkeys(EXPONENTS, "math.powf")}.get(name, f"math.{name}")
    return f"""
    func.func @{name}_{kind}(%x: {tensor}, %y: {tensor}) -> {tensor} {{
      %e = tensor.empty() : {tensor}
      %0 = linalg.generic {{indexing_maps = [{MAP}, {MAP}, {MAP}], iterator_types = ["parallel"]}}
          ins(%x, %y : {tensor}, {tensor}) outs(%e : {tensor}) {{
      ^bb0(%a: {kind}, %b: {kind}, %o: {kind}):
        %low = arith.constant -2.5 : {kind}
        %high = arith.constant 1.0 : {kind}
        %power = arith.constant {EXPONENTS.get(name, 1.0)} : {kind}
        %r = {op} {given} : {kind}
        linalg.yield %r : {kind}
      }} -> {tensor}
      return %0 : {tensor}
    }}"""


def test_functions_without_a_library() -> None:
    random = np.random.default_rng(0)
    # The last are where erf comes to 1.
    parts = 4 * random.standard_normal(300), random.uniform(-1, 1, 300), np.linspace(2.5, 4, 200)
    x = np.concatenate([ENDS, *parts])
    y = np.concatenate([ENDS[::-1], random.standard_normal(800)])
    y[:4], y[ENDS.index(-np.inf)] = (-0.0, 0.0, 0.0, -0.0), 2.5
    cases = [
        ("exp2", "f32"),
        ("exp2", "f16"),
        *((name, "f64") for name in WANTED if name not in ("exp2", *EXPONENTS)),
        *in_each_way(((name,) for name in ALWAYS), ("f32", "f16")),
    ]
    text = "".join(_function(name, kind, len(x)) for name, kind in cases)
    flags = [*CPU, "--iree-input-demote-f64-to-f32=false"]
    program = attnpass.compile_str(text, extra_args=flags)
    assert program
    for name, kind in cases:
        dtype = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[kind]
        with np.errstate(all="ignore"):
            inputs = [x.astype(dtype), y.astype(dtype)]
            given = [one.astype(np.float64) for one in inputs[: 2 if name in OF_TWO else 1]]
            wanted = WANTED[name](*given).astype(dtype).astype(np.float64)
            # An angle's last digit, too, and that of a number near 1.
            more = {"sin": 1, "cos": 1, "erfc": 1, "log2": 1, "log10": 1, "tan": 1 + wanted**2}
            if name == "powf" and kind == "f64":
                more[name] = np.abs(wanted * given[1] * np.log(np.abs(given[0])))
            got = run_module(program, inputs, function=f"{name}_{kind}").astype(np.float64)
            distance = np.abs(got - wanted) / np.finfo(dtype).eps
            is_close = distance <= 8 * np.abs(wanted) + 4 * more.get(name, 0)
        is_same = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
        if name == "erf":
            is_close &= np.abs(got) <= 1
        is_right = is_same | (np.isnan(got) & np.isnan(wanted)) | (is_close & (wanted != 0))
        assert is_right.all(), (name, kind, x[~is_right], got[~is_right])
