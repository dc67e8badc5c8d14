"""PTX instructions, as inline assembly, on scalars and on vectors of any shape.

Instructions and their operands: PTX ISA, "ex2" and "cvt".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, with_element
from .fp8 import Fp8, mark_overflow

EXP2 = "ex2.approx.ftz.f32"


@dataclass(frozen=True)
class Machine:
    """What PTX may hold: `capability` is the compute capability times ten, `version` PTX's."""

    capability: int
    version: int

    @property
    def casts_fp8(self) -> bool:
        """Whether `cvt` knows the fp8 formats."""
        return self.version >= 81 and self.capability >= 89


def machine_of(target: str) -> Machine | None:
    """The machine in the text of a CUDA `#hal.executable.target`; None where it names none."""
    arch = re.search(r'\barch = "sm_(\d+)', target)
    version = re.search(r'\bfeatures = "[^"]*\+ptx(\d+)', target)
    return Machine(int(arch[1]), int(version[1]) if version else 0) if arch else None


def exp2(build: Builder, value: ir.Value) -> ir.Value:
    """2 to the power of f32 numbers, to 2 ulp; subnormal numbers count as zero."""
    elements = _elements(build, value)
    results = [_assembly(build, f"{EXP2} $0, $1;", "=f,f", x.type, [x]) for x in elements]
    return _joined(build, results, value.type)


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
    elements = _elements(build, value)
    if len(elements) % 2:
        elements.append(build.splat(0.0, elements[0].type))
    # The instruction's first operand goes to the upper half.
    pairs = [
        _assembly(build, text, "=h,f,f", i16, [high, low])
        for low, high in zip(elements[::2], elements[1::2], strict=True)
    ]
    codes = _reinterpreted(build, pairs, i8)
    codes = _joined(build, _elements(build, codes)[: element_count(value.type)], _like(value, i8))
    return codes if saturate else mark_overflow(build, value, codes, fp8)


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
    wide = _elements(build, _reinterpreted(build, numbers, f16))
    return _joined(build, wide[: element_count(codes.type)], _like(codes, f16))


def _assembly(
    build: Builder, text: str, constraints: str, result: ir.Type, operands: Sequence[ir.Value]
) -> ir.Value:
    attributes: dict[str, ir.Attribute] = {
        "asm_string": build.string(text),
        "constraints": build.string(constraints),
    }
    return build.create("llvm.inline_asm", [result], operands, attributes).results[0]


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    return with_element(value.type, element)


def element_count(kind: ir.Type) -> int:
    """Number of elements of a scalar or vector type."""
    return math.prod(kind.shape) if isinstance(kind, ir.VectorType) else 1


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
