"""Running sums, and what else scans make: which dim they run along, and what they combine."""

from __future__ import annotations

from iree.compiler import ir

from .attributes import known_attribute
from .bodies import body_of, body_ops
from .queries import is_used

SCAN = "iree_linalg_ext.scan"


def scanned_dim(op: ir.Operation) -> int:
    """The dim that a scan runs along."""
    return ir.IntegerAttr(op.attributes["dimension"]).value


def running_step(op: ir.Operation) -> str:
    """The name of the one op of two numbers by which a scan makes each of its results of the one
    before and the element at its own place; '' for another op, and where its totals are read."""
    inclusive = known_attribute(op, "inclusive") if op.name == SCAN else None
    if inclusive is None or not ir.BoolAttr(inclusive).value or is_used(op.results[1]):
        return ""
    steps = body_ops(op)
    alone = len(steps) == 2 and {*steps[0].operands} == {*body_of(op).arguments}
    return steps[0].name if alone else ""
