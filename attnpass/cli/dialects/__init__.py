"""Python classes of dialects for the commands: linalg's without the language beside them.

At the first op of a dialect the bindings import `<package>.<dialect>` of each package that they
search. Theirs for linalg builds every named op in a Python language, too, which takes 0.15 s
and which the commands do not need. Where IREE has no classes for a dialect, a module without any is
found at once; else the bindings look for one through all packages at each of its ops.
"""

from __future__ import annotations

import sys
from types import ModuleType

_WITHOUT_CLASSES = (
    "bufferization",
    "iree_cpu",
    "iree_encoding",
    "iree_linalg_ext",
    "iree_vector_ext",
    "ml_program",
    "stablehlo",
    "tm_tensor",
    "torch",
    "torch_c",
)


def search_here() -> None:
    """Makes the bindings of this process look here before their own dialects."""
    from iree.compiler._mlir_libs import _mlir

    packages = _mlir.globals.dialect_search_modules
    if __name__ not in packages:
        _mlir.globals.dialect_search_modules = [__name__, *packages]
    for name in _WITHOUT_CLASSES:
        sys.modules.setdefault(f"{__name__}.{name}", ModuleType(name))
