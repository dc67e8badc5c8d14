"""attn-split-k: decode attention over chunks of the keys at once, then a combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..errors import PipelineError
from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class SplitK(Pass):
    """Cuts the keys of attention ops with few query rows into chunks that run side by side.

    `attention` and `online_attention` become partial online_attention, with the chunk as one
    more batch dim, and a combine of (output, max, sum). Keys that fill no chunk form a tail
    of their own. Grouped-query broadcasts before K and V are folded, so that the heads that
    share K and V become rows. `splits=auto` chooses the number of chunks by the formula in
    `attnpass.split_k.plan`; V's layout is left as it is. With `configured=true` an attention
    is left alone, without a record, where its chunks would get no kernel configuration:
    splitting alone can lose; on CPUs also where a head has less than 8 MB of K and V.
    """

    name: ClassVar[str] = "attn-split-k"
    summary: ClassVar[str] = "decode attention: partial attention over chunks of keys, combined"

    splits: str = option("auto", "number of chunks, or auto")
    target: str = option("", "target that auto splits for, instead of the module's own")
    configured: bool = option(False, "split only what attn-configure has a kernel for")
    rows: int = option(16, "most query rows that an attention may have to be split")

    def __post_init__(self) -> None:
        if self.splits != "auto" and not (self.splits.isdigit() and int(self.splits)):
            raise PipelineError(
                f"pass '{self.name}': '{self.splits}' is not a value of option 'splits' "
                "(use auto or a whole number from 1 on)"
            )

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..configs import split_refusal
        from ..split_k.drive import split_all
        from ..targets import DEFAULT_TARGET

        target = context.target_for(module, self.target) or DEFAULT_TARGET
        splits = None if self.splits == "auto" else int(self.splits)
        eligible = split_refusal if self.configured else None
        with module.context:
            return split_all(module, splits, self.rows, target, context.report, self.name, eligible)
