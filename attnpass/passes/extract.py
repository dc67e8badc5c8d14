"""attn-extract: each distinct attention alone in a file, with configurations worth trying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..errors import PipelineError
from . import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir


@dataclass(frozen=True)
class Extract(Pass):
    """Writes `problems.json` and a module for each distinct attention into `folder`.

    Attention of the same types, maps and score function counts once. The file says what
    attn-tune may try for each, or why nothing is known to be right; sizes known only at run
    time are taken to be `assume`. The module that the pass runs on is left as it is.
    """

    name: ClassVar[str] = "attn-extract"
    summary: ClassVar[str] = "write each attention, alone, with configurations to try"
    phase: ClassVar[str] = "flow"

    folder: str = option("", "where the files go; it must exist")
    plain: bool = option(False, "search for iree-compile, without kernels of our own")
    assume: int = option(512, "what a size known only at run time is taken to be")
    target: str = option("", "target to search for, instead of the module's own")

    def __post_init__(self) -> None:
        if not self.folder.strip("{}"):
            raise PipelineError(f"pass '{self.name}': option 'folder' is needed")
        if self.assume < 1:
            raise PipelineError(f"pass '{self.name}': option 'assume' takes a number from 1 on")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..tuning.extract import extract_all

        target = context.target_for(module, self.target)
        with module.context:
            extract_all(module, target, self.folder.strip("{}"), self.assume, self.plain)
        return False
