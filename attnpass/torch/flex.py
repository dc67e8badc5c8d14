"""FlexAttention written out: IREE 3.13's import takes few of them as an op."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

aten = torch.ops.aten
FLEX = torch.ops.higher_order.flex_attention


def write_out(program: ExportedProgram, kept: Sequence[str]) -> None:
    """Makes each FlexAttention products and a softmax, which attn-raise makes attention again, in
    place. New nodes have the entries of `meta` that are named in `kept`."""
    for node in list(program.graph.nodes):
        if node.target is FLEX:
            _write(node, kept)


def _function(node: torch.fx.Node, name: Any) -> torch.fx.GraphModule:
    return getattr(node.graph.owning_module, name.target)


def _write(node: torch.fx.Node, kept: Sequence[str]) -> None:
    """Traces what a FlexAttention computes, and puts the ops of that in its place."""
    query, key, value, score, blocks, scale, _, *tensors = node.args
    score_tensors, mask_tensors = (tuple(group) for group in (*tensors, (), ())[:2])
    score_function, mask_function = (_function(node, name) for name in (score, blocks[-1]))
    given = [query, key, value, scale, score_tensors, mask_tensors]
    # Sizes of tensors may be among them, and make the scale.
    places, spec = pytree.tree_flatten(given)
    operands = [place for place in places if isinstance(place, torch.fx.Node)]

    def attention(*values: Any) -> Any:
        known = dict(zip(operands, values, strict=True))
        leaves = [known.get(place, place) for place in places]
        q, k, v, scale, of_scores, of_masks = pytree.tree_unflatten(leaves, spec)
        return _attention(q, k, v, scale, score_function, of_scores, mask_function, of_masks)

    values = [operand.meta["val"] for operand in operands]
    with query.meta["val"].fake_mode, torch.no_grad():
        traced = make_fx(attention)(*values)
    known: dict[torch.fx.Node, Any] = {}
    rest = iter(operands)
    results: Sequence[Any] = ()
    with node.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                known[inner] = next(rest)
            elif inner.op == "output":
                results = [known[result] for result in inner.args[0]]
            else:
                known[inner] = node.graph.node_copy(inner, lambda old: known[old])
                known[inner].meta = {
                    **{name: node.meta[name] for name in kept if name in node.meta},
                    "val": inner.meta["val"],
                }
    for user in list(node.users):
        assert user.target is operator.getitem, "its results are a tuple"
        user.replace_all_uses_with(results[user.args[1]])
        node.graph.erase_node(user)
    node.graph.erase_node(node)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    scale: float,
    score_function: Any,
    score_tensors: Sequence[Any],
    mask_function: Any,
    mask_tensors: Sequence[Any],
) -> Any:
    """What PyTorch's own form without a kernel computes: the result, and of each row the logarithm
    of its sum and its largest score, both to the base of 2."""
    exact = torch.float64 if query.dtype == torch.float64 else torch.float32
    # Widened before they are repeated: repeats and casts are seen through in this order.
    key, value = (_of_all_heads(tensor, query) for tensor in (key.to(exact), value))
    scores = query.to(exact) @ key.transpose(-2, -1) * scale
    places = [torch.arange(size, device=scores.device) for size in scores.shape]
    scored = _over_all(score_function, 1, len(score_tensors))(scores, *places, *score_tensors)
    seen = _over_all(mask_function, 0, len(mask_tensors))(*places, *mask_tensors)
    scores = torch.where(seen, scored, float("-inf")).to(exact)
    weights = torch._safe_softmax(scores, -1)
    largest = scores.amax(-1)
    base = math.log(2)
    sums = torch.logsumexp(scores, -1) / base
    return weights.to(query.dtype) @ value, sums, largest / base


def _of_all_heads(tensor: Any, query: Any) -> Any:
    """Keys or values, repeated for the heads that share them, and for the batches."""
    batch, heads = query.shape[:2]
    if tensor.shape[1] != heads:
        groups = heads // tensor.shape[1]
        sizes = (tensor.shape[0], tensor.shape[1], groups, *tensor.shape[2:])
        tensor = tensor.unsqueeze(2).expand(sizes).flatten(1, 2)
    if tensor.shape[0] != batch:
        tensor = tensor.expand(batch, *tensor.shape[1:])
    return tensor


def _over_all(function: Any, scores: int, tensors: int) -> Any:
    """A function of one score (`scores` 1, or 0) and its place (batch, head, row, key), and so
    many tensors, as one of all scores and places."""
    rest = (None,) * tensors
    for dims in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, *[None] * 3),
    ):
        function = torch.vmap(function, in_dims=(*(0,) * scores, *dims, *rest))
    return function
