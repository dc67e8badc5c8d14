"""attn-raise: attention that is written out as products and a softmax, as an op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention import AttentionFacts


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
        from ..configs import slower_than_written_out
        from ..raising.rewrite import raise_all
        from ..targets import backends
        from ..written_out import written_out

        others = sorted(backends(module) - _BACKENDS)
        if others:
            if written_out(module):
                context.report.note(
                    "products with a softmax between them stay as they are: IREE has no fast "
                    f"code for attention ops on {', '.join(others)}"
                )
            return False
        with module.context:
            machine = context.target_for(module)
            target = None if self.mode == "always" else machine
            on_cpu = machine is not None and machine.backend == "llvm-cpu"

            def slower(facts: AttentionFacts) -> str:
                return slower_than_written_out(facts, target)

            return raise_all(module, context.report, slower, store_masks=on_cpu)
