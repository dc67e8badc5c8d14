"""The classes of linalg's ops as they are generated."""

from iree.compiler.dialects import _linalg_enum_gen, _linalg_ops_gen

__all__ = ["_linalg_enum_gen", "_linalg_ops_gen"]
