"""Ops of ONNX itself that IREE 3.13 does not import, or gets wrong."""

from __future__ import annotations

import numpy as np
import onnx

from .op import TO_THE_END, DecomposedOp, Decomposition

_FLOAT, _INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
_UINT8, _INT32 = onnx.TensorProto.UINT8, onnx.TensorProto.INT32
_FLOATS = (_FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)


def _lrn(body: DecomposedOp) -> None:
    """IREE places windows of even sizes wrong."""
    x, size = body.input(0), body.attribute("size", 0)
    dims = body.dims(x)
    if dims is None:
        raise body.refusal("an input of an unknown number of dims")
    pads = np.zeros((2, len(dims)), int)
    pads[0, 1], pads[1, 1] = (size - 1) // 2, size // 2
    padded = body("Pad", body("Mul", x, x), body.number(pads.reshape(-1)))
    total = body.slice(padded, 1, 0, -(size - 1) or TO_THE_END)
    for start in range(1, size):
        end = start - size + 1 or TO_THE_END
        total = body("Add", total, body.slice(padded, 1, start, end))
    alpha = body.attribute("alpha", 1e-4) / size
    base = body(
        "Add", body("Mul", total, body.like(alpha, x)), body.like(body.attribute("bias", 1.0), x)
    )
    power = body("Pow", base, body.like(body.attribute("beta", 0.75), x))
    body.give(0, body("Div", x, power))


def _matmul(body: DecomposedOp) -> None:
    """IREE imports none of a vector and of matrices."""
    sides = [body.input(0), body.input(1)]
    ranks = [len(dims) if (dims := body.dims(side)) is not None else 0 for side in sides]
    if 1 not in ranks or max(ranks) < 3:
        return
    place = ranks.index(1)
    sides[place] = body("Unsqueeze", sides[place], body.number([place]))
    body.give(0, body("Squeeze", body("MatMul", *sides), body.number([place - 2])))


def _pad(body: DecomposedOp) -> None:
    """IREE takes none that cut, hangs on what wraps and has no program for mirrors."""
    dims, pads, filler = body.dims(body.input(0)), body.known(body.input(1)), body.input(2)
    mode = body.attribute("mode", b"constant")
    if dims is None or pads is None or body.input(3):
        return
    if (pads < 0).any():
        starts, ends = -np.minimum(pads, 0).reshape(2, -1)
        cut = body(
            "Slice",
            body.input(0),
            body.number(starts),
            body.number(np.where(ends > 0, -ends, TO_THE_END)),
        )
        body.give(0, body("Pad", cut, body.number(np.maximum(pads, 0)), filler, mode=mode))
    elif mode in (b"wrap", b"reflect"):
        value, step = body.input(0), 1 if mode == b"wrap" else -1
        for axis, (before, after) in enumerate(pads.reshape(2, -1).T.tolist()):
            size = dims[axis]
            if isinstance(size, int) and max(before, after) > size:
                raise body.refusal("pads that are wider than their dim")
            first, last = (-before, TO_THE_END) if step > 0 else (before, 0)
            parts = [body.slice(value, axis, first, last, step)] if before else []
            parts.append(value)
            first, last = (0, after) if step > 0 else (-2, -2 - after)
            parts += [body.slice(value, axis, first, last, step)] if after else []
            value = body("Concat", *parts, axis=axis) if before or after else value
        body.give(0, value)


def _grid_sample(body: DecomposedOp) -> None:
    """IREE reads beyond the image."""
    x, grid = body.input(0), body.input(1)
    dims = body.dims(x)
    mode = body.attribute("mode", b"linear")
    outside = body.attribute("padding_mode", b"zeros")
    if dims is None or len(dims) != 4 or not all(isinstance(size, int) for size in dims[2:]):
        raise body.refusal("an input that is no image of a known size")
    if mode not in (b"linear", b"bilinear", b"nearest") or outside not in (b"zeros", b"border"):
        raise body.refusal(f"the mode {mode.decode()} with {outside.decode()}")
    starts, parts = [], []
    for place, size in enumerate((dims[3], dims[2])):
        assert isinstance(size, int)
        at = body("Squeeze", body.slice(grid, -1, place, place + 1), body.number([-1]))
        at = body("Add", at, body.like(1.0, at))
        if body.attribute("align_corners", 0):
            at = body("Mul", at, body.like((size - 1) / 2, at))
        else:
            at = body("Sub", body("Mul", at, body.like(size / 2, at)), body.like(0.5, at))
        if outside == b"border":
            at = body("Clip", at, body.like(0.0, at), body.like(size - 1, at))
        start = body("Round" if mode == b"nearest" else "Floor", at)
        starts.append(start)
        parts.append(body("Sub", at, start))
    flat, total = body.reshape(x, [0, 0, -1]), ""
    sizes = body(
        "Concat", body.size(x, 0), body.size(x, 1), body("Shape", grid, start=1, end=3), axis=0
    )
    for corner in ((0, 0),) if mode == b"nearest" else ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight, index = "", ""
        for start, part, size, step in zip(
            starts[::-1], parts[::-1], dims[2:], corner[::-1], strict=True
        ):
            at = body("Add", start, body.like(step, start))
            low, high = body.like(0.0, at), body.like(float(size or 0) - 1, at)
            near = body("Clip", at, low, high)
            own = body("CastLike", body("Equal", near, at), at)
            if mode != b"nearest":
                share = part if step else body("Sub", body.like(1.0, part), part)
                own = body("Mul", own, share)
            weight = body("Mul", weight, own) if weight else own
            whole = body("Cast", near, to=_INT64)
            index = body("Add", body("Mul", index, body.number(size)), whole) if index else whole
        index = body.reshape(body("Unsqueeze", index, body.number([1])), [0, 1, -1])
        ends = body("Concat", body.size(x, 0), body.size(x, 1), body.number([1]), axis=0)
        taken = body("GatherElements", flat, body("Expand", index, ends), axis=2)
        taken = body("Reshape", taken, sizes)
        taken = body("Mul", taken, body("Unsqueeze", weight, body.number([1])))
        total = body("Add", total, taken) if total else taken
    body.give(0, total)


def _quantised_product(body: DecomposedOp) -> None:
    """IREE gets those of batches wrong."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (body.input(n) for n in range(8))
    dims = [body.dims(each) for each in (a, b)]
    if any(each is None or len(each) > 2 for each in dims):
        product = body("Cast", body("MatMulInteger", a, b, a_zero, b_zero), to=_FLOAT)
        factor = body("Cast", body("Mul", a_scale, b_scale), to=_FLOAT)
        made = body("CastLike", body("Mul", product, factor), scale)
        body.give(0, body("QuantizeLinear", made, scale, zero))


def _whole_product(body: DecomposedOp) -> None:
    """IREE takes unsigned bytes without a zero point for signed ones."""
    values, zeros = [body.input(0), body.input(1)], [body.input(2), body.input(3)]
    if not all(zeros) and _UINT8 in map(body.element, values):
        zeros = [
            zero or body("Cast", body.number(0), to=body.element(value))
            for value, zero in zip(values, zeros, strict=True)
        ]
        body.give(0, body("MatMulInteger", *values, *zeros))


def _recurrence(body: DecomposedOp) -> None:
    """IREE leaves the lengths of sequences and LSTM's peepholes out."""
    dims, lengths = body.dims(body.input(0)), body.input(4)
    steps = dims[1 if body.attribute("layout", 0) else 0] if dims else None
    known = body.known(lengths)
    if lengths and (known is None or (known != steps).any()):
        raise body.refusal("lengths of its sequences")
    if body.input(7):
        raise body.refusal("peepholes")


def _cast(body: DecomposedOp) -> None:
    """Floats become unsigned bytes by way of 32 bits: above 127 IREE's are 127."""
    wanted, value = body.attribute("to", 0), body.input(0)
    body.attribute("saturate", 1)
    if wanted == _UINT8 and body.element(value) in _FLOATS:
        body.give(0, body("Cast", body("Cast", value, to=_INT32), to=_UINT8))


def _unsigned(body: DecomposedOp) -> None:
    """Unsigned bytes in 32 bits: IREE takes them for signed."""
    count = len(body.node.input)
    values = [body.input(place) for place in range(count)]
    fmod = body.attribute("fmod", 0)
    if body.element(values[0]) == _UINT8:
        wide = [body("Cast", value, to=_INT32) if value else "" for value in values]
        more = {"fmod": fmod} if fmod else {}
        body.give(0, body("Cast", body(body.node.op_type, *wide, **more), to=_UINT8))


def _mod(body: DecomposedOp) -> None:
    """What floats leave has the sign of the first: IREE takes their quotient, of few digits."""
    one, other = body.input(0), body.input(1)
    if body.element(one) not in _FLOATS:
        return _unsigned(body)
    # Of floats IREE takes it without, too, as it does by Python's `%`.
    if body.attribute("fmod", 0):
        rest = body("Mod", body("Abs", one), body("Abs", other))
        body.give(0, body("Where", body("Less", one, body.like(0.0, one)), body("Neg", rest), rest))


def _max_pool(body: DecomposedOp) -> None:
    """IREE takes unsigned bytes for signed, and places are those in one padded image."""
    value = body.input(0)
    if body.output(1):
        raise body.refusal("the places of its maxima as a result")
    if body.element(value) == _UINT8:
        given = {each.name: body.attribute(each.name, None) for each in body.node.attribute}
        pooled = body("MaxPool", body("Cast", value, to=_FLOAT), **given)
        body.give(0, body("Cast", pooled, to=_UINT8))


def _negation(body: DecomposedOp) -> None:
    """IREE negates integers in f32, of 24 bits."""
    value = body.input(0)
    kind = body.element(value)
    if kind is not None and kind not in _FLOATS:
        body.give(0, body("Sub", body("Cast", body.number(0), to=kind), value))


def _softsign(body: DecomposedOp) -> None:
    x = body.input(0)
    body.give(0, body("Div", x, body("Add", body("Abs", x), body.like(1.0, x))))


def _unique(body: DecomposedOp) -> None:
    """IREE has no program, or crashes."""
    raise body.refusal("as many results as it finds")


def _equal(body: DecomposedOp) -> None:
    """IREE takes a tensor for equal to itself, NaN too."""
    one, other = body.input(0), body.input(1)
    if one == other and body.element(one) in _FLOATS:
        body.give(0, body("Not", body("IsNaN", one)))


def _reduce_prod(body: DecomposedOp) -> None:
    """Of dims that are known: one half times the other."""
    value = body.input(0)
    dims = body.dims(value)
    axes = body.attribute("axes", None)
    if body.input(1):
        axes = body.constant(body.input(1), "axes").tolist()
    if dims is None:
        raise body.refusal("an input of an unknown number of dims")
    if not axes:
        if body.attribute("noop_with_empty_axes", 0):
            return body.give(0, value)
        axes = list(range(len(dims)))
    axes = [axis % len(dims) for axis in axes]
    for axis in axes:
        left = dims[axis]
        if not isinstance(left, int) or not left:
            raise body.refusal("a product over a dim of unknown size")
        while left > 1:
            half, odd = left // 2, left % 2
            product = body(
                "Mul", body.slice(value, axis, 0, half), body.slice(value, axis, half, 2 * half)
            )
            rest = [body.slice(value, axis, left - 1, left)] if odd else []
            value = body("Concat", product, *rest, axis=axis) if odd else product
            left = half + odd
    if not body.attribute("keepdims", 1):
        value = body("Squeeze", value, body.number(axes))
    body.give(0, value)


def _tensor_scatter(body: DecomposedOp) -> None:
    """Writes to a cache from an index on that each row of the batch has."""
    past, update, starts = (body.input(place) for place in range(3))
    dims = body.dims(past)
    if dims is None:
        raise body.refusal("a cache of an unknown number of dims")
    axis = body.attribute("axis", -2) % len(dims)
    most, rows = body.size(past, axis), body.size(update, axis)
    zero, one = body.number(0), body.number(1)
    place = body("Range", zero, body("Squeeze", most), one)
    if starts:
        place = body("Sub", place, body("Unsqueeze", starts, body.number([1])))
    else:
        place = body("Unsqueeze", place, body.number([0]))
    if body.attribute("mode", b"linear") == b"circular":
        place = body("Mod", body("Add", place, most), most)
    inside = body("And", body("Less", place, rows), body("Not", body("Less", place, zero)))
    place = body("Max", body("Min", place, body("Sub", rows, one)), zero)
    others = [dim for dim in range(1, len(dims)) if dim != axis]
    if others:
        place = body("Unsqueeze", place, body.number(others))
        inside = body("Unsqueeze", inside, body.number(others))
    place = body("Expand", place, body("Shape", past))
    taken = body("GatherElements", update, place, axis=axis)
    body.give(0, body("Where", inside, taken, past))


DECOMPOSITIONS: dict[str, Decomposition] = {
    "Cast": _cast,
    "Clip": _unsigned,
    "Div": _unsigned,
    "Equal": _equal,
    "GRU": _recurrence,
    "GridSample": _grid_sample,
    "LRN": _lrn,
    "LSTM": _recurrence,
    "MatMul": _matmul,
    "MatMulInteger": _whole_product,
    "MaxPool": _max_pool,
    "Mod": _mod,
    "Neg": _negation,
    "Pad": _pad,
    "QLinearMatMul": _quantised_product,
    "RNN": _recurrence,
    "ReduceProd": _reduce_prod,
    "Softsign": _softsign,
    "TensorScatter": _tensor_scatter,
    "Unique": _unique,
}
