"""Functions of f16 and bf16, and numbers beside them, are as near as their type: each result is the
exact one, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from helpers import CPU, run_module, symbol

import attnpass

Exact = Callable[[np.ndarray], np.ndarray]

# Ops of torch on %x, which give %r, and what they are.
FUNCTIONS: dict[str, tuple[str, Exact]] = {
    "silu": ("%r = torch.aten.silu %x : !T -> !T", lambda x: x / (1 + np.exp(-x))),
    "sigmoid": ("%r = torch.aten.sigmoid %x : !T -> !T", lambda x: 1 / (1 + np.exp(-x))),
    "hardswish": (
        "%r = torch.aten.hardswish %x : !T -> !T",
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
    ),
    "times": (
        "%n = torch.constant.float 0.1\n%r = torch.aten.mul.Scalar %x, %n : !T, !torch.float -> !T",
        lambda x: x * 0.1,
    ),
    "leaky": (
        "%n = torch.constant.float 0.01\n"
        "%r = torch.aten.leaky_relu %x, %n : !T, !torch.float -> !T",
        lambda x: np.where(x > 0, x, 0.01 * x),
    ),
    "nothing hidden": (
        "%n = torch.constant.float -1.0e9\n%z = torch.constant.int 0\n"
        "%0 = torch.aten.mul.Scalar %x, %z : !T, !torch.int -> !T\n"
        "%1 = torch.aten.mul.Scalar %0, %n : !T, !torch.float -> !T\n%one = torch.constant.int 1\n"
        "%r = torch.aten.add.Tensor %1, %x, %one : !T, !T, !torch.int -> !T",
        lambda x: x,
    ),
}
# The types with their significant bits and least exponents.
TYPES = {
    "f16": (np.dtype(np.float16), 11, -14),
    "bf16": (np.dtype(ml_dtypes.bfloat16), 8, -126),
}


def unit(x: np.ndarray, kind: str) -> np.ndarray:
    """How far the numbers of a type lie apart at each of `x`."""
    _, bits, least = TYPES[kind]
    return np.exp2(np.maximum(np.frexp(x)[1] - 1, least) - bits + 1.0)


@pytest.mark.parametrize(("kind", "level"), [("f16", "O0"), ("f16", "O3"), ("bf16", "O2")])
def test_functions_are_rounded_once(kind: str, level: str) -> None:
    functions = (
        f"func.func @{symbol(name)}(%x: !T) -> !T {{\n{ops}\nreturn %r : !T\n}}\n"
        for name, (ops, _) in FUNCTIONS.items()
    )
    text = "".join(functions).replace("!T", f"!torch.vtensor<[?,64],{kind}>")
    program = attnpass.compile_str(text, extra_args=[*CPU, f"--iree-opt-level={level}"])
    assert program
    x = np.linspace(-8, 8, 8 * 64).reshape(8, 64).astype(TYPES[kind][0])
    for name, (_, exact) in FUNCTIONS.items():
        wanted = exact(x.astype(np.float64))
        got = run_module(program, [x], function=symbol(name)).astype(np.float64)
        assert (np.abs(got - wanted) <= 0.51 * unit(wanted, kind)).all(), name
