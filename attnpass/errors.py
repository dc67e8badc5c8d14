"""Errors that reach a user: one line each, with a location and what to do."""

from __future__ import annotations

import os
import traceback


def first_line(error: Exception) -> str:
    """What another library's error says, in a line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


class AttnError(Exception):
    """A user's mistake or an unsupported input.

    `location` is `file:line:col`, `file`, or empty where no place is known. The
    command-line tools print `str(error)` and exit with 1; library callers catch it.
    """

    def __init__(self, message: str, location: str = ""):
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        prefix = f"{self.location}: " if self.location else ""
        return f"{prefix}error: {self.message}"


class PipelineError(AttnError):
    """A pass pipeline that cannot be parsed or built (unknown pass, bad option)."""


class PluginError(AttnError):
    """What another package registers with attnpass cannot be used; the message names both."""


class PassError(AttnError):
    """A pass that failed on its module, or left one that does not verify; `name` is the pass."""

    def __init__(self, message: str, location: str = "", name: str = ""):
        super().__init__(message, location)
        self.name = name


class InternalError(PassError):
    """A mistake of ours; `name` is the pass that made it, or empty."""

    def __init__(self, error: Exception, name: str = ""):
        text = " ".join(str(error).split())
        where = f"pass '{name}' failed: " if name else ""
        super().__init__(
            f"{where}internal error: {type(error).__name__}: {text} "
            "(ATTNPASS_TRACEBACK=1 shows where; please report it)",
            name=name,
        )
        # Here, since most callers go on without the pass.
        if os.environ.get("ATTNPASS_TRACEBACK"):
            traceback.print_exception(error)


class CompileError(AttnError):
    """IREE refused the module; its own diagnostics were already shown. `why` is the first of
    them, `place` where it points to."""

    def __init__(self, message: str, why: str = "", place: str = ""):
        super().__init__(message)
        self.why = why
        self.place = place
