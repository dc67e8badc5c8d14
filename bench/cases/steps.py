"""Dependent steps of attention, as decode does them: shapes and modules."""

from __future__ import annotations

from dataclasses import dataclass

from bench.attention import V_T, K, Q, V, fresh_attention


@dataclass(frozen=True)
class Shape:
    """`heads` = batch x heads of K and V, each with `rows` queries over `keys` keys."""

    heads: int
    rows: int
    keys: int
    head_dim: int = 128
    element: str = "f16"

    @property
    def name(self) -> str:
        return f"{self.heads}x{self.rows}x{self.keys}"

    @property
    def bytes(self) -> int:
        """Of K and V."""
        size = {"f32": 4, "f16": 2}[self.element]
        return 2 * self.heads * self.keys * self.head_dim * size


def steps_module(
    shape: Shape,
    counts: dict[str, int],
    mask: bool = False,
    dynamic: bool = False,
    transposed: bool = False,
) -> str:
    """MLIR text: one function for each (name, number of dependent attention steps); `transposed`
    takes V with keys innermost."""
    keys = "?" if dynamic else shape.keys
    q = f"tensor<{shape.heads}x{shape.rows}x{shape.head_dim}x{shape.element}>"
    k = f"tensor<{shape.heads}x{keys}x{shape.head_dim}x{shape.element}>"
    v = f"tensor<{shape.heads}x{shape.head_dim}x{keys}x{shape.element}>" if transposed else k
    m = f"tensor<{shape.heads}x{shape.rows}x{keys}xi1>"
    value = V_T if transposed else V
    read = [("%k", k, K), ("%v", v, value), ("%scale", shape.element, "")]
    read += [("%mask", m, "b, m, k2")] if mask else []
    functions = []
    for name, count in counts.items():
        steps = [fresh_attention(f"%q{i + 1}", [(f"%q{i}", q, Q), *read], q) for i in range(count)]
        functions.append(
            f"func.func @{name}(%q0: {q}, %k: {k}, %v: {v}"
            f"{', %mask: ' + m if mask else ''}) -> {q} {{\n"
            f"  %scale = arith.constant {shape.head_dim**-0.5} : {shape.element}"
            f"{''.join(steps)}\n  return %q{count} : {q}\n}}"
        )
    return "\n".join(functions) + "\n"
