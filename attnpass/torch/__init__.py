"""The door for PyTorch: modules in, callables on torch tensors out.

    fast = attnpass.torch.compile(model, (tokens,), device="cpu")
    fast(tokens)

`torch.compile(model, backend="attnpass")` comes here, too. Needs torch: `attnpass[torch]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..program.front_ends import require

if TYPE_CHECKING:
    from ..report.records import Report
    from .compiled import CompiledFunction, CompiledModel

__all__ = ["compile"]


def compile(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    device: str | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    report: Report | None = None,
    **options: Any,
) -> CompiledModel | CompiledFunction:
    """Compiles a model for `device`; what it returns is called as the model is.

    `model` is a torch.nn.Module in eval mode, with example `args` and `kwargs`; or an
    ExportedProgram, or what iree-turbine's `aot.export` returns, without. `dynamic_shapes` and
    `strict` go to torch.export.export. `device` is `cpu`, `cuda`, `cuda:1`, `hip`; without it,
    that of the weights. `options` are those of `attnpass.compile_str`; `report` is filled in, and
    is the result's `report`, too.

    Weights are parameters of the program: not copied into it, and read once, here. Buffers that
    the model changes (a cache) are changed by calls, and so are arguments that it changes.

    Raises ImportError without torch, AttnError for a model that cannot be exported or imported and
    for a device that does not exist, CompilerToolError where IREE fails.
    """
    require("torch")
    from .compiled import compile_model

    return compile_model(
        model,
        args,
        kwargs,
        device=device,
        dynamic_shapes=dynamic_shapes,
        strict=strict,
        report=report,
        options=options,
    )
