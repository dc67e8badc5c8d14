"""`attnpass.run`: a pass pipeline on a module that a script holds."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ..passes import PassContext
from ..pipeline import default_pipeline
from ..report.records import Report
from ..runner import parse_pipeline, run_pipeline
from .modules import operation_of, unconverted_for

if TYPE_CHECKING:
    from .modules import Handle


def run(
    module: Handle,
    pipeline: str | None = None,
    *,
    mode: str = "cost",
    target: str | None = None,
    verify: bool = True,
) -> Report:
    """Runs `pipeline` on `module` (a builtin.module, or what iree-turbine's `aot.export` returns)
    in place and returns its report.

    `pipeline` is text as `attn-opt -p` takes it; without it the layout pass runs in `mode`
    (`cost`, `always` or `never`). `target` names the machine to price for, where the
    module's own executable targets do not. The module's context must have IREE's dialects
    loaded (`context.load_all_available_dialects()`).

    Raises PipelineError for a bad pipeline, AttnError where a pass fails; warns (RuntimeWarning)
    of a module from before IREE's input conversion, in which passes on tensors find nothing.
    """
    from ..machines import resolve_target

    operation = operation_of(module)
    stages = parse_pipeline(
        pipeline
        or default_pipeline(mode, configure=False, hardware_exp2=False, shared_memory=False)
    )
    if found := unconverted_for(stages, operation):
        warnings.warn(f"{found[0]}: {found[1]}", RuntimeWarning, stacklevel=2)
    report = Report()
    context = PassContext(report, resolve_target(operation, target))
    run_pipeline(operation, stages, context, verify=verify)
    return report
