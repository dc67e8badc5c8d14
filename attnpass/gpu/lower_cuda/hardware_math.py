"""CUDA's own exp2, tanh and casts in attention kernels.

IREE expands `math.exp2` and `math.tanh` for CUDA into polynomials of about 20 instructions,
rounds to bf16 with integer arithmetic and has no translation for casts to and from fp8, nor for
arithmetic on it. All can be replaced only between its lowering of a kernel to vectors, which
makes them, and its conversion to LLVM, which is one phase with it: so the lowering is run here,
and the kernel marked as lowered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from iree.compiler import ir

from ...attention.facts import OP_NAMES
from ...codegen import fp8, ptx
from ...codegen.fp8 import FORMATS, Fp8
from ...codegen.kernel import kernels_for, rewrite_lowered
from ...ir import (
    Builder,
    collect,
    copied_attributes,
    defining_op,
    element_type,
    element_type_name,
    erase,
    erase_dead,
    splat_number,
    with_element,
)
from ...repair.order_products import Ordered, contractions, order_products
from ...report.ops import op_of
from ...report.records import Report

_CASTS = ("arith.truncf", "arith.extf")
_ARITHMETIC = ("arith.", "math.", "vector.contract", "vector.reduction", "vector.multi_reduction")
# What leaves the bits of a number as they are.
_MOVES = ("arith.constant", "arith.select", "arith.bitcast")
# Element types that a cast from or to fp8 passes through f32 or f16 without a second rounding.
_WIDE = ("f16", "bf16", "f32")


def use_hardware_math(module: ir.Operation, report: Report) -> bool:
    """Rewrites the CUDA kernels of `module` (a builtin.module at IREE's phase
    executable-configurations) that hold attention or fp8 casts; returns whether IR changed.
    """
    changed = False
    for function, machine in _kernels(module):
        if collect(function, lambda op: op.name in OP_NAMES or _is_fp8_cast(op)):
            changed |= _rewrite_kernel(function, LoweredKernel(machine), report)
    return changed


def translate_fp8(module: ir.Operation, report: Report) -> bool:
    """Rewrites fp8 casts and arithmetic, and nothing else, in the CUDA kernels of `module` that
    are yet to be lowered; returns whether IR changed."""
    changed = False
    for function, machine in _kernels(module):
        if collect(function, _computes_fp8):
            kernel = LoweredKernel(machine, fp8_alone=True)
            changed |= _rewrite_kernel(function, kernel, report)
    return changed


def _kernels(module: ir.Operation) -> Iterator[tuple[ir.Operation, ptx.Machine]]:
    """The kernels for CUDA that IREE is yet to lower, each with what runs it."""
    for function, target in kernels_for(module, "cuda"):
        machine = ptx.machine_of(target)
        if machine is not None:
            yield function, machine


def _rewrite_kernel(function: ir.Operation, kernel: LoweredKernel, report: Report) -> bool:
    about = op_of(function)

    def rewrite(lowered: ir.Operation) -> bool:
        kernel.rewrite(lowered)
        for words, count in kernel.kept.items():
            report.record(about, "not-lowered", f"keeps {count} {words}", elements=count)
        return bool(kernel.done or kernel.products)

    if not rewrite_lowered(function, report, rewrite):
        return False
    if kernel.done:
        done = ", ".join(f"{words} for {count} element(s)" for words, count in kernel.done.items())
        elements = sum(kernel.done.values())
        report.record(about, "lowered", f"uses {done}", elements=elements)
    kernel.products.tell(about, report)
    return True


def _is_fp8_cast(op: ir.Operation) -> bool:
    return op.name in _CASTS and _takes_fp8(op)


def _takes_fp8(op: ir.Operation) -> bool:
    return any(element_type_name(value).startswith("f8") for value in (*op.operands, *op.results))


def _is_fp8_arithmetic(op: ir.Operation) -> bool:
    """Whether an op computes with fp8 numbers themselves."""
    if not op.name.startswith(_ARITHMETIC) or op.name in (*_CASTS, *_MOVES):
        return False
    return _takes_fp8(op)


def _computes_fp8(op: ir.Operation) -> bool:
    """Whether an op of a kernel that is yet to be lowered comes to what IREE cannot translate."""
    if op.name in OP_NAMES:
        return _takes_fp8(op)
    return _is_fp8_cast(op) or _is_fp8_arithmetic(op)


def _rounds_to_bf16(op: ir.Operation) -> bool:
    kinds = [element_type_name(value) for value in (*op.operands, *op.results)]
    return op.name == "arith.truncf" and kinds == ["f32", "bf16"]


class LoweredKernel:
    """One lowered kernel: what was replaced in it, by which instruction, and what was not. With
    `fp8_alone` nothing is that IREE can translate."""

    def __init__(self, machine: ptx.Machine, fp8_alone: bool = False):
        self.machine = machine
        self.fp8_alone = fp8_alone
        self.done: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.products = Ordered()

    def rewrite(self, function: ir.Operation) -> None:
        for op in collect(function, lambda op: op.name == "vector.step"):
            _count_out(op)
        for op in contractions(function):
            _widen_factors(op)
        for op in collect(function, _is_fp8_arithmetic):
            _widen_arithmetic(op)
        self.products = order_products(function)
        # Casts first: they look at the exp2 that they read.
        faster = (
            (_rounds_to_bf16, self._round),
            (lambda op: op.name == "math.exp2", self._exp2),
            (lambda op: op.name == "math.tanh", self._tanh),
        )
        rules = ((_is_fp8_cast, self._cast), *(() if self.fp8_alone else faster))
        wanted = [(op, make) for is_one, make in rules for op in collect(function, is_one)]
        erase_dead([op for op, make in wanted if self._replace(op, make)])

    def _replace(
        self, op: ir.Operation, make: Callable[[Builder, ir.Operation], ir.Value | None]
    ) -> bool:
        kind = op.results[0].type
        if isinstance(kind, ir.VectorType) and kind.scalable:
            self.kept[f"{op.name} on scalable vectors"] += 1
            return False
        value = make(Builder(op), op)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
        return value is not None

    def _exp2(self, build: Builder, op: ir.Operation) -> ir.Value | None:
        kind = element_type_name(op.results[0])
        if kind != "f32":
            self.kept[f"{op.name} on {kind}: {ptx.EXP2} takes f32"] += 1
            return None
        self._count(ptx.EXP2, op)
        return ptx.exp2(build, op.operands[0])

    def _tanh(self, build: Builder, op: ir.Operation) -> ir.Value | None:
        if element_type_name(op.results[0]) != "f32":
            return None
        self._count(f"{ptx.TANH} (tanh)", op)
        value, divisor = op.operands[0], 1.0
        quotient = defining_op(value, "arith.divf")
        if quotient is not None:
            # A soft-cap divides by its cap first.
            number = splat_number(quotient.operands[1])
            value, divisor = (quotient.operands[0], number) if number else (value, 1.0)
        return ptx.tanh(build, value, divisor)

    def _round(self, build: Builder, op: ir.Operation) -> ir.Value | None:
        # One number, as the scale, is left as arithmetic that other rewrites can follow.
        is_vector = isinstance(op.results[0].type, ir.VectorType)
        if not (self.machine.rounds_to_bf16 and is_vector) or "roundingmode" in op.attributes:
            return None
        self._count(ptx.BF16_PAIR, op)
        return ptx.round_to_bf16(build, op.operands[0])

    def _cast(self, build: Builder, op: ir.Operation) -> ir.Value | None:
        source, target = element_type_name(op.operands[0]), element_type_name(op.results[0])
        narrows = op.name == "arith.truncf"
        small, wide = (target, source) if narrows else (source, target)
        words = f"{op.name} from {source} to {target}"
        if small not in FORMATS or wide not in _WIDE:
            self.kept[f"{words}: no instruction and no arithmetic for these types"] += 1
            return None
        if "roundingmode" in op.attributes:
            self.kept[f"{words}: it names a rounding mode"] += 1
            return None
        return (self._narrow if narrows else self._widen)(build, op, FORMATS[small])

    def _narrow(self, build: Builder, op: ir.Operation, form: Fp8) -> ir.Value:
        e = fp8.VectorArithmetic(build, op.operands[0])
        value = e.to("extf", e.f32, op.operands[0])
        if self.machine.casts_fp8:
            self._count(ptx.narrow_instruction(form), op)
            weights = _clamped_weights(value, form)
            codes = ptx.narrow(build, weights or value, form, saturate=weights is not None)
        else:
            self._count(f"integer arithmetic (to {form.name})", op)
            codes = fp8.narrow(build, value, form)
        return e.to("bitcast", element_type(op.results[0]), codes)

    def _widen(self, build: Builder, op: ir.Operation, form: Fp8) -> ir.Value:
        e = fp8.VectorArithmetic(build, op.operands[0])
        codes = e.to("bitcast", e.i8, op.operands[0])
        if self.machine.casts_fp8:
            self._count(ptx.widen_instruction(form), op)
            number = ptx.widen(build, codes, form)
        else:
            self._count(f"integer arithmetic (from {form.name})", op)
            number = fp8.widen(build, codes, form)
        element = element_type(op.results[0])
        return number if element == e.f16 else e.to("truncf", element, e.to("extf", e.f32, number))

    def _count(self, words: str, op: ir.Operation) -> None:
        kind = op.results[0].type
        self.done[words] += ptx.element_count(kind)


def _count_out(op: ir.Operation) -> None:
    """Writes the numbers 0, 1, ... out, that masks of known lanes are constants. Where they are
    computed, each lane of a head that fills no vector is read behind a branch that is never taken,
    and machine code for an H200 had NaN, not zeros, in the lanes of f8E4M3FN behind the head."""
    kind = op.results[0].type
    if kind.scalable:
        return
    numbers = np.arange(kind.shape[0], dtype=np.int64)
    constant = Builder(op).constant(ir.DenseElementsAttr.get(numbers, type=kind), kind)
    op.results[0].replace_all_uses_with(constant)
    erase(op)


def _widen_factors(op: ir.Operation) -> None:
    """Makes the casts visible that a contraction of fp8 factors into f32 implies."""
    result = element_type(op.results[0])
    for number in (0, 1):
        factor = op.operands[number]
        if element_type_name(factor).startswith("f8") and element_type(factor) != result:
            kind = with_element(factor.type, result)
            op.operands[number] = Builder(op).create("arith.extf", [kind], [factor]).results[0]


def _widen_arithmetic(op: ir.Operation) -> None:
    """Has an op on fp8 numbers computed in f32, which rounds to what the op itself is to give."""
    build, f32 = Builder(op), ir.F32Type.get(op.context)

    def wide(kind: ir.Type) -> ir.Type:
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        return with_element(kind, f32) if str(element) in FORMATS else kind

    def cast(name: str, value: ir.Value, kind: ir.Type) -> ir.Value:
        return value if value.type == kind else build.create(name, [kind], [value]).results[0]

    operands = [cast("arith.extf", value, wide(value.type)) for value in op.operands]
    kinds = [wide(value.type) for value in op.results]
    new = build.create(op.name, kinds, operands, copied_attributes(op))
    for old, value in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(cast("arith.truncf", value, old.type))
    erase(op)


def _clamped_weights(value: ir.Value, form: Fp8) -> ir.Value | None:
    """The softmax weights below IREE's clamp to the format's range, which the instruction
    does as well; None where `value` is something else."""
    clamp = defining_op(value, "arith.minimumf")
    if clamp is None:
        return None
    weights = defining_op(clamp.operands[0], "math.exp2")
    if weights is None:
        return None
    return weights.results[0] if splat_number(clamp.operands[1]) == form.largest else None
