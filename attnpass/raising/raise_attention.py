"""attn-raise: attention that is written out as products and a softmax, as an op."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import describe, tell_apart
from ..ir import defining_op, erase_dead, location_text
from ..machines import DEFAULT_TARGET, Target, backends
from ..passes import Pass, PassContext, option
from ..report.ops import op_of
from ..report.records import Report
from .build import build_attention, keep_mask_in_memory
from .decomposed import DECOMPOSED, decomposed_sums, leave_decomposed, products_behind
from .find import Written, read_attention
from .scores import NotRaised


def raise_all(module: ir.Operation, report: Report, target: Target, at_any_price: bool) -> bool:
    """Makes attention ops of all that is written out and can be said so, with a record for each,
    unless the op would be slower on the target; `at_any_price` also then. Returns whether IR
    changed. Needs a current context."""
    changed = False
    old: list[ir.Operation] = []
    raised: set[ir.Operation] = set()
    for total in decomposed_sums(module):
        for product in products_behind(total):
            about = op_of(product, DECOMPOSED)
            try:
                written = read_attention(product, target.joins_heads)
                _refuse_beside(written, raised)
            except NotRaised as reason:
                report.record(about, "not-raised", str(reason))
                continue
            op, result = build_attention(written)
            why = None if at_any_price else target.slower_than_decomposed(describe(op))
            dead = defining_op(result if why else written.result.value)
            assert dead is not None
            old.append(dead)
            if why:
                report.record(about, "not-raised", why)
                continue
            changed = True
            raised.add(product)
            keep_mask_in_memory(op, target.stores_masks)
            written.result.value.replace_all_uses_with(result)
            divided = "divided by its weights and its sink's" if written.sink else ""
            report.record(about, "raised", divided)
    erase_dead(old)
    tell_apart(module)
    return changed


def _refuse_beside(written: Written, raised: set[ir.Operation]) -> None:
    """NotRaised where another product that reads the scores is no attention: they are in memory."""
    for other in written.beside:
        if other in raised:
            continue
        try:
            read_attention(other)
        except NotRaised as reason:
            raise NotRaised(
                f"the product at {location_text(other.location)} reads what is made of the scores, "
                f"too, and needs them in memory: {reason}"
            ) from reason


# Where IREE compiles attention ops: for Vulkan and Metal it fails, and vmvx is for tests.
_BACKENDS = {"cuda", "llvm-cpu", "rocm"}


@dataclass(frozen=True)
class RaiseAttention(Pass):
    """Makes an attention op of a product of Q and K, a softmax and a product with V.

    JAX, ONNX and PyTorch's own definition of attention arrive so. Between the products may stand
    whatever orders, cuts, joins or repeats dims, casts between floats, a scale, a soft-cap or
    another function of one score, conditions that hide keys, and sums with a bias or a mask,
    which become the op's scale, region and mask. The rest stays as it is, with the reason in
    the report.
    """

    name = "attn-raise"
    summary = "products and a softmax between them as an attention op"
    mode: str = option(
        "cost", "leave what the target computes faster as it is", choices=("cost", "always")
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        others = sorted(backends(module) - _BACKENDS)
        if others:
            why = f"IREE has no fast code for attention ops on {', '.join(others)}"
            leave_decomposed(decomposed_sums(module), context.report, why)
            return False
        target = context.target_for(module) or DEFAULT_TARGET
        return raise_all(module, context.report, target, at_any_price=self.mode == "always")
