"""attn-linked-functions: CPUs: functions that IREE has no code for are written out in others."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, scalar_number
from ..passes import OpPass

# log(erfc(x) e^(x^2) / t) by powers of 2 t - 1, t = 2 / (2 + x): Chebyshev's polynomial for t in
# (0, 1). Errors of erfc are below 1e-15.
_ERFC = (
    -0.6717940840566923, 0.6726432239776567, 0.04734330684190443, -0.0468956102311753,
    -0.009872689366389959, 0.008824938557060623, 0.001758933557799016, -0.002345812500482853,
    -0.00014624686337800336, 0.000673678795580235, -9.37350311709817e-05, -0.0001743029472030762,
    7.14010141275703e-05, 3.17451797494374e-05, -3.0187884551394243e-05, 1.3772664134464417e-07,
    8.562623420121286e-06, -2.947986876998259e-06, -1.27231190486887e-06, 1.2500276612569754e-06,
    -1.6849800720653297e-07, -2.495832761719667e-07, 1.5334345920908177e-07, 1.4448658046252676e-09,
    -3.9171820510271855e-08, 1.1172352263623759e-08, 4.06088214696972e-09, -1.8902306008944537e-09,
)  # fmt: skip
# erf(x) / x in f32: a polynomial of x^2 by another. Where x is cut off erf is 1.
_SHORT_ERF = (
    (1.12837915, 0.187202805, 0.0524068122, 0.00364877288,
     0.000285953001, 2.12532203e-06),
    (1, 0.49923708, 0.112858903, 0.0147345301,
     0.00114092057, 3.8921266e-05),
)  # fmt: skip
_SHORT_ERF_IS_ONE = 3.829862833
# atan(x) / x by powers of x^2, for x up to 1, to 3e-9.
_SHORT_ATAN = (
    0.9999999971605454, -0.3333327629198255, 0.19998075281148714, -0.14260016082820906,
    0.10932341501303093, -0.08349724968301601, 0.05708955593030619, -0.030351864785781172,
    0.010487649254949306, -0.0017011700640685973,
)  # fmt: skip
# asinh(x) / x likewise, for x up to 0.6, to 4e-11.
_SHORT_ASINH = (
    0.9999999999664586, -0.1666666547130035, 0.07499929441206218, -0.04462681240653528,
    0.030199924536563196, -0.021221250158170342, 0.01311365390897601, -0.004821023433225689,
)  # fmt: skip
# (log(1 + x) - x + x^2 / 2) / x^3 likewise, for 1 + x between the roots of 1/2 and of 2, to 3e-8 of
# the logarithm.
_SHORT_LOG = (
    0.333333283662796, -0.25000298023223877, 0.20001468062400818, -0.16642247140407562,
    0.14202174544334412, -0.12972238659858704, 0.12712307274341583, -0.08101558685302734,
)  # fmt: skip
# log2((1 + s) / (1 - s)) / s by powers of s^2, for numbers between these roots, too, to 6e-12, and
# 2^x by those of x, from -1/2 to 1/2, to 3e-9: Chebyshev's.
_LOG2 = (
    2.885390081777851, 0.9617966941122649, 0.5770779426603044,
    0.41220922406110433, 0.31990680380701336, 0.28288502340748234,
)  # fmt: skip
_EXP2 = (
    1.0, 0.6931472067028326, 0.24022650922288757, 0.05550327226670302,
    0.009618056678524637, 0.0013400428177615838, 0.0001546144469856913,
)  # fmt: skip
# Bits of f32 and f64 behind their exponents, that of 1 in f32, and exponents that are beyond f32's,
# whose halves are not.
_SHORT_DIGITS, _DIGITS, _EXPONENT_OF_ONE, _MOST_EXPONENT = 23, 52, 127, 200.0
# Above, 1 - erf is less than the last digit of 1; and so for tanh.
_ERF_IS_ONE, _TANH_IS_ONE, _ERFC_IS_ZERO = 6.5, 20.0, 30.0
# From where on what is left out of a logarithm is less than a last digit.
_HYPERBOLIC_IS_LOG = 1e8
# What is below is 0 to IREE's code for CPUs.
_LEAST = sys.float_info.min
# Half of pi in parts of 33 bits, whose products with numbers of 20 bits are exact, and its rest.
_HALF_PI = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21)


@dataclass(frozen=True)
class ComputedFloat:
    """A float that ops compute, with the operators of Python's; `build` puts them in place."""

    build: Builder
    value: ir.Value

    def of(self, name: str, *others: ComputedFloat | float) -> ComputedFloat:
        """An op of this number and others of its type."""
        values = [x.value if isinstance(x, ComputedFloat) else x for x in others]
        return ComputedFloat(self.build, self.build.apply(name, self.value, *values))

    def __add__(self, other: ComputedFloat | float) -> ComputedFloat:
        return self.of("arith.addf", other)

    def __sub__(self, other: ComputedFloat | float) -> ComputedFloat:
        return self.of("arith.subf", other)

    def __mul__(self, other: ComputedFloat | float) -> ComputedFloat:
        return self.of("arith.mulf", other)

    def __truediv__(self, other: ComputedFloat | float) -> ComputedFloat:
        return self.of("arith.divf", other)

    def __neg__(self) -> ComputedFloat:
        return self.of("arith.negf")

    def __abs__(self) -> ComputedFloat:
        return self.of("math.absf")

    def constant(self, number: float) -> ComputedFloat:
        return ComputedFloat(self.build, self.build.constant_float(number, self.value.type))

    def if_(
        self, predicate: str, limit: ComputedFloat | float, yes: ComputedFloat, no: ComputedFloat
    ) -> ComputedFloat:
        """`yes` where this number compares so with a limit, else `no`."""
        number = limit.value if isinstance(limit, ComputedFloat) else limit
        holds = self.build.compare_floats(predicate, self.value, number)
        return ComputedFloat(self.build, self.build.select(holds, yes.value, no.value))

    def signed_as(self, other: ComputedFloat) -> ComputedFloat:
        return self.of("math.copysign", other)

    def within(self, limit: float) -> ComputedFloat:
        """This number or, where it is outside, `limit` with its sign; NaN stays."""
        low, high = self.constant(-limit), self.constant(limit)
        above = self.if_("olt", low, low, self)
        return above.if_("ogt", high, high, above)

    def powers(self, factors: Sequence[float]) -> ComputedFloat:
        """The sum of powers of this number, from the 0th on, by these factors."""
        total = self.constant(factors[-1])
        for factor in factors[-2::-1]:
            total = total * self + factor
        return total


def _log10(x: ComputedFloat) -> ComputedFloat:
    return x.of("math.log") * (1 / math.log(10))


def _log2(x: ComputedFloat) -> ComputedFloat:
    return x.of("math.log") * (1 / math.log(2))


def _trunc(x: ComputedFloat) -> ComputedFloat:
    # By a choice: of `copysign` LLVM would make `trunc` again.
    size = abs(x).of("math.floor")
    return x.constant(1.0).signed_as(x).if_("olt", 0.0, -size, size)


def _ceil(x: ComputedFloat) -> ComputedFloat:
    return -(-x).of("math.floor")


def _expm1(x: ComputedFloat) -> ComputedFloat:
    power = x.of("math.exp")
    less = power - 1.0
    # What e^x was rounded to is the power of another number, which log gives.
    near = power.if_("oeq", 1.0, x, less * x / power.of("math.log"))
    return abs(x).if_("olt", 1.0, near, less)


def _log1p(x: ComputedFloat) -> ComputedFloat:
    more = x + 1.0
    log = more.of("math.log")
    # As much as 1 + x was rounded by, the logarithm is another number's.
    near = more.if_("oeq", 1.0, x, log * x / (more - 1.0))
    return abs(x).if_("olt", 1.0, near, log)


def _tanh(x: ComputedFloat) -> ComputedFloat:
    y = abs(x).of("arith.minimumf", _TANH_IS_ONE) * -2.0
    less = _expm1(y)
    return (less / (less + 2.0)).signed_as(x)


def _near_erf(x: ComputedFloat) -> ComputedFloat:
    """erf of numbers near 0."""
    factors = [
        2 / math.sqrt(math.pi) * (-1) ** n / math.factorial(n) / (2 * n + 1) for n in range(12)
    ]
    return x * (x * x).powers(factors)


def _far_erfc(size: ComputedFloat) -> ComputedFloat:
    """1 - erf of positive numbers."""
    t = size.constant(2.0) / (size + 2.0)
    return t * ((t * 2.0 - 1.0).powers(_ERFC) - size * size).of("math.exp")


def _erf(x: ComputedFloat) -> ComputedFloat:
    rest = _far_erfc(abs(x).of("arith.minimumf", _ERF_IS_ONE))
    far = (x.constant(1.0) - rest).signed_as(x)
    return abs(x).if_("olt", 0.5, _near_erf(x), far)


def _short_erf(x: ComputedFloat) -> ComputedFloat:
    # Products and sums are one op where a CPU has it; of a fused one IREE makes calls elsewhere.
    y = x.within(_SHORT_ERF_IS_ONE)
    above, below = map((y * y).powers, _SHORT_ERF)
    return (y * above / below).within(1.0)


def _erfc(x: ComputedFloat) -> ComputedFloat:
    rest = _far_erfc(abs(x).of("arith.minimumf", _ERFC_IS_ZERO))
    far = x.if_("olt", 0.0, x.constant(2.0) - rest, rest)
    return abs(x).if_("olt", 0.5, x.constant(1.0) - _near_erf(x), far)


def _is_double(x: ComputedFloat) -> bool:
    return isinstance(x.value.type, ir.F64Type)


def _atan(x: ComputedFloat) -> ComputedFloat:
    size, one = abs(x), x.constant(1.0)
    inverse = one / size
    turn = size.if_("ogt", 1.0, inverse, size)
    factors: Sequence[float] = _SHORT_ATAN
    if _is_double(x):
        factors = [4 * (-1) ** n / (2 * n + 1) for n in range(13)]
        for _ in range(2):
            # The tangent of half of the angle.
            turn = turn / ((turn * turn + 1.0).of("math.sqrt") + 1.0)
    angle = turn * (turn * turn).powers(factors)
    return size.if_("ogt", 1.0, x.constant(math.pi / 2) - angle, angle).signed_as(x)


def _atan2(y: ComputedFloat, x: ComputedFloat) -> ComputedFloat:
    high, wide, one = abs(y), abs(x), x.constant(1.0)
    most = high.of("arith.maximumf", wide)
    ratio = high.of("arith.minimumf", wide) / most
    # 0 by 0, and two that are infinite.
    ratio = most.if_("oeq", 0.0, most, high.if_("oeq", wide, one, ratio))
    angle = _atan(ratio)
    angle = high.if_("ogt", wide, x.constant(math.pi / 2) - angle, angle)
    angle = one.signed_as(x).if_("olt", 0.0, x.constant(math.pi) - angle, angle)
    return angle.signed_as(y)


def _asin(x: ComputedFloat) -> ComputedFloat:
    one = x.constant(1.0)
    return _atan(x / (((one - x) * (one + x)).of("math.sqrt") + 1.0)) * 2.0


def _acos(x: ComputedFloat) -> ComputedFloat:
    one = x.constant(1.0)
    return _atan(((one - x) / (one + x)).of("math.sqrt")) * 2.0


def _turned(x: ComputedFloat, quarters: float) -> ComputedFloat:
    """The sine of an angle that comes so many quarters of a turn behind another."""
    count = (x * (2 / math.pi)).of("math.roundeven")
    rest = x
    for part in _HALF_PI:
        rest = rest - count * part
    square = rest * rest
    sine = rest * square.powers([(-1) ** n / math.factorial(2 * n + 1) for n in range(9)])
    cosine = square.powers([(-1) ** n / math.factorial(2 * n) for n in range(10)])
    count = count + quarters
    # Which quarter of a turn it is, and whether that is an odd one.
    count = count - (count * 0.25).of("math.floor") * 4.0
    odd = count - (count * 0.5).of("math.floor") * 2.0
    value = odd.if_("oeq", 0.0, sine, cosine)
    return count.if_("oge", 2.0, -value, value)


def _sin(x: ComputedFloat) -> ComputedFloat:
    # With 0's sign.
    return x.if_("oeq", 0.0, x, _turned(x, 0.0))


def _cos(x: ComputedFloat) -> ComputedFloat:
    return _turned(x, 1.0)


def _tan(x: ComputedFloat) -> ComputedFloat:
    return _sin(x) / _cos(x)


def _cbrt(x: ComputedFloat) -> ComputedFloat:
    size = abs(x)
    root = (size.of("math.log") / 3.0).of("math.exp")
    # A step of Newton's; 0 and infinity are their own roots.
    root = root - (root * root * root - size) / (root * root * 3.0)
    root = size.if_("oge", _LEAST, root, size)
    return size.if_("olt", math.inf, root, size).signed_as(x)


def _asinh(x: ComputedFloat) -> ComputedFloat:
    size = abs(x)
    if not _is_double(x):
        # Half of what the logarithm is taken of.
        root = (size + (size * size + 1.0).of("math.sqrt")) * 0.5
        near, count = _near_one(size.if_("olt", _HYPERBOLIC_IS_LOG, root, size))
        rest = near - 1.0
        square = rest * rest
        log = rest + square * (rest * rest.powers(_SHORT_LOG) - 0.5) + (count + 1.0) * math.log(2)
        log = size.if_("olt", math.inf, log, size)
        return size.if_("olt", 0.6, x * (x * x).powers(_SHORT_ASINH), log.signed_as(x))
    square = size.of("arith.minimumf", _HYPERBOLIC_IS_LOG) * size
    near = _log1p(size + square / ((square + 1.0).of("math.sqrt") + 1.0))
    return size.if_("olt", _HYPERBOLIC_IS_LOG, near, size.of("math.log") + math.log(2)).signed_as(x)


def _acosh(x: ComputedFloat) -> ComputedFloat:
    more = x - 1.0
    near = _log1p(more + (more * (more + 2.0)).of("math.sqrt"))
    value = x.if_("olt", _HYPERBOLIC_IS_LOG, near, x.of("math.log") + math.log(2))
    return x.if_("oge", 1.0, value, x.constant(math.nan))


def _atanh(x: ComputedFloat) -> ComputedFloat:
    size = abs(x)
    return (_log1p(size * 2.0 / (size.constant(1.0) - size)) * 0.5).signed_as(x)


def _sinh(x: ComputedFloat) -> ComputedFloat:
    size, terms = abs(x), 9 if _is_double(x) else 6
    near = x * (x * x).powers([1 / math.factorial(2 * n + 1) for n in range(terms)])
    half = _half_exp(size)
    far = half - x.constant(0.25) / half
    return size.if_("olt", 1.0, near, far.signed_as(x))


def _cosh(x: ComputedFloat) -> ComputedFloat:
    half = _half_exp(abs(x))
    return half + x.constant(0.25) / half


def _half_exp(x: ComputedFloat) -> ComputedFloat:
    """e^x / 2, where e^x itself is beyond the type, too."""
    root = (x * 0.5).of("math.exp")
    return root * (root * 0.5)


def _clamp(x: ComputedFloat, least: ComputedFloat, most: ComputedFloat) -> ComputedFloat:
    return x.of("arith.maximumf", least).of("arith.minimumf", most)


def _remainder(x: ComputedFloat, y: ComputedFloat) -> ComputedFloat:
    size, step = abs(x), abs(y)
    rest = size
    # Of quotients that no float is exactly the second time takes what the first has left.
    for _ in range(2):
        rest = _less_product(rest, (rest / step).of("math.floor"), step)
    rest = rest.if_("olt", 0.0, rest + step, rest)
    rest = rest.if_("oge", step, rest - step, rest)
    rest = abs(rest).if_("olt", step, rest, x.constant(math.nan))
    return size.if_("olt", step, size, rest).signed_as(x)


def _less_product(x: ComputedFloat, one: ComputedFloat, other: ComputedFloat) -> ComputedFloat:
    """x - one * other, the product in twice the digits (Dekker's)."""
    product = one * other
    high, wide = _high(one), _high(other)
    low, narrow = one - high, other - wide
    more = (high * wide - product) + high * narrow + low * wide + low * narrow
    return (x - product) - more


def _high(x: ComputedFloat) -> ComputedFloat:
    """The first half of a number's digits."""
    shifted = x * float(2**27 + 1)
    return shifted - (shifted - x)


def _power(x: ComputedFloat, y: ComputedFloat) -> ComputedFloat:
    """x^y in f32, by an exponent in f64, or in f32 where that is y."""
    build = x.build
    if scalar_number(x.value) == 2.0:
        return _exp2(y)
    f64 = ir.F64Type.get(build.anchor.context)
    near, count = _near_one(x)
    # Of infinity, 0, negative numbers and NaN the logarithm has no digits, but these exponents.
    count = x.if_("olt", math.inf, count, x)
    none = x.if_("oeq", 0.0, x.constant(-math.inf), x.constant(math.nan))
    count = x.if_("ogt", 0.0, count, none)
    near, count, y = (
        ComputedFloat(build, build.cast_float(n.value, f64)) for n in (near, count, y)
    )
    turn = (near - 1.0) / (near + 1.0)
    return _exp2((turn * (turn * turn).powers(_LOG2) + count) * y)


def _near_one(x: ComputedFloat) -> tuple[ComputedFloat, ComputedFloat]:
    """A positive number in f32 by a power of 2, between the roots of 1/2 and of 2, and the
    exponent of that."""
    build, i32 = x.build, ir.IntegerType.get_signless(32, x.build.anchor.context)
    bits = build.convert("arith.bitcast", x.value, i32)
    count = build.subi(bits, _bits(math.sqrt(0.5), "<f"))
    count = build.apply("arith.shrsi", count, _SHORT_DIGITS)
    near = build.subi(bits, build.apply("arith.shli", count, _SHORT_DIGITS))
    kind = x.value.type
    return (
        ComputedFloat(build, build.convert("arith.bitcast", near, kind)),
        ComputedFloat(build, build.convert("arith.sitofp", count, kind)),
    )


def _exp2(x: ComputedFloat) -> ComputedFloat:
    """2^x in f32, of an exponent in f32 or f64, to a last digit."""
    build = x.build
    f32, i32, i64 = (
        ir.F32Type.get(build.anchor.context),
        *(ir.IntegerType.get_signless(bits, build.anchor.context) for bits in (32, 64)),
    )
    digits = _DIGITS if _is_double(x) else _SHORT_DIGITS
    # Added to this number what is no whole number is rounded off, and the rest are its last bits.
    rounding = 1.5 * 2.0**digits
    x = x.within(_MOST_EXPONENT)
    shifted = x + rounding
    rest = ComputedFloat(build, build.cast_float((x - (shifted - rounding)).value, f32))
    if _is_double(x):
        whole = build.convert("arith.bitcast", shifted.value, i64)
        whole = build.convert("arith.trunci", whole, i32)
    else:
        whole = build.convert("arith.bitcast", shifted.value, i32)
        whole = build.subi(whole, _bits(rounding, "<f"))
    # In two parts, for what a float ends with: infinity and 0.
    half = build.apply("arith.shrsi", whole, 1)
    power = rest.powers(_EXP2)
    for part in (half, build.subi(whole, half)):
        bits = build.apply("arith.shli", build.addi(part, _EXPONENT_OF_ONE), _SHORT_DIGITS)
        power = power * ComputedFloat(build, build.convert("arith.bitcast", bits, f32))
    return power


def _bits(number: float, kind: str) -> int:
    """A positive float's, packed as `kind`, as a whole number."""
    return int.from_bytes(struct.pack(kind, number), "little")


# In all types, and in f64 alone; the others IREE has code for.
_ALWAYS: dict[str, Callable[..., ComputedFloat]] = {
    "math.acosh": _acosh,
    "math.asinh": _asinh,
    "math.atan": _atan,
    "math.atan2": _atan2,
    "math.atanh": _atanh,
    "math.clampf": _clamp,
    "math.cosh": _cosh,
    "math.erfc": _erfc,
    "math.log10": _log10,
    "math.sinh": _sinh,
    "math.trunc": _trunc,
}
_DOUBLES: dict[str, Callable[..., ComputedFloat]] = {
    "arith.remf": _remainder,
    "math.acos": _acos,
    "math.asin": _asin,
    "math.cbrt": _cbrt,
    "math.ceil": _ceil,
    "math.cos": _cos,
    "math.erf": _erf,
    "math.expm1": _expm1,
    "math.log1p": _log1p,
    "math.log2": _log2,
    "math.sin": _sin,
    "math.tan": _tan,
    "math.tanh": _tanh,
}
# In f32 and 16 bits alone: where IREE's code is right, but slow.
_SHORT: dict[str, Callable[..., ComputedFloat]] = {"math.erf": _short_erf}
# Those of which IREE rounds an exponent.
_EXPONENTS: dict[str, Callable[..., ComputedFloat]] = {"math.exp2": _exp2, "math.powf": _power}
# Exponents that IREE has products and roots for.
_EXACT = {-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0}


class LinkedFunctions(OpPass):
    """Writes functions for which IREE 3.13 calls a library, that it does not link on CPUs, out in
    others: `log10`, `trunc`, `erfc`, `clampf`, and in f64 also `erf`, `tanh`, the trigonometric
    ones, remainders and some more. Errors are of a few last digits; angles above 1e6 have those of
    a rounded angle.

    So it does with those whose code is wrong: hyperbolic ones and their inverses lose all digits of
    small numbers (`atanh`) and of large ones below 0 (`asinh`: minus infinity), `atan` loses two,
    `atan2` has the sign of 0 where the quotient is 0. Powers in f32 and 16 bits have exponents in
    f64, and `exp2` takes whole ones off: IREE rounds the exponent of e to their type, by which 2^10
    loses three bits. Remainders are exact where the quotient is below 2^104, and NaN where it is
    far above. `erf` in f32 and 16 bits, GELU's, is right in IREE, too, and takes twice as long (1.5
    million of f32, one thread of a Zen 3: 1.5 ms and 0.7; errors below 6 last digits, 5 in IREE).
    """

    name = "attn-linked-functions"
    summary = "CPUs: functions that IREE has no code for are written out"
    backends = ("llvm-cpu",)
    mends = "log10, trunc, erfc, many functions in f64 have no program on CPUs; asinh is infinite"

    in_bodies = True

    def wanted(self, op: ir.Operation) -> bool:
        if op.name in _ALWAYS:
            return isinstance(op.results[0].type, ir.FloatType)
        kind = op.results[0].type if len(op.results) == 1 else None
        if op.name in _EXPONENTS:
            is_short = isinstance(kind, ir.FloatType) and ir.FloatType(kind).width <= 32
            return is_short and scalar_number(op.operands[-1]) not in _EXACT
        if isinstance(kind, ir.F64Type):
            return op.name in _DOUBLES
        return op.name in _SHORT and isinstance(kind, ir.FloatType)

    def change(self, op: ir.Operation) -> str:
        build = Builder(op)
        kind, name = ir.FloatType(op.results[0].type), op.name.split(".")[-1]
        is_short = op.name in _SHORT and kind.width < 64
        function = (_ALWAYS | _DOUBLES | _EXPONENTS | (_SHORT if is_short else {}))[op.name]
        inside: ir.Type = ir.F32Type.get(op.context) if kind.width < 32 else kind
        values = [ComputedFloat(build, build.cast_float(x, inside)) for x in op.operands]
        result = build.cast_float(function(*values).value, kind)
        op.results[0].replace_all_uses_with(result)
        if op.name in _EXPONENTS:
            return f"is written out: IREE's {name} in {kind} rounds its exponent"
        if is_short:
            return f"is written out: IREE's {name} takes longer"
        return f"is written out: IREE links no {name} in {kind}"
