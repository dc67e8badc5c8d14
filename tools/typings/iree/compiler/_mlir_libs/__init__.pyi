"""IREE's wheel has no type stubs for these native modules: pyright takes them as Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
