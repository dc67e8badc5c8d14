"""The door for JAX: functions in, callables on jax arrays out.

    fast = attnpass.jax.compile(layer, (weights, x), device="cpu")
    fast(weights, x)

Needs jax: `attnpass[jax]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..program.front_ends import require

if TYPE_CHECKING:
    from ..report.records import Report
    from .compiled import CompiledJit

__all__ = ["compile"]


def compile(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    device: str = "cpu",
    report: Report | None = None,
    **options: Any,
) -> CompiledJit:
    """Compiles what jax.jit traces of `function` with example `args` and `kwargs` (trees of arrays,
    or of jax.ShapeDtypeStruct), for `device` (`cpu`, `cuda`, `cuda:1`, `hip`): a callable that
    takes trees of the same form and returns those of the function.

    `options` are those of `attnpass.compile_str`; `report` is filled in, and is the result's
    `report`, too.

    Raises ImportError without jax, AttnError for a function that cannot be traced and a device that
    does not exist, CompilerToolError where IREE fails.
    """
    require("jax")
    from ..program.compiler import ProgramCompiler
    from .compiled import compile_function

    return compile_function(function, args, kwargs, ProgramCompiler(device, report, options))
