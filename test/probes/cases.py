"""The probes, and why some passes have none."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import key_subgroups
import known_cases
import modules
import numpy as np
from attention_case import Case
from attention_form import Form
from flex import FLEX, flex_case
from helpers import CPU
from latent_cache import LATENT_CACHE
from odd_norm import ODD_NORM
from probe import CRASHED, FAILED, WRONG, Place, Probe, of_form

# What is no pass of its own is mended by attn-compile whatever passes it runs.
ANY = "canonicalize"
DECOMPOSE = "attn-decompose{only=wrong}"
# The least attention of one head, rows by their features.
ONE = ("md", "kd", "kn", "mn")
STARTS = {"maxima": "bm", "sums": "bm"}
NOT_SORTED = "lowers loops in this order to wrong numbers"
NOT_PAIRED = "takes summed dims by their places"


def sizes(**given: int) -> tuple[tuple[str, int], ...]:
    return tuple(given.items())


interpreted = functools.partial(of_form, place="interpreted")
compiled = functools.partial(of_form, expected=FAILED, place="compiled")


def random(*shapes: tuple[int, ...], kind: type = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(kind) for shape in shapes]


def of_product(sums: str, passes: str, *shapes: tuple[int, ...], **more: Any) -> Probe:
    """A probe of one product in f16, or `kind`; `text` stands in for the named product."""
    pair = random(*shapes, kind=more.pop("kind", np.float16))
    text = more.pop("text", "") or modules.product(sums, *pair)
    wanted = lambda: [np.einsum(sums, *(one.astype(np.float64) for one in pair))]  # noqa: E731
    return Probe(text, passes, place="interpreted", inputs=pair, wanted=wanted, **more)


def of_known(name: str, passes: str, **more: Any) -> Probe:
    """A probe of a module in test/e2e/known."""
    case = known_cases.known(name)
    text = case.text.replace(f"@{case.function}(", "@main(")
    return Probe(text, passes, inputs=case.inputs, wanted=case.wanted, **more)


def _flex() -> Probe:
    inputs, wanted = flex_case()
    others = "attn-mask-positions,attn-natural-scores"
    return Probe(FLEX, "attn-flex-masks", inputs=inputs, wanted=lambda: [wanted], beside=others)


def _norm() -> Probe:
    (x,) = (6 * one for one in random((4, 4096), kind=np.float16))
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    return Probe(modules.LAYER_NORM, "attn-wide-imports", inputs=[x], wanted=lambda: [wanted])


def _product_of_ones() -> Probe:
    inputs = [np.ones((4, 4096), np.float16), np.ones((4096, 4), np.float16)]
    wanted = np.full((4, 4), 4096.0)
    return Probe(modules.ONES, "attn-wide-imports", inputs=inputs, wanted=lambda: [wanted])


def _joined() -> Probe:
    (x,) = random((2, 3, 4, 8))
    wanted = x.reshape(-1, 32)
    return Probe(modules.JOINED, "attn-join-reshapes", FAILED, inputs=[x], wanted=lambda: [wanted])


def _einsum() -> Probe:
    x, w = random((2, 3, 4), (4, 8))
    wanted = x.astype(np.float64) @ w
    name = "attn-plain-einsums"
    return Probe(modules.EINSUM, name, FAILED, inputs=[x, w], wanted=lambda: [wanted])


def _instance_norm() -> Probe:
    x, w, b = random((2, 4, 9), (4,), (4,))
    wide = x.astype(np.float64)
    normed = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    wanted = normed * w[:, None] + b[:, None]
    name = "attn-instance-norms"
    others, inputs = "attn-store-sums", [x, w, b]
    return Probe(modules.INSTANCE_NORM, name, inputs=inputs, wanted=lambda: [wanted], beside=others)


def _mask_without_heads() -> Probe:
    q, mask = random((1, 2, 3, 4), (3, 3))
    wide = q.astype(np.float64)
    weights = np.exp(wide @ wide.swapaxes(-1, -2) / 2 + mask)
    wanted = weights / weights.sum(-1, keepdims=True) @ wide
    name, error = "attn-equal-ranks", "tensor.collapse_shape"
    inputs, module = [q, mask], modules.MASK_WITHOUT_HEADS
    return Probe(module, name, FAILED, inputs=inputs, wanted=lambda: [wanted], error=error)


def _number_factor() -> Probe:
    (x,) = random((64, 128))
    name, error = "attn-lone-factors", "failed to distribute"
    return Probe(
        *(modules.NUMBER_FACTOR, name, FAILED, "interpreted"),
        inputs=[x],
        wanted=lambda: [x.astype(np.float64).sum(-1) / 2],
        error=error,
    )


def _powers() -> Probe:
    x, y = (np.array(each, np.float32) for each in ((-2, -2, 0, 3), (3, 2, 0, 2)))
    wanted = np.array((-8.0, 4, 1, 9))
    return Probe(modules.POWERS, "attn-signed-powers", inputs=[x, y], wanted=lambda: [wanted])


def _places() -> Probe:
    """With equal ones, NaN, and a row of which nothing is larger than where IREE begins."""
    x = np.random.default_rng(0).integers(-50, 50, (3, 512)).astype(np.float16)
    x[1, 300], x[2] = np.nan, -np.inf
    name, error = "attn-arg-maxima", "failed to distribute"
    return Probe(
        modules.ROWS_ARGMAX,
        name,
        FAILED,
        "interpreted",
        inputs=[x],
        wanted=lambda: [x.argmax(1)],
        error=error,
    )


def _truths() -> Probe:
    x = np.random.default_rng(0).random((3, 1024)) < 0.3
    name, error, wanted = "attn-integer-sums", "failed to distribute", x.sum(1)
    return Probe(
        modules.TRUTHS,
        name,
        FAILED,
        "interpreted",
        inputs=[x],
        wanted=lambda: [wanted],
        error=error,
    )


def _logarithms() -> Probe:
    x = np.array((0.1, 1, 7, 1e5), np.float32)
    wanted = np.log10(x.astype(np.float64))
    name, inputs = "attn-linked-functions", [x]
    return Probe(modules.LOGARITHMS, name, FAILED, inputs=inputs, wanted=lambda: [wanted])


def _angles() -> Probe:
    x = np.array((0.1, 1e3, -7e4, 1e7), np.float32)
    wanted = np.sin(x.astype(np.float64))
    return Probe(modules.LARGE_ANGLES, "attn-exact-angles", inputs=[x], wanted=lambda: [wanted])


def _softmax() -> Probe:
    (x,) = random((4, 7), kind=np.float16)
    powers = np.exp(x.astype(np.float64))
    wanted = powers / powers.sum(-1, keepdims=True)
    given = {"inputs": [x], "wanted": lambda: [wanted], "error": "undefined symbol: fmaxf"}
    return Probe(modules.SOFTMAX_OF_F16, "attn-half-maxima", FAILED, **given)


def _scores() -> Probe:
    x, mask = random((2, 6), (2, 6))
    scores = x + mask
    powers = np.exp(scores.astype(np.float64))
    return Probe(
        modules.SCORES,
        "attn-store-sums",
        FAILED,
        inputs=[x, mask],
        wanted=lambda: [scores, powers / powers.sum(-1, keepdims=True)],
        flags=["--iree-opt-level=O2"],
        error="restricted to workgroup distributed contexts",
    )


def _crossed(place: Place) -> Probe:
    (x,) = random((20, 3))
    sums = x.astype(np.float64).sum(-1)
    wanted = np.exp(sums)[:, None] - sums
    name = "attn-store-crossed"
    return Probe(modules.CROSSED, name, place=place, inputs=[x], wanted=lambda: [wanted])


def _row_factors() -> Probe:
    x, row = random((8, 9), (8,))
    factors = np.exp(row.astype(np.float64))
    exps = np.exp(x * factors[:, None])
    wanted = [exps / exps.sum(1, keepdims=True), factors]
    return Probe(
        modules.ROW_FACTORS,
        "attn-store-vectors",
        FAILED,
        inputs=[x, row],
        wanted=lambda: wanted,
        flags=["--iree-opt-level=O2"],
        error="workgroup distributed contexts",
    )


def _near_keys() -> Probe:
    (x,) = random((2, 3, 20))
    powers = np.exp(np.where(np.arange(20) < 7, x, -5.0).astype(np.float64))
    return Probe(
        modules.NEAR_KEYS,
        "attn-store-sums",
        FAILED,
        flags=["--iree-opt-level=O2"],
        error="exceeded stack allocation limit",
        inputs=[x],
        wanted=lambda: [powers / powers.sum(-1, keepdims=True)],
    )


def _gathered() -> Probe:
    q, *pools = random((5, 8), (48, 8), (48, 8))
    at = np.random.default_rng(1).permutation(48)[:10].astype(np.int32)
    key, value = (pool.astype(np.float64)[at] for pool in pools)
    weights = np.exp(q @ key.T * 0.25)
    wanted = weights / weights.sum(-1, keepdims=True) @ value
    inputs = [q, *pools, at[:, None]]
    return Probe(modules.GATHERED, "attn-gather-indices", inputs=inputs, wanted=lambda: [wanted])


def _gathered_by(places: Sequence[int], rows: Sequence[int], **more: Any) -> Probe:
    (source,) = random((4,) * len(places) + (6,))
    at = np.random.default_rng(1).integers(0, 4, (*rows, len(places))).astype(np.int32)
    wanted = source[tuple(at[..., places.index(dim)] for dim in range(len(places)))]
    given = {"inputs": [source, at], "wanted": lambda: [wanted], **more}
    return Probe(modules.gathered_by(places, rows), "attn-gather-indices", **given)


def _returned() -> Probe:
    old, new, at = np.ones((4, 2), np.float32), np.zeros((2, 2), np.float32), np.array([[3], [1]])
    wanted = [old, np.array([[1, 1], [0, 0], [1, 1], [0, 0]])]
    inputs = [old.copy(), new, at.astype(np.int32)]
    return Probe(modules.RETURNED, "attn-own-buffers", inputs=inputs, wanted=lambda: wanted)


def _loop() -> Probe:
    start, state = random((4, 8), (4, 8))
    wanted = modules.after_loop(start, state)
    return Probe(modules.LOOP, "attn-own-buffers", inputs=[start, state], wanted=lambda: [wanted])


def _condition() -> Probe:
    inputs, wanted = [np.ones(4, np.float32), np.array(1, np.int32)], np.full(4, 128.0)
    given = {"inputs": inputs, "wanted": lambda: [wanted], "error": "materialization"}
    return Probe(modules.CONDITION, "attn-loop-carried", FAILED, **given)


def _loop_start() -> Probe:
    x = np.arange(4, dtype=np.float32)
    given = {"inputs": [x], "wanted": lambda: [9 * x * x], "error": "circular dependency"}
    return Probe(modules.LOOP_START, "attn-loop-starts", FAILED, **given)


def _tables() -> Probe:
    x = np.arange(4, dtype=np.float32)
    given = {"inputs": [x, np.float32([9])], "wanted": lambda: [x, 2 * x, np.float32([0, 9, 4, 6])]}
    return Probe(modules.TABLES, "attn-cloned-results", **given)


def _switch() -> Probe:
    x = np.arange(4, dtype=np.float32)
    given = {"inputs": [x, np.array(1, np.int32)], "wanted": lambda: [2 * x]}
    return Probe(modules.SWITCH, "attn-plain-switches", FAILED, error="each region", **given)


def _stopping_loop() -> Probe:
    x = np.arange(4, dtype=np.float32)
    given = {"inputs": [x, np.array(1)], "wanted": lambda: [4 * x]}
    return Probe(modules.STOPPING_LOOP, "attn-stopping-loops", **given)


def _moved_up() -> Probe:
    (cache,) = random((2, 16, 8))
    wanted = np.concatenate([cache[:, :1], cache[:, :-1]], 1)
    return Probe(modules.MOVED_UP, "attn-own-buffers", inputs=[cache], wanted=lambda: [wanted])


def _narrow_indices() -> Probe:
    cache, new = random((2, 16, 8), (2, 1, 8))
    wanted = cache.copy()
    wanted[:, -3:-2] = new
    given = {"inputs": [cache, new, np.array([-3], np.int32)], "wanted": lambda: [wanted]}
    error = "operand types should have the same type"
    return Probe(modules.NARROW_INDICES, "attn-plain-indices", FAILED, error=error, **given)


def _sequences() -> Probe:
    cache, new = random((2, 3, 16, 8), (2, 3, 1, 8))
    wanted, at = cache.copy(), np.array([[0, 4, 0], [0, 9, 0]], np.int32)
    wanted[0, :, 4:5], wanted[1, :, 9:10] = new
    given = {"inputs": [cache, at, new], "wanted": lambda: [wanted]}
    flags = ["--iree-input-type=stablehlo"]
    error = "expected indices to be equal to batch rank"
    return Probe(
        modules.SEQUENCES, "attn-bounded-scatters", FAILED, error=error, flags=flags, **given
    )


def _slice(**more: Any) -> Probe:
    source, weights = random((8, 16, 64), (64,))
    wanted = source[:, 6:10, ::-1] * weights
    given = {"inputs": [source, weights], "wanted": lambda: [wanted], **more}
    return Probe(modules.REVERSED_SLICE, "attn-gather-slices", **given)


def _column() -> Probe:
    (x,) = random((4, 64, 3))
    wanted = x[:, ::-1, 1]
    error = "unrealized_conversion_cast"
    given = {"inputs": [x], "wanted": lambda: [wanted], "error": error}
    return Probe(modules.REVERSED_COLUMN, "attn-gather-slices", FAILED, **given)


def _subgroups() -> Probe:
    given = key_subgroups.inputs("f16")
    right = lambda: [key_subgroups.wanted(given)]  # noqa: E731
    text = key_subgroups.attention("f16")
    beside = "attn-normal-form"
    return Probe(
        text, "attn-lone-lanes", place="interpreted", inputs=given, wanted=right, beside=beside
    )


def _scattered(**more: Any) -> Probe:
    rows, at, cache = random((4, 8), (4,), (16, 8), kind=np.float16)
    at = np.array([3, 0, 7, 2])
    wanted = cache.copy()
    wanted[2 * at] = rows
    level = ("--iree-opt-level=O2",)
    given = {"inputs": [rows, at, cache], "wanted": lambda: [wanted], "flags": level, **more}
    return Probe(modules.SCATTERED, "attn-scatter-indices", **given)


def _repeats(operand: str, expected: str) -> Probe:
    keys, columns = (10, 8) if operand == "k" else (20, 4)
    q, k, v = inputs = random((4, 6, 16), (4, keys, 16), (4, 20, columns))
    k, v = k.repeat(20 // keys, 1), v.repeat(8 // columns, 2)
    weights = np.exp(q.astype(np.float64) @ k.transpose(0, 2, 1) * 0.25)
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    return Probe(
        modules.repeated(operand),
        "attn-join-dims",
        expected,
        inputs=inputs,
        wanted=lambda: [wanted],
    )


def _summed() -> Probe:
    inputs = random((1024, 512), (1024, 512))
    total = np.add(*inputs, dtype=np.float64)
    spread = total - total.mean(-1, keepdims=True)
    normed = spread / np.sqrt((spread**2).mean(-1, keepdims=True) + 1e-5)
    return Probe(
        modules.SUMMED,
        "attn-store-sums",
        FAILED,
        flags=["--iree-opt-level=O2"],
        error="exceeded stack allocation limit",
        inputs=inputs,
        wanted=lambda: [total, normed],
    )


def _other_order(passes: str) -> Probe:
    form = Form("md", "kd", "kn", "nm", sizes=sizes(m=192, d=16, k=16, n=64))
    return interpreted(form, passes, FAILED, beside="attn-configure", error=NOT_SORTED)


SMALL = sizes(b=2, m=3, d=4, e=8, k=8, n=8)
PROBES = {
    # attnpass/repair
    "globals stored in globals": Probe(
        modules.OF_A_GLOBAL,
        "attn-kept-stores",
        inputs=[np.float32([5, 6])],
        wanted=lambda: [np.float32([3, 4])],
    ),
    "copies of what a kernel without inputs makes": _tables(),
    "choices among cases": _switch(),
    "small numbers of f64 in f16": Probe(
        modules.HALF_OF_DOUBLE,
        "attn-double-halves",
        beside="attn-small-halves",
        flags=["--iree-input-demote-f64-to-f32=false"],
        inputs=[np.array([1e-5, 2e-6, -3e-7, 2e-5])],
        wanted=lambda: [np.array([1e-5, 2e-6, -3e-7, 2e-5], np.float16)],
    ),
    "infinite numbers": Probe(
        modules.INFINITE,
        "attn-plain-tests",
        FAILED,
        inputs=[np.float32([1, np.inf, -np.inf, np.nan])],
        wanted=lambda: [np.array([0, 1, 1, 0])],
        error="math.isinf",
    ),
    "loops of ONNX with a condition": _stopping_loop(),
    "mask functions of FlexAttention": _flex(),
    "masks joined by &": Probe(
        modules.TENSOR_AND,
        "attn-known-ops",
        FAILED,
        inputs=[np.array([3, 4, 6]), np.array([5, 8, 7])],
        wanted=lambda: [np.array([1, 0, 6])],
        error="failed to legalize operation",
    ),
    "masks of all heads": _mask_without_heads(),
    "numbers that f32 has not": Probe(
        modules.CUT_NUMBER,
        "attn-nearest-numbers",
        inputs=[np.float32([1.3217558399823195, 2.0])],
        # Integers have all their digits.
        wanted=lambda: [np.float32([1, 2]), np.full(4, 1)],
    ),
    "integers divided and rounded down": Probe(
        modules.FLOOR_DIVISIONS,
        "attn-exact-integers",
        inputs=[np.array([33554433, -33554434, 7]), np.array([33554434, 33554433, -2])],
        wanted=lambda: [np.array([0, -2, -4])],
    ),
    "constants compared": Probe(
        modules.COMPARED,
        "attn-compared-numbers",
        inputs=[np.float32([4, 5, 6])],
        wanted=lambda: [np.float32([4, 5, 6])],
    ),
    "constants times integers below 0": Probe(
        modules.SIGNED,
        "attn-compared-numbers",
        inputs=[np.float32([4, 5, 6])],
        wanted=lambda: [np.float32([-12, -15, -18])],
    ),
    "rests of constants": Probe(
        modules.RESTS,
        "attn-compared-numbers",
        inputs=[np.float32([4, 5, 6])],
        wanted=lambda: [np.float32([8, 10, 12])],
    ),
    "NaN that is bounded": Probe(
        modules.BOUNDED,
        "attn-kept-nans",
        inputs=[np.float32([np.nan, 2, -3, 0]), np.float32([1, 1, np.nan, np.nan])],
        wanted=lambda: [np.float32([5, 1, -1, 0]), np.float32([5, 2, 5, 5])],
    ),
    "pads below 0": Probe(
        modules.SHIFTED,
        "attn-plain-pads",
        inputs=[np.float32([4, 5, 6, 7, 8])],
        wanted=lambda: [np.float32([0, 4, 5, 6, 7])],
    ),
    "rolls beyond a dim": Probe(
        modules.ROLLED,
        "attn-plain-pads",
        inputs=[np.float32([4, 5, 6])],
        wanted=lambda: [np.float32([6, 4, 5])],
    ),
    "pixels as parts of 255": Probe(
        modules.PIXELS,
        "attn-wide-bytes",
        inputs=[np.array([0, 51, 204, 255], np.uint8)],
        wanted=lambda: [np.float32([0, 0.2, 0.8, 1])],
    ),
    "a window at one place": Probe(
        modules.POOLED,
        "attn-degenerate-loops",
        FAILED,
        inputs=[np.float32([1, 2, 3, 4, 5]), np.float32([1, 1, 2])],
        wanted=lambda: [np.float32([9])],
        error="inferred input/output operand",
    ),
    "a product over a dim of size 0": Probe(
        modules.NOTHING,
        "attn-degenerate-loops",
        CRASHED,
        inputs=[np.zeros(shape, np.float32) for shape in ((2, 0), (0, 3))]
        + [np.float32([[1, 2, 3]] * 2)],
        wanted=lambda: [np.float32([[1, 2, 3]] * 2)],
    ),
    "a branch by an element of 16 bits": Probe(
        modules.BRANCH_BY_I16,
        "attn-narrow-scalars",
        inputs=[np.array([5, 5, -1], np.int16), np.float32([1, 2])],
        wanted=lambda: [np.float32([1, 2])],
    ),
    "rows read backwards": Probe(
        modules.BACKWARDS,
        "attn-degenerate-loops",
        FAILED,
        inputs=[np.arange(80, dtype=np.float32).reshape(4, 20)],
        wanted=lambda: [2 * np.arange(80).reshape(4, 20)[:, ::-1]],
        error="inferred input/output operand",
    ),
    "samples beside an image": Probe(
        modules.SAMPLED,
        "attn-bounded-grids",
        inputs=[np.float32([[[[4, 5, 6, 7]]]]), np.float32([[[[-1, 0], [0, 0], [1, 0]]]])],
        wanted=lambda: [np.float32([[[[4, 5.5, 7]]]])],
    ),
    "GELU by tanh": Probe(modules.GELU_TANH, "attn-gelu-tanh", r"7\.977240e-01", shown_at="flow"),
    "integers that become bf16": Probe(
        modules.INTEGERS_TO_BF16,
        "attn-integers-to-bf16",
        FAILED,
        "compiled",
        flags=CPU,
        error="undefined symbol: __truncsfbf2",
    ),
    "small numbers of f16": Probe(
        modules.SMALL_HALVES,
        "attn-small-halves",
        inputs=[np.float32([6e-5, -3e-5, 1e-5, 2e-5])],
        wanted=lambda: [np.float16([6e-5, -3e-5, 1e-5, 2e-5])],
    ),
    "softmaxes of f16": _softmax(),
    "scores beside their softmax": _scores(),
    "the least of positive integers": Probe(
        modules.LEAST,
        "attn-signed-bounds",
        place="interpreted",
        inputs=[np.arange(7, 7 + 1024, dtype=np.int32).reshape(2, 512)],
        wanted=lambda: [np.array([7, 519])],
    ),
    "the largest of negative integers": Probe(
        modules.LEAST.replace("minsi", "maxsi").replace("2147483647", "-2147483648"),
        "attn-signed-bounds",
        place="interpreted",
        inputs=[np.arange(-2000, 1024 - 2000, dtype=np.int32).reshape(2, 512)],
        wanted=lambda: [np.array([-1489, -977])],
    ),
    "places of the largest on CUDA": _places(),
    "truths counted on CUDA": _truths(),
    "places of NaN": Probe(
        modules.ARGMAX,
        "attn-arg-maxima",
        inputs=[np.array([1, np.nan], np.float32)],
        wanted=lambda: [np.array(1)],
    ),
    "norms of 16 bits": _norm(),
    "numbers beyond f16": Probe(
        modules.HIDDEN,
        "attn-wide-imports",
        inputs=[np.zeros(8, np.float16)],
        wanted=lambda: [np.zeros(8)],
    ),
    "steps of functions of f16": Probe(
        modules.SILU,
        "attn-wide-arithmetic",
        r"math\.exp %\S+ : f16",
        "compiled",
        shown_at="flow",
    ),
    "products of f16 from JAX": _product_of_ones(),
    "products by an algorithm from JAX": Probe(
        modules.BY_ALGORITHM,
        "attn-wide-imports",
        FAILED,
        "compiled",
        flags=CPU,
        error="failed to legalize operation 'stablehlo.dot_general'",
    ),
    "heads joined to rows from ONNX": _joined(),
    "powers of negative numbers": _powers(),
    "powers of negative numbers by integers": Probe(
        modules.WHOLE_POWERS,
        "attn-signed-powers",
        inputs=[np.array([-2, -1.5, 0, 3], np.float32), np.array([3, -2, 0, 2], np.int32)],
        wanted=lambda: [np.array([-8, 1 / 2.25, 1, 9])],
    ),
    "integers divided by 0": Probe(
        modules.QUOTIENTS,
        "attn-safe-divisions",
        CRASHED,
        inputs=[np.array([7, 7, -7, 0], np.int64), np.array([0, 2, -1, 3], np.int64)],
        wanted=lambda: [np.array([-1, 3, 7, 0]), np.array([7, 1, 0, 0])],
    ),
    "logarithms to base 10": _logarithms(),
    "logarithms of constants on CUDA": Probe(
        modules.EVALUATED_LOGARITHMS,
        "attn-link-constants",
        FAILED,
        "compiled",
        error="undefined symbol: log10f",
    ),
    "sines of large angles": _angles(),
    "norms of images of any size from ONNX": _instance_norm(),
    "einsums of any batch and length from ONNX": _einsum(),
    "softmax over unknown keys": _near_keys(),
    "sums read in two orders": _crossed("cpu"),
    "sums read in two orders on CUDA": _crossed("interpreted"),
    "numbers about their mean, for a caller": Probe(
        modules.CENTERED,
        "attn-store-sums",
        FAILED,
        "compiled",
        flags=["--iree-opt-level=O2"],
        error="failed to distribute",
    ),
    "norms of embeddings that are read again": Probe(
        modules.EMBEDDED,
        "attn-store-gathers",
        FAILED,
        place="compiled",
        flags=["--iree-opt-level=O2"],
        error="failed to distribute",
    ),
    "norms of sums that are read again": _summed(),
    "vectors that a softmax and a caller read": _row_factors(),
    "rows that see no key": of_form(Form(mask="mk", hidden="all"), "attn-fully-masked-rows"),
    "rows hidden by the lowest number": of_form(
        Form(mask="mk", mask_kind="f32", hidden="lowest"), "attn-lowest-masks"
    ),
    "scores by position": of_form(
        Case(2, 24, 40, 16, score="causal"),
        "attn-mask-positions",
        FAILED,
        error="'linalg.index' op expected dim",
    ),
    "soft-caps": of_form(Case(2, 24, 40, 16, score="cap"), "attn-natural-scores"),
    "gathers by one index": _gathered(),
    "gathers by two indices of three dims": _gathered_by(
        (0, 1), (2, 3, 2), expected=FAILED, error="'tensor.expand_shape' op expected reassociation"
    ),
    "gathers by three indices in a cycle": _gathered_by((2, 0, 1), (5,)),
    "slices read by index": _slice(
        expected=FAILED, place="interpreted", error="takes a view to have no gaps"
    ),
    "slices read by index, on a GPU": _slice(place="gpu"),
    "columns read by index": _column(),
    "globals that begin equal": of_known("iree-two-zero-globals-alias", "attn-own-globals"),
    "arguments that are returned": _returned(),
    "writes in loops": _loop(),
    "loops that carry their condition": _condition(),
    "starts of loops read behind them": _loop_start(),
    "writes of what is read in the same tensor": _moved_up(),
    "writes by indices of 32 bits": _narrow_indices(),
    "writes of JAX with batching dims": _sequences(),
    "unsigned integers of JAX reversed": Probe(
        modules.REVERSED,
        "attn-unsigned-reverses",
        FAILED,
        inputs=[np.array([1, 2, 3, 255], np.uint8)],
        wanted=lambda: [np.array([255, 3, 2, 1])],
        error="marked illegal",
        flags=["--iree-input-type=stablehlo"],
    ),
    "Q and K of two narrow types": interpreted(
        Form(kinds=("f16", "bf16", "f32", "f32")),
        "attn-same-types",
        FAILED,
        error="lhs and rhs have same element type|failed to verify",
    ),
    "arithmetic on fp8 numbers": Probe(
        modules.SUM_OF_FP8,
        "attn-fp8-casts",
        FAILED,
        "compiled",
        error="fadd|unrealized_conversion_cast",
    ),
    "repeated results": Probe(
        modules.REPEATED, "attn-store-results", FAILED, "compiled", error="failed to distribute"
    ),
    "scatters of computed indices": _scattered(
        expected=r"arith.muli(?:(?!func\.func)[\s\S])*iree_linalg_ext.scatter",
        place="compiled",
        shown_at="flow",
    ),
    "scatters of computed indices, on a GPU": _scattered(place="gpu"),
    "scatters of many computed indices": Probe(
        modules.SCATTERED.replace("<4x", "<5000x").replace("(true)", "(false)"),
        "attn-scatter-indices",
        FAILED,
        "compiled",
        flags=(*CPU, "--iree-opt-level=O2"),
        error="stack allocation",
    ),
    "named products of f32": of_known("cuda-032", "attn-generic-products", place="interpreted"),
    "products with the second factor first": of_product(
        "bkn,mk->bmn", "attn-order-factors", (2, 8, 32), (16, 8)
    ),
    "factors without summed dims": of_product(
        "bkn,n->bn",
        "attn-lone-factors",
        (2, 64, 48),
        (48,),
        kind=np.float32,
        text=modules.LONE_FACTOR,
        expected=FAILED,
        error="failed to distribute",
    ),
    "numbers that multiply what is summed": _number_factor(),
    "sums of what no tensor holds": Probe(
        modules.LONE_TERMS,
        "attn-read-terms",
        inputs=random((4, 6)),
        wanted=lambda: [np.full(4, 6.0), np.arange(4) * 6.0],
    ),
    "sums over two dims, one odd": of_product(
        "mkl,lk->m", "attn-lone-lanes", (4, 64, 3), (3, 64), kind=np.float32
    ),
    "attention over more subgroups than lanes": _subgroups(),
    "sums that fill no tile": of_product(
        "bkm,bkn->bmn", "attn-whole-sums", (3, 24, 16), (3, 24, 64)
    ),
    "sums of unknown size": of_product(
        "bdhmg,bhkd->ghbmk",
        "attn-whole-sums",
        (2, 3, 1, 1, 2),
        (2, 1, 1, 3),
        text=modules.UNKNOWN_SUM,
    ),
    "summed dims in two orders": interpreted(
        Form("bmde", "bked", sizes=SMALL), "attn-order-products", FAILED, error=NOT_PAIRED
    ),
    "dispatches of no workgroup": Probe(
        modules.UNKNOWN_ROWS,
        "attn-empty-dispatches",
        r"(?<!\{\n      )hal.command_buffer.dispatch<",
        "compiled",
        shown_at="hal",
    ),
    "dispatches of no workgroup, on a GPU": Probe(
        modules.UNKNOWN_ROWS,
        "attn-empty-dispatches",
        FAILED,
        "gpu",
        inputs=[np.zeros((0, 64), np.float32)],
        wanted=lambda: [np.zeros((0, 64))],
    ),
    "scatters into slices of constants": Probe(
        modules.SCATTERED_SLICE,
        "attn-keep-apart",
        FAILED,
        inputs=[np.ones((2, 1), np.float32)],
        wanted=lambda: [np.ones((2, 1))],
    ),
    # Other rooms
    "dims in another order than the result's": _other_order("attn-normal-form"),
    "packed masks": interpreted(
        Form(*ONE, mask="mk", mask_kind="packed", sizes=sizes(k=16)),
        "attn-normal-form",
        FAILED,
        error="unresolved source materialization",
    ),
    "dims in another order behind IREE's folding": _other_order("attn-order-dims"),
    "keys of unknown number": interpreted(
        Form(*ONE, dynamic="k", sizes=sizes(m=4, k=5, d=8, n=8)), "attn-mask-dynamic-keys"
    ),
    "repeats of keys": _repeats("k", WRONG),
    "repeats of V's columns": _repeats("v", CRASHED),
    "norms of odd width, on AMD GPUs": Probe(
        ODD_NORM,
        "attn-tiled-sums",
        r'"reduction"\]} ins[^\n]*<\?xf32>\) \{\n',
        "compiled",
        flags=(
            "--iree-hal-target-device=hip",
            "--iree-rocm-target=gfx942",
            "--iree-opt-level=O2",
        ),
        shown_at="executable-configurations",
    ),
    "tiles of an unknown number": Probe(
        modules.UNKNOWN_TILES,
        "attn-keep-tiles",
        r"linalg.generic.*tensor<\?x64xf16>",
        "compiled",
        flags=("--iree-opt-level=O2",),
        shown_at="flow",
    ),
    "a batch of one in K and V alone": Probe(
        LATENT_CACHE,
        "attn-drop-unit-dims",
        r"linalg_ext.attention .* ins\(.*tensor<1x40x256xf32>",
        "compiled",
        flags=CPU,
        shown_at="flow",
    ),
    # machines/known_faults.py
    "results of two types": of_form(
        Form(kinds=("f16",) * 4, **STARTS), DECOMPOSE, FAILED, error="type of yield operand"
    ),
    "rows summed": of_form(Form("bmgd", "bkd", "bkn", "bmn"), DECOMPOSE, CRASHED),
    "a result dim of its own": of_form(Form("bmd", "bkd", "bkn", "bmno"), DECOMPOSE, CRASHED),
    "a single row's maximum": compiled(
        Case(1, 1, 16, 16, online=True), DECOMPOSE, flags=CPU, error="memref.store"
    ),
    "output beyond the maxima's rows": of_form(
        Form("bmgd", "bkd", "bkn", "bmgn", **STARTS), DECOMPOSE
    ),
    "given sums": of_form(Form(**STARTS, sizes=sizes(n=64)), DECOMPOSE),
    "wide heads": of_form(Form(*ONE, sizes=sizes(d=320, n=16, m=8)), DECOMPOSE),
    "heads of unknown size": of_form(
        Form(*ONE, dynamic="d", sizes=sizes(d=64)), DECOMPOSE, FAILED, error="vector.mask"
    ),
    "key dims that fill no tiles": of_form(
        Form("bmd", "bkld", "blkn", "bmn", sizes=sizes(d=130, k=6, l=3, n=64, m=8)), DECOMPOSE
    ),
    "wide heads on CUDA": interpreted(Form(*ONE, sizes=sizes(d=256, n=16, m=1, k=32)), DECOMPOSE),
    "heads of unknown size on CUDA": interpreted(
        Form(*ONE, dynamic="d", sizes=sizes(d=64)), DECOMPOSE, CRASHED
    ),
    "no head dim on CUDA": compiled(Form("bm", "bk", "bkn", "bmn"), DECOMPOSE, expected=CRASHED),
    "a single row over odd keys on CUDA": compiled(
        Form(*ONE, sizes=sizes(m=1, k=7, d=64, n=64)), DECOMPOSE, error="failed to distribute"
    ),
    # Where no pass of its own mends it
    "V transposed unasked": Probe(
        modules.COMPUTED_V,
        ANY,
        r"iree_linalg_ext.attention.* ins\(.*tensor<2x12x40xf32>",
        flags=CPU,
        shown_at="flow",
        mended_in="attention/barrier.py",
    ),
    "sm_90 without a description": compiled(
        Form(),
        ANY,
        flags=("--iree-cuda-target=sm_90", "--compile-to=executable-targets"),
        error="missing GPU target",
        mended_in="driver/cuda_target.py",
    ),
}
_SLOW = "IREE's code is right without it, but slow: timings tell"
# Passes that mend something, or that the table of steps gives a fault of IREE as the reason for.
NOT_PROBED = {
    "attn-vectorize": _SLOW,
    "attn-vectorize-products": _SLOW,
    "attn-vectorize-scans": _SLOW,
    "attn-vectorize-windows": _SLOW,
    "attn-read-codes": _SLOW,
    "attn-channels-last": _SLOW,
    "attn-integer-products": _SLOW,
    "attn-fuse-pieces": _SLOW,
    "attn-hold-workspace": _SLOW,
    "attn-cut-groups": _SLOW,
    "attn-split-depths": _SLOW,
    "attn-join-repeats": _SLOW,
    "attn-match-reshapes": _SLOW,
    "attn-merge-copies": _SLOW,
    "attn-moves": _SLOW,
    "attn-order-concats": _SLOW,
    "attn-own-results": _SLOW,
    "attn-short-rows": _SLOW,
    "attn-full-workgroups": _SLOW,
    "attn-slice-heads": _SLOW,
    "attn-spin-waits": _SLOW,
    "attn-assemble-kernels": _SLOW,
    "attn-split-sums": _SLOW,
    "attn-place-pieces": _SLOW,
    "attn-scatter-rows": _SLOW,
    "attn-split-indices": _SLOW,
    "attn-rank-sorts": _SLOW,
    "attn-launch-constants": _SLOW,
    "attn-select-writes": _SLOW,
    "attn-split-products": _SLOW,
    "attn-conv-products": _SLOW,
    "attn-gather-weights": _SLOW,
    "attn-find-writes": _SLOW,
    "attn-sum-scans": _SLOW,
    "attn-cut-heads": _SLOW,
    "attn-hardware-exp2": _SLOW,
    "attn-pad-heads": _SLOW,
    "attn-pad-keys": _SLOW,
    "attn-shared-memory": _SLOW,
    "attn-tile-dynamic": _SLOW,
    "attn-tile-products": _SLOW,
    "attn-read-repeats": _SLOW,
    "attn-spread-images": _SLOW,
    "attn-window-lines": _SLOW,
}
