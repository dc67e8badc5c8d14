"""PTX instructions, as inline assembly, on scalars and on vectors of any shape.

Instructions and their operands: PTX ISA, "ex2", "rcp" and "cvt".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, printed, with_element
from .fp8 import Fp8

EXP2 = "ex2.approx.ftz.f32"
BF16_PAIR = "cvt.rn.bf16x2.f32"
_RECIPROCAL = "rcp.approx.ftz.f32"
# log2 e as two numbers of 24 bits.
_LOG2_E = (1.4426950216293335, 1.925963033500e-08)
TANH = f"{EXP2} and {_RECIPROCAL}"


@dataclass(frozen=True)
class Machine:
    """What PTX may hold: `capability` is the compute capability times ten, `version` PTX's."""

    capability: int
    version: int

    @property
    def casts_fp8(self) -> bool:
        """Whether `cvt` knows the fp8 formats."""
        return self.version >= 81 and self.capability >= 89

    @property
    def rounds_to_bf16(self) -> bool:
        """Whether `cvt` rounds to bf16."""
        return self.version >= 70 and self.capability >= 80


def machine_of(target: str) -> Machine | None:
    """The machine in the text of a CUDA `#hal.executable.target`; None where it names none."""
    if "cuda" not in printed.backends(target):
        return None
    capability = printed.entry(target, "arch").removeprefix("sm_").rstrip("af")
    version = printed.ptx_version(printed.entry(target, "features"))
    return Machine(int(capability), version) if capability.isdecimal() else None


def exp2(build: Builder, value: ir.Value) -> ir.Value:
    """2 to the power of f32 numbers, to 2 ulp; subnormal numbers count as zero."""
    return _each(build, f"{EXP2} $0, $1;", value)


def exp(build: Builder, value: ir.Value) -> ir.Value:
    """e to the power of an f32 number, to 3 ulp; subnormal results are zero. IREE makes three times
    as many instructions of it."""
    kind = value.type

    def fused(first: ir.Value, second: ir.Value, third: ir.Value) -> ir.Value:
        return build.create("math.fma", [kind], [first, second, third]).results[0]

    low, high, near, rest, ln_2, one = (
        build.splat(number, kind) for number in (-104.0, 89.0, *_LOG2_E, math.log(2), 1.0)
    )
    value = build.apply("arith.maximumf", build.apply("arith.minimumf", value, high), low)
    power = build.mulf(value, near)
    # What the power has been rounded by, and the factor.
    lost = build.create("arith.negf", [kind], [power]).results[0]
    lost = fused(value, rest, fused(value, near, lost))
    return build.mulf(exp2(build, power), fused(lost, ln_2, one))


def tanh(build: Builder, value: ir.Value, divisor: float = 1.0) -> ir.Value:
    """tanh x = 1 - 2 / (1 + 2^(2 x log2 e)) of f32 numbers over `divisor`, to 5e-7 absolutely:
    near 0 that is much of the result."""

    one = build.splat(1.0, value.type)
    factor = build.splat(2.0 * math.log2(math.e) / divisor, value.type)
    power = exp2(build, build.mulf(value, factor))
    part = _each(build, f"{_RECIPROCAL} $0, $1;", build.addf(power, one))
    return build.subf(one, build.mulf(part, 2.0))


def round_to_bf16(build: Builder, value: ir.Value) -> ir.Value:
    """f32 numbers as bf16, to nearest even, two at a time; NaN becomes 0x7FFF."""
    context = build.anchor.context
    i32 = ir.IntegerType.get_signless(32, context)
    pairs = _paired(build, f"{BF16_PAIR} $0, $1, $2;", "=r,f,f", i32, value)
    return _unpacked(build, pairs, ir.BF16Type.get(context), value.type)


def narrow_instruction(fp8: Fp8) -> str:
    return f"cvt.rn.satfinite.{fp8.ptx}x2.f32"


def widen_instruction(fp8: Fp8) -> str:
    return f"cvt.rn.f16x2.{fp8.ptx}x2"


def narrow(build: Builder, value: ir.Value, fp8: Fp8, saturate: bool) -> ir.Value:
    """The i8 codes of f32 numbers, two at a time.

    Numbers above the format's range become its largest one with `saturate`, else NaN or
    infinity as in `fp8.narrow`.
    """
    context = build.anchor.context
    i16, i8 = (ir.IntegerType.get_signless(bits, context) for bits in (16, 8))
    text = f"{narrow_instruction(fp8)} $0, $1, $2;"
    pairs = _paired(build, text, "=h,f,f", i16, value)
    if not saturate:
        above = _pairs(build, build.apply("math.absf", value))
        pairs = [
            _mark_overflow(build, codes, sizes, fp8)
            for codes, sizes in zip(pairs, above, strict=True)
        ]
    return _unpacked(build, pairs, i8, value.type)


def _mark_overflow(
    build: Builder, codes: ir.Value, sizes: Sequence[ir.Value], fp8: Fp8
) -> ir.Value:
    """Two codes, in 16 bits, of a cast that saturates, with overflow of these magnitudes as
    `fp8.narrow` gives it. Not chosen by bytes: for two of them LLVM's choice for PTX is the first
    one's twice."""
    none = build.splat(0, codes.type)
    masks = [
        build.select(
            build.compare_floats("ogt", size, fp8.last),
            build.splat(0x7F << 8 * byte, codes.type),
            none,
        )
        for byte, size in enumerate(sizes)
    ]
    mask = build.apply("arith.ori", *masks)
    # Infinity has fewer bits set than the mask, NaN all of them.
    spare = build.apply("arith.andi", mask, (0x7F ^ fp8.above) * 0x101)
    marked = build.apply("arith.ori", codes, mask)
    return build.apply("arith.xori", marked, spare)


def widen(build: Builder, codes: ir.Value, fp8: Fp8) -> ir.Value:
    """The numbers that i8 codes stand for, as f16, two at a time."""
    context = build.anchor.context
    i32, i16 = (ir.IntegerType.get_signless(bits, context) for bits in (32, 16))
    f16 = ir.F16Type.get(context)
    text = f"{widen_instruction(fp8)} $0, $1;"
    elements = _elements(build, codes)
    if len(elements) % 2:
        elements.append(build.splat(0, elements[0].type))
    pairs = _elements(build, _reinterpreted(build, elements, i16))
    numbers = [_assembly(build, text, "=r,h", i32, [pair]) for pair in pairs]
    return _unpacked(build, numbers, f16, codes.type)


def _each(build: Builder, text: str, value: ir.Value) -> ir.Value:
    """An instruction from f32 to f32 on each element."""
    results = [_assembly(build, text, "=f,f", x.type, [x]) for x in _elements(build, value)]
    return _joined(build, results, value.type)


def _paired(
    build: Builder, text: str, constraints: str, result: ir.Type, value: ir.Value
) -> list[ir.Value]:
    """What an instruction makes of two elements of `value` at a time."""
    # The instruction's first operand goes to the upper half.
    return [
        _assembly(build, text, constraints, result, [high, low])
        for low, high in _pairs(build, value)
    ]


def _pairs(build: Builder, value: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
    """Two elements of f32 numbers at a time, zero behind an odd one."""
    elements = _elements(build, value)
    if len(elements) % 2:
        elements.append(build.splat(0.0, elements[0].type))
    return list(zip(elements[::2], elements[1::2], strict=True))


def _unpacked(
    build: Builder, packed: Sequence[ir.Value], element: ir.Type, like: ir.Type
) -> ir.Value:
    """The elements that `packed` holds, as many as and in the shape of `like`."""
    elements = _elements(build, _reinterpreted(build, packed, element))
    return _joined(build, elements[: element_count(like)], with_element(like, element))


def _assembly(
    build: Builder, text: str, constraints: str, result: ir.Type, operands: Sequence[ir.Value]
) -> ir.Value:
    attributes = {"asm_string": build.string(text), "constraints": build.string(constraints)}
    return build.create("llvm.inline_asm", [result], operands, attributes).results[0]


def element_count(kind: ir.Type) -> int:
    """Number of elements of a scalar or vector type."""
    return math.prod(kind.shape) if isinstance(kind, ir.VectorType) else 1


def transpose(build: Builder, value: ir.Value, order: Sequence[int]) -> ir.Value:
    """A vector whose dim i is dim order[i] of `value`, element by element: IREE folds
    `vector.transpose` into what reads it."""
    kind = ir.VectorType(value.type)
    strides = [math.prod(kind.shape[dim + 1 :]) for dim in range(kind.rank)]
    shape = [kind.shape[dim] for dim in order]
    elements = _elements(build, value)
    places = itertools.product(*map(range, shape))
    moved = [
        elements[sum(at * strides[dim] for at, dim in zip(place, order, strict=True))]
        for place in places
    ]
    return _joined(build, moved, ir.VectorType.get(shape, kind.element_type, loc=build.location))


def _elements(build: Builder, value: ir.Value) -> list[ir.Value]:
    """The elements of a scalar or vector, the last dim fastest."""
    kind = value.type
    if not isinstance(kind, ir.VectorType):
        return [value]
    results = [kind.element_type] * element_count(kind)
    return list(build.create("vector.to_elements", results, [value]).results)


def _joined(build: Builder, elements: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """A scalar or vector of type `kind`."""
    if not isinstance(kind, ir.VectorType):
        return elements[0]
    return build.create("vector.from_elements", [kind], elements).results[0]


def _reinterpreted(build: Builder, elements: Sequence[ir.Value], element: ir.Type) -> ir.Value:
    """The bits of `elements`, the first ones lowest, as a vector of another element type."""
    location = build.location
    source = ir.VectorType.get([len(elements)], elements[0].type, loc=location)
    bits = len(elements) * elements[0].type.width  # type: ignore[attr-defined]
    count = bits // element.width  # type: ignore[attr-defined]
    result = ir.VectorType.get([count], element, loc=location)
    packed = _joined(build, elements, source)
    return build.create("vector.bitcast", [result], [packed]).results[0]
