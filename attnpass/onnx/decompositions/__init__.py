"""Ops that IREE 3.13 does not import from ONNX, or gets wrong, as others of ONNX: each is a
function that writes the nodes in an op's place."""

from __future__ import annotations

from . import attention, fused, loops, standard
from .op import MICROSOFT, DecomposedOp

# An op of onnxruntime that has ONNX's own domain in many models.
_SIMPLIFIED = "SimplifiedLayerNormalization"
_DOMAINS = {
    "": {
        **standard.DECOMPOSITIONS,
        **loops.DECOMPOSITIONS,
        _SIMPLIFIED: fused.DECOMPOSITIONS[_SIMPLIFIED],
    },
    MICROSOFT: fused.DECOMPOSITIONS | attention.DECOMPOSITIONS,
}


def decompose(op: DecomposedOp) -> bool:
    """Writes the nodes in an op's place; whether there are some."""
    domain = "" if op.node.domain == "ai.onnx" else op.node.domain
    if decomposition := _DOMAINS.get(domain, {}).get(op.node.op_type):
        decomposition(op)
        if op.nodes:
            op.check()
    return bool(op.nodes)
