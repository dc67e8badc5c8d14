"""IREE's wheel has no type stubs for its MLIR bindings: pyright takes all of them as Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
