"""Matrix products in the forms that they are written in, read as one thing."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from attnpass.ir import collect
from attnpass.ir.contractions import is_contraction, read_contraction

# (operand types, op): %0, %1 and %2 are its operands.
GENERIC = """linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
    affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, n, m)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<2x3x5xf16>, tensor<2x4x5xf16>) outs(%z : tensor<2x4x3xf32>) {
  ^bb0(%l: f16, %r: f16, %o: f32):
    %a = arith.extf %l : f16 to f32
    %b = arith.extf %r : f16 to f32
    %p = arith.BODY : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
} -> tensor<2x4x3xf32>"""
FORMS = {
    "matmul": (
        ("3x5xf32", "5x4xf32", "3x4xf32"),
        "linalg.matmul ins(%x, %y : tensor<3x5xf32>, tensor<5x4xf32>)"
        " outs(%z : tensor<3x4xf32>) -> tensor<3x4xf32>",
        ((), (0,), (1,), (2,), (3, 4, 5)),
    ),
    "transposed matmul": (
        ("3x5xf32", "4x5xf32", "3x4xf32"),
        "linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,"
        " affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]"
        " ins(%x, %y : tensor<3x5xf32>, tensor<4x5xf32>)"
        " outs(%z : tensor<3x4xf32>) -> tensor<3x4xf32>",
        ((), (0,), (1,), (2,), (3, 4, 5)),
    ),
    "batch_matmul": (
        ("2x3x5xf32", "2x5x4xf32", "2x3x4xf32"),
        "linalg.batch_matmul ins(%x, %y : tensor<2x3x5xf32>, tensor<2x5x4xf32>)"
        " outs(%z : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
        ((0,), (1,), (2,), (3,), (2, 3, 4, 5)),
    ),
    "contract": (
        ("3x2x5xf32", "4x5xf32", "2x4x3xf32"),
        "linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (m, b, k)>,"
        " affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, n, m)>]"
        " ins(%x, %y : tensor<3x2x5xf32>, tensor<4x5xf32>)"
        " outs(%z : tensor<2x4x3xf32>) -> tensor<2x4x3xf32>",
        ((), (0, 1), (2,), (3,), (2, 3, 4, 5)),
    ),
    "matvec": (
        ("3x5xf32", "5xf32", "3xf32"),
        "linalg.matvec ins(%x, %y : tensor<3x5xf32>, tensor<5xf32>)"
        " outs(%z : tensor<3xf32>) -> tensor<3xf32>",
        ((), (0,), (), (1,), (3, 5)),
    ),
    "batch_vecmat": (
        ("2x5xf32", "2x5x4xf32", "2x4xf32"),
        "linalg.batch_vecmat ins(%x, %y : tensor<2x5xf32>, tensor<2x5x4xf32>)"
        " outs(%z : tensor<2x4xf32>) -> tensor<2x4xf32>",
        ((0,), (), (1,), (2,), (2, 4, 5)),
    ),
    "generic": (
        ("2x3x5xf16", "2x4x5xf16", "2x4x3xf32"),
        GENERIC.replace("BODY", "mulf %b, %a"),
        ((0,), (1,), (2,), (3,), (2, 3, 4, 5)),
    ),
    "repeated result": (
        ("3x5xf32", "4x5xf32", "2x3x4xf32"),
        "linalg.contract indexing_maps = [affine_map<(r, m, n, k) -> (m, k)>,"
        " affine_map<(r, m, n, k) -> (n, k)>, affine_map<(r, m, n, k) -> (r, m, n)>]"
        " ins(%x, %y : tensor<3x5xf32>, tensor<4x5xf32>)"
        " outs(%z : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>",
        ((), (1,), (2,), (3,), (2, 3, 4, 5)),
    ),
}
OTHERS = {
    "sum of quotients": GENERIC.replace("BODY", "divf %a, %b"),
    "sum of squares": GENERIC.replace("BODY", "mulf %a, %a"),
}


def parsed(types: tuple[str, ...], line: str) -> tuple[ir.Module, ir.Operation]:
    arguments = ", ".join(
        f"%{name}: tensor<{kind}>" for name, kind in zip("xyz", types, strict=True)
    )
    with ir.Context():
        module = ir.Module.parse(f"func.func @f({arguments}) {{\n%r = {line}\nreturn\n}}")
        (op,) = collect(module.operation, lambda op: op.name.startswith("linalg."), bodies=False)
        return module, op


@pytest.mark.parametrize("name", FORMS)
def test_loops(name: str) -> None:
    types, line, wanted = FORMS[name]
    _module, op = parsed(types, line)
    facts = read_contraction(op)
    assert is_contraction(op) and facts is not None
    assert (facts.batch, facts.m, facts.n, facts.k, facts.sizes) == wanted


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    _module, op = parsed(FORMS["generic"][0], OTHERS[name])
    assert not is_contraction(op) and read_contraction(op) is None


def test_no_projected_permutation() -> None:
    line = GENERIC.replace("BODY", "mulf %a, %b").replace("-> (b, m, k)>", "-> (b, m + k, k)>")
    _module, op = parsed(("2x8x5xf16", *FORMS["generic"][0][1:]), line.replace("2x3x5", "2x8x5"))
    assert is_contraction(op) and read_contraction(op) is None


def test_nothing() -> None:
    assert not is_contraction(None) and read_contraction(None) is None
