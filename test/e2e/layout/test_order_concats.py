"""Concats of transposed pieces in another order give the same numbers, compiled for a CPU."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers import compile_and_run, pairwise, rel_error
from iree.compiler import ir

from attnpass import Report
from attnpass.layout.order_concats import OrderConcats
from attnpass.passes import PassContext

_ORDERS = {
    "tokens": ((2, 5, 3, 4), (0, 2, 1, 3), 2),
    "tokens_first": ((5, 3, 4), (1, 0, 2), 1),
    "tokens_last": ((5, 3, 4), (2, 1, 0), 2),
    "moved_round": ((5, 2, 3, 4), (1, 2, 0, 3), 2),
}
_KINDS = {"f16": np.float16, "f32": np.float32}


class _Anywhere(OrderConcats):
    backends: ClassVar[tuple[str, ...]] = ()


def _kind(shape: tuple[int, ...], unknown: int | None, element: str) -> str:
    sizes = ("?" if at == unknown else str(size) for at, size in enumerate(shape))
    return f"tensor<{'x'.join([*sizes, element])}>"


def _text(shapes: list[tuple[int, ...]], case: str, element: str, unknown: bool) -> str:
    """The pieces transposed, every second doubled behind that, and joined; the first piece is
    returned as well."""
    _, order, dim = _ORDERS[case]
    source, lines, pieces, types = order[dim], [], [], []
    for number, shape in enumerate(shapes):
        kind = _kind(shape, source if unknown else None, element)
        turned = _kind(tuple(shape[at] for at in order), dim if unknown else None, element)
        size, loops = (f"%n{number}" if unknown else ""), [f"d{at}" for at in range(len(shape))]
        same = f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"
        kinds = ", ".join(['"parallel"'] * len(shape))
        lines.append(f"""
  %n{number} = tensor.dim %x{number}, %source : {kind}
  %space{number} = tensor.empty({size}) : {turned}
  %turned{number} = linalg.transpose ins(%x{number} : {kind}) outs(%space{number} : {turned})
    permutation = [{", ".join(map(str, order))}]
  %doubled{number} = linalg.generic {{indexing_maps = [{same}, {same}],
    iterator_types = [{kinds}]}} ins(%turned{number} : {turned}) outs(%space{number} : {turned}) {{
  ^bb0(%a: {element}, %out: {element}):
    %b = arith.addf %a, %a : {element}
    linalg.yield %b : {element}
  }} -> {turned}""")
        pieces.append(f"%doubled{number}" if number % 2 else f"%turned{number}")
        types.append((kind, turned))
    whole = list(shapes[0])
    whole[source] = sum(shape[source] for shape in shapes)
    joined = _kind(tuple(whole[at] for at in order), dim if unknown else None, element)
    arguments = ", ".join(f"%x{number}: {kind}" for number, (kind, _) in enumerate(types))
    turned = ", ".join(turned for _, turned in types)
    return f"""
func.func @main({arguments}) -> ({joined}, {types[0][1]}) {{
  %source = arith.constant {source} : index
  {"".join(lines)}
  %joined = tensor.concat dim({dim}) {", ".join(pieces)} : ({turned}) -> {joined}
  return %joined, %turned0 : {joined}, {types[0][1]}
}}
"""


@pytest.mark.parametrize(("case", "element", "unknown"), pairwise(_ORDERS, _KINDS, [False, True]))
def test_order(case: str, element: str, unknown: bool) -> None:
    shape, order, dim = _ORDERS[case]
    shapes = [tuple(size + number * (at == order[dim]) for at, size in enumerate(shape))
              for number in range(3)]  # fmt: skip
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_text(shapes, case, element, unknown))
        assert _Anywhere().run(module.operation, PassContext(Report()))
        assert module.operation.verify()
        changed = str(module)
    assert f"tensor.concat dim({order[dim]})" in changed
    random = np.random.default_rng(0)
    values = [random.standard_normal(each).astype(_KINDS[element]) for each in shapes]
    turned = [np.transpose(value.astype(float), order) for value in values]
    wanted = np.concatenate([each * (1 + at % 2) for at, each in enumerate(turned)], dim)
    joined, first = compile_and_run(changed, values)
    assert rel_error(joined, wanted) < 1e-6
    assert rel_error(first, turned[0]) < 1e-6
