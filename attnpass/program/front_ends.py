"""The optional packages that doors need: whether they are there, in a version that was tested."""

from __future__ import annotations

import importlib.util
import warnings
from importlib.metadata import PackageNotFoundError, version

# As the extras in pyproject.toml, which a test compares: the package, from, below.
TESTED = {
    "torch": ("torch", "2.13", "2.14"),
    "onnx": ("onnx", "1.16", "2"),
    "jax": ("jax", "0.10", "0.11"),
}


def require(door: str) -> None:
    """ImportError, with the line that installs it, where the front end of `attnpass.<door>` is
    missing; warns once where its version is none of those tested."""
    package, low, high = TESTED[door]
    wanted = f"{package} >={low},<{high}"
    line = f"pip install 'attnpass[{door}]'"
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"attnpass.{door} needs {wanted}, which is not installed: {line}")
    try:
        found = version(package)
    except PackageNotFoundError:
        return
    if not _numbers(low) <= _numbers(found) < _numbers(high):
        warnings.warn(
            f"attnpass.{door} was tested with {wanted}, but {found} is installed: {line}",
            RuntimeWarning,
            stacklevel=3,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 13) of `2.13.0+cpu`, (2,) of `2`."""
    parts = text.partition("+")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())
