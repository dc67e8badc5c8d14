"""What is made of a tensor, and by which ops."""

from __future__ import annotations

from dataclasses import dataclass, field

from iree.compiler import ir

from ..ir import defining_op, users
from ..ir.contractions import is_contraction

# Ops from the product with K to that with V.
_MOST_STEPS = 200


@dataclass
class Made:
    """Ops that compute something of a tensor: `ops`, and behind them `products`, whose results
    count as something else, and others that no softmax is made of."""

    ops: set[ir.Operation] = field(default_factory=set)
    products: list[ir.Operation] = field(default_factory=list)
    others: list[ir.Operation] = field(default_factory=list)

    def __contains__(self, value: ir.Value) -> bool:
        return defining_op(value) in self.ops


def made_of(value: ir.Value, last: ir.Operation | None = None) -> Made:
    """What is made of a tensor, as far as `last`; of more ops than a softmax has the last is one of
    `others`."""
    found = Made()
    source = defining_op(value)
    if source is not None:
        found.ops.add(source)
    pending = [value]
    while pending:
        for user in users(pending.pop()):
            known = user in found.ops or user in found.products or (last and user == last)
            if known or user.name == "tensor.dim":
                continue
            if is_contraction(user):
                found.products.append(user)
            elif not user.name.startswith(("linalg.", "tensor.")):
                found.others.append(user)
            elif len(found.ops) > _MOST_STEPS:
                found.others.append(user)
                return found
            else:
                found.ops.add(user)
                pending += user.results
    return found
