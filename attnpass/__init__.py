"""attnpass: graph-rewrite compiler passes for attention layout, on IREE's MLIR bindings.

`attnpass.torch`, `attnpass.onnx` and `attnpass.jax` compile what these front ends make;
`compile_file` and `compile_str` stand in for the functions of the same name in
`iree.compiler.tools`, whose other names are here, too; `run` applies a pass pipeline to a module;
`pipeline_hook` is for scripts that drive an `iree.compiler.api` Session themselves.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import AttnError, CompileError, PipelineError

if TYPE_CHECKING:
    from iree.compiler.tools import (
        DEFAULT_TESTING_BACKENDS,
        CompilerOptions,
        CompilerToolError,
        InputType,
        OutputFormat,
        TempFileSaver,
        query_available_targets,
    )

    from . import jax, onnx, torch
    from .driver.flags import PassOptions
    from .driver.hook import pipeline_hook
    from .driver.run import run
    from .driver.tools import compile_file, compile_str
    from .pipeline import PipelineOptions
    from .report.records import Report

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_TESTING_BACKENDS",
    "AttnError",
    "CompileError",
    "CompilerOptions",
    "CompilerToolError",
    "InputType",
    "OutputFormat",
    "PassOptions",
    "PipelineError",
    "PipelineOptions",
    "Report",
    "TempFileSaver",
    "compile_file",
    "compile_str",
    "jax",
    "onnx",
    "pipeline_hook",
    "query_available_targets",
    "run",
    "torch",
]

# The front ends themselves are imported where they are used.
_DOORS = ("jax", "onnx", "torch")
# So that `attnpass` can stand where a script says `iree.compiler.tools`.
_OF_IREE = (
    "DEFAULT_TESTING_BACKENDS",
    "CompilerOptions",
    "CompilerToolError",
    "InputType",
    "OutputFormat",
    "TempFileSaver",
    "query_available_targets",
)
_HOMES = {
    **dict.fromkeys(_OF_IREE, "iree.compiler.tools"),
    "run": "attnpass.driver.run",
    "pipeline_hook": "attnpass.driver.hook",
    "compile_file": "attnpass.driver.tools",
    "compile_str": "attnpass.driver.tools",
    "PassOptions": "attnpass.driver.flags",
    "PipelineOptions": "attnpass.pipeline",
    "Report": "attnpass.report.records",
}

TESTED_IREE = ((3, 13), (3, 14))


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'attnpass' has no attribute '{name}'")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _check_iree() -> str:
    """What passes want that work on the forms of another IREE than the installed one, or ''.

    Raises ImportError where none is installed.
    """
    from importlib.metadata import PackageNotFoundError, version

    low, high = (".".join(map(str, bound)) for bound in TESTED_IREE)
    try:
        found = version("iree-base-compiler")
    except PackageNotFoundError:
        raise ImportError(
            f"attnpass needs iree-base-compiler >={low},<{high}, which is not installed: "
            f"pip install 'iree-base-compiler>={low},<{high}'"
        ) from None
    numbers = tuple(int(part) for part in found.split(".")[:2])
    if TESTED_IREE[0] <= numbers < TESTED_IREE[1]:
        return ""
    return (
        f"was tested with iree-base-compiler >={low},<{high}, but {found} is installed: "
        f"pip install 'iree-base-compiler>={low},<{high}'"
    )


untested = _check_iree()
