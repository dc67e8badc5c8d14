"""Rows of attention whose mask hides every key: which attention may have some, and zeros there.

IREE computes 0 / 0 for them. PyTorch, from which most models come, defines 0, and models count
on it: a batch that is padded on the left has such rows, and in the next layer a NaN in V spoils
every row of its sequence, whatever the mask says (0 * NaN).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from .attention import AttentionFacts
from .ir import Builder, defining_op, element_type, is_float, sizes_of
from .kernels.masks import Mask, find_mask

# A choice between constants stands nearer than this to attention.
_DEEPEST = 20
_SAME_ELEMENTS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")


def may_hide_rows(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of some rows but not of all others beside them.

    A mask that all rows share (decode, padded batches of an encoder) is not asked for: what it
    hides is a whole sequence that has no key, of which nothing is expected.
    """
    if facts.kind != "attention" or not facts.has_mask or len(facts.k2) != 1:
        return False
    rows = [dim for dim in facts.map_of("mask") if dim in facts.m and facts.sizes[dim] != 1]
    if not rows or facts.k2[0] not in facts.map_of("mask"):
        return False
    row = next((dim for dim in reversed(facts.map_of("query")) if dim in facts.m), rows[0])
    found = find_mask(facts, row)
    if isinstance(found, Mask) and found.kind != "operand":
        return found.kind == "window" and not _window_shows_all(facts, found, row)
    mask = facts.value("mask")
    return not (is_float(element_type(mask)) and _is_finite(mask, _DEEPEST))


def zero_hidden_rows(facts: AttentionFacts) -> None:
    """Gives the users of an attention its result with 0 in rows whose mask hides every key."""
    op, mask = facts.op, facts.value("mask")
    (result,) = op.results
    users = list(result.uses)
    build = Builder(op).after_operands([result])
    axis = facts.map_of("mask").index(facts.k2[0])
    seen = _any_seen(mask, axis, build)
    output = facts.map_of("output")
    dims = [dim for at, dim in enumerate(facts.map_of("mask")) if at != axis]
    places = tuple(None if dim is None else output.index(dim) for dim in dims)
    everywhere = tuple(range(len(output)))
    kind = element_type(result)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        some = inner.compare("ne", x[1], inner.constant_number(0, x[1].type))
        return [inner.select(some, x[0], inner.constant_float(0.0, kind))]

    init = build.empty(sizes_of(result), kind)
    new = build.generic([result, seen], [init], [everywhere, places, everywhere], body)[0]
    for use in users:
        use.owner.operands[use.operand_number] = new


def _any_seen(mask: ir.Value, axis: int, build: Builder) -> ir.Value:
    """1 where a row of the mask shows a key, 0 where not: the mask without its dim `axis`."""
    context = build.anchor.context
    i32 = ir.IntegerType.get_signless(32, context)
    sizes = [size for at, size in enumerate(sizes_of(mask)) if at != axis]
    zeros = build.fill(build.constant_number(0, i32), build.empty(sizes, i32))
    everywhere = tuple(range(len(sizes) + 1))
    kept = tuple(dim for dim in everywhere if dim != axis)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        shown = inner.create("arith.extui", [i32], [_shows(inner, x[0])]).results[0]
        return [inner.create("arith.maxui", [i32], [x[1], shown]).results[0]]

    return build.generic([mask], [zeros], [everywhere, kept], body)[0]


def _shows(build: Builder, element: ir.Value) -> ir.Value:
    """Whether an element of a mask lets its key be seen."""
    if is_float(element.type):
        return build.compare_floats("ogt", element, build.constant_float(-math.inf, element.type))
    if ir.IntegerType(element.type).width == 1:
        return element
    return build.compare("ne", element, build.constant_number(0, element.type))


def _window_shows_all(facts: AttentionFacts, mask: Mask, row: int) -> bool:
    """Whether each row has a key that is there in its window."""
    rows, keys = facts.sizes[row], facts.sizes[facts.k2[0]]
    if mask.diagonal + mask.behind < 0 or rows is None or keys is None:
        return False
    return rows - 1 - mask.behind <= keys - 1


def _is_finite(value: ir.Value, depth: int) -> bool:
    """Whether no element of a float tensor or scalar can be infinite, as far as constants and
    choices between them show it."""
    op = defining_op(value)
    if depth == 0:
        return False
    if op is None:
        given = _input_of(value)
        return given is not None and _is_finite(given, depth - 1)
    if op.name == "arith.constant":
        return _constant_is_finite(op)
    if op.name in _SAME_ELEMENTS:
        return _is_finite(op.operands[0], depth - 1)
    if op.name == "arith.select":
        return all(_is_finite(choice, depth - 1) for choice in list(op.operands)[1:])
    if op.name != "linalg.generic":
        return False
    result = list(op.results).index(value)
    yielded = list(op.regions[0].blocks[0].operations)[-1]
    return _is_finite(yielded.operands[result], depth - 1)


def _input_of(argument: ir.Value) -> ir.Value | None:
    """The operand of a `linalg.generic` whose elements its body gets as `argument`."""
    number, block = ir.BlockArgument(argument).arg_number, ir.BlockArgument(argument).owner
    op = block.owner.operation
    if op.name != "linalg.generic" or number >= len(op.operands) - len(op.results):
        return None
    return op.operands[number]


def _constant_is_finite(op: ir.Operation) -> bool:
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    return isinstance(attribute, ir.FloatAttr) and math.isfinite(attribute.value)
