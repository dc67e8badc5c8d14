"""IREE's wheel has no type stubs for its pass manager: pyright takes all of it as Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
