"""attn-fuse-transpose: transposes that feed attention are pushed into their producers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class FuseTranspose(Pass):
    """Absorbs each `linalg.transpose` that makes an operand of attention into what makes its
    input, where that can be done whole and nothing else has to be copied for it; a
    transpose that cannot be absorbed stays, with the reason in the report."""

    name: ClassVar[str] = "attn-fuse-transpose"
    summary: ClassVar[str] = "push transposes that feed attention up into their producers"

    operands: tuple[str, ...] = option(
        ("q", "k", "v", "mask"), "operands whose transposes are pushed", ("q", "k", "v", "mask")
    )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..attention import find
        from ..layout.fuse import fuse_transposes

        with module.context:
            return fuse_transposes(find(module), self.operands, context, self.name)
