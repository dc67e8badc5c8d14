"""Keeps IREE from moving a V that we left, where its flag for that cannot be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..attention import find
from ..ir import Builder, DynamicSize, SizeProduct, defining_op, sizes_of

if TYPE_CHECKING:
    from iree.compiler import ir

_BARRIER = "iree_tensor_ext.compute_barrier.start"


def keep_v_layouts(module: ir.Operation) -> None:
    """Puts a compute barrier on the V of each attention that has k2 not innermost.

    IREE's pass gives up at a barrier; later phases move reshapes past it and drop it.
    """
    with module.context:
        for facts in find(module):
            value = facts.value("value")
            producer = defining_op(value)
            if facts.is_innermost("value", facts.k2) or producer is None:
                continue
            if producer.name == _BARRIER:
                continue
            build = Builder(facts.op)
            dynamic = [
                build.size(size)
                for size in sizes_of(value)
                if isinstance(size, DynamicSize | SizeProduct)
            ]
            barrier = build.create(_BARRIER, [value.type], [value, *dynamic])
            facts.op.operands[facts.index("value")] = barrier.results[0]
