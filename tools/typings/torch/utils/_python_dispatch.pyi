"""For type checks without the package."""

from typing import Any

def __getattr__(name: str) -> Any: ...
