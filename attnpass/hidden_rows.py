"""Rows of attention whose mask hides every key: which attention may have some, and zeros there.

IREE computes 0 / 0 for them. PyTorch, from which most models come, defines 0, and models count
on it: a batch that is padded on the left has such rows, and in the next layer a NaN in V spoils
every row of its sequence, whatever the mask says (0 * NaN).

Models also hide keys by the lowest finite number (`torch.finfo(torch.float32).min`). A row of
nothing else is the mean of V in PyTorch, since adding scores does not change that number, and NaN
in IREE, which multiplies it by log2(e) and so makes it infinite. A number that is not quite as low
does the same without.
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
# Times log2(e), finite numbers below the first are none any more; the second takes their place.
_TOO_LOW, _LOW = -2.35e38, -1e38
_SAME_ELEMENTS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
_COMPUTING = ("arith.addf", "arith.subf", "arith.mulf", "arith.negf")
# What makes each float of floats at its place, or takes it as it is.
_ELEMENTWISE = frozenset(
    {
        *_SAME_ELEMENTS,
        *_COMPUTING,
        "tensor.extract_slice",
        "tensor.insert_slice",
        "tensor.concat",
        "tensor.pad",
        "linalg.broadcast",
        "linalg.transpose",
        "linalg.fill",
        "arith.select",
        "arith.maximumf",
        "arith.minimumf",
        "arith.maxnumf",
        "arith.minnumf",
        "arith.extf",
        "arith.truncf",
    }
)


def may_hide_rows(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of some rows but not of all others beside them.

    The mask of a single row (decode) is not asked for: what it hides is a whole sequence that has
    no key, of which nothing is expected.
    """
    row = _row_of_mask(facts)
    if row is None:
        return False
    found = find_mask(facts, row)
    if isinstance(found, Mask) and found.kind != "operand":
        return found.kind == "window" and not _window_shows_all(facts, found, row)
    mask = facts.value("mask")
    return not (is_float(element_type(mask)) and _is_finite(mask, _DEEPEST))


def may_be_too_low(facts: AttentionFacts) -> bool:
    """Whether the mask could hide all keys of a row by numbers that log2(e) makes infinite: one
    of the caller's, or one with such a constant."""
    row = _row_of_mask(facts)
    if row is None or str(element_type(facts.value("mask"))) not in ("f32", "bf16"):
        return False
    found = find_mask(facts, row)
    if isinstance(found, Mask) and found.kind != "operand":
        return False
    return _holds_too_low(facts.value("mask"), _DEEPEST)


def raise_mask(facts: AttentionFacts) -> None:
    """Has an attention read its mask with numbers that log2(e) makes infinite a little higher."""
    op, mask, kind = facts.op, facts.value("mask"), element_type(facts.value("mask"))
    build = Builder(op)

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        below = inner.compare_floats("olt", x[0], inner.constant_float(_TOO_LOW, kind))
        finite = inner.compare_floats("ogt", x[0], inner.constant_float(-math.inf, kind))
        both = inner.create("arith.andi", [below.type], [below, finite]).results[0]
        return [inner.select(both, inner.constant_float(_LOW, kind), x[0])]

    everywhere = tuple(range(len(sizes_of(mask))))
    init = build.empty(sizes_of(mask), kind)
    raised = build.generic([mask], [init], [everywhere, everywhere], body)[0]
    op.operands[facts.index("mask")] = raised


def _row_of_mask(facts: AttentionFacts) -> int | None:
    """The dim of rows, where the mask could hide all keys of some, or of all in a sequence."""
    if facts.kind != "attention" or not facts.has_mask or len(facts.k2) != 1 or not facts.m:
        return None
    rows = [dim for dim in facts.map_of("mask") if dim in facts.m]
    # Those before the last are heads that share K and V.
    rows = [dim for dim in rows or facts.m[-1:] if facts.sizes[dim] != 1]
    if not rows or facts.k2[0] not in facts.map_of("mask"):
        return None
    return rows[-1]


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


def _holds_too_low(value: ir.Value, depth: int, callers: bool = True) -> bool:
    """Whether a float tensor or scalar could hold a finite number that log2(e) makes infinite:
    such a constant, looked for behind what works on single elements, or with `callers` a number
    of the caller's. What is computed of those is a bias, not a mask."""
    op = defining_op(value)
    if depth == 0:
        return False
    if op is None:
        if ir.BlockArgument(value).owner.owner.name in ("func.func", "util.func"):
            return callers
        given = _input_of(value)
        return given is not None and _holds_too_low(given, depth - 1, callers)
    if op.name == "arith.constant":
        number = _number_of(op)
        return number is not None and -math.inf < number < _TOO_LOW
    if op.name == "hal.tensor.import":
        return callers
    operands = list(op.operands)
    if op.name == "linalg.generic":
        kinds = {str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])}
        result = list(op.results).index(value)
        yielded = list(op.regions[0].blocks[0].operations)[-1]
        operands = [] if any("reduction" in kind for kind in kinds) else [yielded.operands[result]]
    elif op.name not in _ELEMENTWISE:
        return False
    floats = [one for one in operands if is_float(element_type(one))]
    callers &= op.name not in _COMPUTING
    return any(_holds_too_low(one, depth - 1, callers) for one in floats)


def _input_of(argument: ir.Value) -> ir.Value | None:
    """The operand of a `linalg.generic` whose elements its body gets as `argument`."""
    number, block = ir.BlockArgument(argument).arg_number, ir.BlockArgument(argument).owner
    op = block.owner.operation
    if op.name != "linalg.generic" or number >= len(op.operands) - len(op.results):
        return None
    return op.operands[number]


def _constant_is_finite(op: ir.Operation) -> bool:
    number = _number_of(op)
    return number is not None and math.isfinite(number)


def _number_of(op: ir.Operation) -> float | None:
    """The number that a constant of floats holds, if it is one for all elements."""
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None
