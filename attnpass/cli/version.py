"""What `--version` prints of us."""

from __future__ import annotations


def version_text() -> str:
    """Our version and IREE's, as a line."""
    from importlib.metadata import version

    from .. import __version__

    return f"attnpass {__version__} (iree-base-compiler {version('iree-base-compiler')})\n"
