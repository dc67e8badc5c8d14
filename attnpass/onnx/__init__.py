"""The door for ONNX: files in, callables on numpy arrays out.

    fast = attnpass.onnx.compile("model.onnx", device="cpu")
    fast(tokens)

Needs onnx: `attnpass[onnx]`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..program.front_ends import require

if TYPE_CHECKING:
    import onnx

    from ..report.records import Report
    from .compiled import CompiledGraph

__all__ = ["compile"]


def compile(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    device: str = "cpu",
    report: Report | None = None,
    **options: Any,
) -> CompiledGraph:
    """Compiles a model for `device` (`cpu`, `cuda`, `cuda:1`, `hip`): a callable that takes arrays
    in the order of the graph's inputs, or by their names, and returns an array, or a tuple of
    several.

    `options` are those of `attnpass.compile_str`; `report` is filled in, and is the result's
    `report`, too. Initializers are parameters of the program, read once, here.

    Raises ImportError without onnx, AttnError for a file that is no model, a model that IREE cannot
    import and a device that does not exist, CompilerToolError where IREE fails.
    """
    require("onnx")
    from ..program.compiler import ProgramCompiler
    from .compiled import compile_graph

    return compile_graph(model, ProgramCompiler(device, report, options))
