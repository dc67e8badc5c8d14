"""Wide heads cut in two: the part that a kernel takes, and the rest as an added mask.

Decode of absorbed latent attention (DeepSeek's) has keys of 512 + 64 elements, and V is the first
512. No tile of 576 divides among a workgroup, and to pad it to 1024 copies the whole cache at each
step. Scores of the last 64 elements, few rows of them, are a product of their own and added as a
mask, in f32; attention reads the others where they lie, and K and V in one.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ...attention.edit import edit
from ...attention.facts import AttentionFacts
from ...forms.decomposition import masked, product
from ...ir import Builder, defining_op, element_type, maps, ranked_shape, sizes_of
from ...machines import Target


def cut_heads(facts: AttentionFacts, target: Target) -> str | None:
    """Cuts the head dim of Q and K in two where attn-configure has a kernel for one part only."""
    head = target.cut_head(facts)
    if head is None or None in facts.map_of("output"):
        return None
    _cut(facts, head)
    rest = (facts.sizes[facts.k1[0]] or 0) - head
    return (
        f"head dim {head + rest} of Q and K is cut: {head} have a kernel, the scores of the last "
        f"{rest} are its mask"
    )


def _cut(facts: AttentionFacts, head: int) -> None:
    """Gives the users of an attention one over the first `head` elements of Q and K, under a mask
    of the scores of the others."""
    build = Builder(facts.op)
    first = {name: _part(facts, name, 0, head, build) for name in ("query", "key")}
    size = facts.sizes[facts.k1[0]]
    assert size is not None
    rest = [
        (_part(facts, name, head, size - head, build), facts.map_of(name))
        for name in ("query", "key")
    ]
    kept = [dim for dim in facts.map_of("output") if dim is not None and dim not in facts.n]
    dims = (*kept, *facts.k2)
    scores = product(facts, build, rest[0], rest[1], dims)
    made = edit(facts).mask(_mask(facts, scores, dims, build), dims)
    made.operand("query", first["query"]).operand("key", first["key"]).replace()


def _part(facts: AttentionFacts, name: str, start: int, count: int, build: Builder) -> ir.Value:
    """`count` elements of the heads of Q or K; where two tensors are joined so, one of them."""
    value = facts.value(name)
    axis, sizes = facts.map_of(name).index(facts.k1[0]), list(sizes_of(value))
    sizes[axis] = count
    joined = defining_op(value, "tensor.concat")
    if joined is not None:
        at = 0
        for operand in joined.operands:
            if at == start and tuple(sizes_of(operand)) == tuple(sizes):
                return operand
            at += ranked_shape(operand)[axis] or 0
    return build.extract_slice(value, [start if a == axis else 0 for a in range(len(sizes))], sizes)


def _mask(facts: AttentionFacts, scores: ir.Value, dims: Sequence[int], build: Builder) -> ir.Value:
    """The scores, in f32, scaled as attention scales its own, under its mask."""
    kind, masks = element_type(scores), list[tuple[ir.Value, maps.Positions]]()
    if facts.has_mask:
        places = [None if dim is None else dims.index(dim) for dim in facts.map_of("mask")]
        masks.append((facts.value("mask"), tuple(places)))

    def body(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        scaled = inner.mulf(x[0], inner.cast_float(facts.value("scale"), kind))
        return masked(inner, scaled, x[1]) if facts.has_mask else scaled

    return build.computed(sizes_of(scores), kind, body, scores, *masks)
