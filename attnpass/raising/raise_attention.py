"""attn-raise: attention that is written out as products and a softmax, as an op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from ..attention.facts import AttentionFacts, describe, tell_apart
from ..ir import defining_op, erase_dead, location_text
from ..machines import backends
from ..passes import Pass, PassContext, option
from ..report.ops import op_of
from ..report.records import Report
from .build import build_attention, keep_mask_in_memory
from .decomposed import decomposed_sums, products_behind
from .find import Written, read_attention
from .scores import NotRaised


def raise_all(
    module: ir.Operation,
    report: Report,
    slower: Callable[[AttentionFacts], str],
    store_masks: bool,
    joins_heads: bool,
) -> bool:
    """Makes attention ops of all that is written out and can be said so, unless `slower` says why
    the op would be slower, with a note for each; returns whether IR changed. `store_masks` that
    are computed of positions alone, too; `joins_heads` as in `read_attention`. Needs a current
    context."""
    changed = False
    old: list[ir.Operation] = []
    raised: set[ir.Operation] = set()
    for total in decomposed_sums(module):
        for product in products_behind(total):
            about = op_of(product, "products and a softmax")
            try:
                written = read_attention(product, joins_heads)
                _refuse_beside(written, raised)
            except NotRaised as reason:
                report.record(about, "not-raised", str(reason))
                continue
            op, result = build_attention(written)
            why = slower(describe(op))
            dead = defining_op(result if why else written.result.value)
            assert dead is not None
            old.append(dead)
            if why:
                report.record(about, "not-raised", why)
                continue
            changed = True
            raised.add(product)
            keep_mask_in_memory(op, store_masks)
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

    name: ClassVar[str] = "attn-raise"
    summary: ClassVar[str] = "products and a softmax between them as an attention op"
    mode: str = option(
        "cost", "leave what the target computes faster as it is", choices=("cost", "always")
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        others = sorted(backends(module) - _BACKENDS)
        if others:
            if decomposed_sums(module):
                context.report.note(
                    "products with a softmax between them stay as they are: IREE has no fast "
                    f"code for attention ops on {', '.join(others)}"
                )
            return False
        machine = context.target_for(module)
        target = None if self.mode == "always" else machine
        on_cpu = machine is not None and machine.backend == "llvm-cpu"

        def slower(facts: AttentionFacts) -> str:
            return target.slower_than_decomposed(facts) if target else ""

        # Elsewhere the second product as a mask reads no cache twice, and copies none.
        on_cuda = machine is not None and machine.backend == "cuda"
        return raise_all(module, context.report, slower, store_masks=on_cpu, joins_heads=on_cuda)
