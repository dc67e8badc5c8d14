"""The contract for others' rules: a rule of a test's own, registered and checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import MAPS

from attnpass.driver.testing import check, decisions
from attnpass.ir import copied_attributes, element_type, fill_builtin_region
from attnpass.layout import rules as producers
from attnpass.layout.rules import Alternative, Demand, Request, Rule

TEXT = (
    MAPS
    + """
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>,
                %w: tensor<2x24x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %p = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>)
      outs(%f : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = linalg.elementwise <tanh> ins(%p : tensor<2x32x16xf32>) outs(%e : tensor<2x32x16xf32>)
      -> tensor<2x32x16xf32>
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32)
      outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
"""
)


class Elementwise(Rule):
    """`linalg.elementwise`, which no rule of the library knows; all dims must be axes."""

    ops = ("linalg.elementwise",)

    def match(self, op, number, demand):
        return [Alternative((Request(0, Demand(demand.layout)),))]

    def rewrite(self, op, demand, alternative, operands, build):
        (value,) = operands
        init = build.empty(demand.layout.sizes, element_type(value))
        attributes = copied_attributes(op)
        new = build.create(op.name, [init.type], [value, init], attributes, regions=1)
        fill_builtin_region(new)
        return new.results[0]


class Wrong(Elementwise):
    """The same rule, but it loses the function."""

    def rewrite(self, op, demand, alternative, operands, build):
        (value,) = operands
        return value


@pytest.fixture
def registered():
    """Registers rules for one test."""
    yield producers.register
    producers._registered.clear()
    producers.rules_for.cache_clear()


def test_without_the_rule_v_is_refused_with_the_reason() -> None:
    report = check(TEXT, phase="start")
    assert decisions(report) == ["refused"]
    assert "no rule moves the change through linalg.elementwise" in report.to_text()


def test_a_registered_rule_absorbs(registered) -> None:
    registered(Elementwise())
    report = check(TEXT, phase="start")
    assert decisions(report) == ["absorbed"]
    assert any("linalg.elementwise" in name for name in report.attentions[0].operands[-1].producers)


def by_hand(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What TEXT computes, in float64."""
    q, k, x, w = (array.astype(np.float64) for array in inputs)
    weights = np.exp(0.25 * q @ k.transpose(0, 2, 1))
    return [weights / weights.sum(-1, keepdims=True) @ np.tanh(x @ w)]


@pytest.mark.parametrize("reference", [None, by_hand])
def test_wrong_numbers_of_a_rule_are_seen(registered, reference) -> None:
    registered(Wrong())
    with pytest.raises(AssertionError, match=r"result 0 differs by .* after the passes"):
        check(TEXT, phase="start", reference=reference)


def test_a_reference_of_ones_own(registered) -> None:
    registered(Elementwise())
    assert decisions(check(TEXT, phase="start", reference=by_hand)) == ["absorbed"]
    with pytest.raises(AssertionError, match=r"shape \(2, 8, 16\), not \(8, 16\)"):
        check(TEXT, phase="start", reference=lambda inputs: [by_hand(inputs)[0][0]])
