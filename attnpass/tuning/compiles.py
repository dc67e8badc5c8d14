"""Compiles into a folder, each in a process of its own, and kept as soon as it has ended.

A compile is named by a hash of all that it comes from: compiled/KEY.vmfb is its result, and
compiled/KEY.json says how it went, which a folder that is begun anew does not ask again. While it
runs, all that it writes is in a folder compiled/.KEY.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..driver.children import Child, first_error, run_children
from ..errors import AttnError
from .measure import FolderError, Progress, read_json, write_json


def make_folder(path: Path, names: Iterable[str], programs: Iterable[ModuleType]) -> None:
    """Makes a folder with subfolders of these names and copies of `programs`, which run there
    without this library; AttnError where that cannot be written."""
    try:
        for name in names:
            (path / name).mkdir(parents=True, exist_ok=True)
        for program in programs:
            source = Path(program.__file__ or "")
            shutil.copyfile(source, path / source.name)
    except OSError as error:
        why = (error.strerror or "").lower()
        raise AttnError(f"cannot write there: {why}", str(path)) from None


@contextlib.contextmanager
def as_user_errors() -> Iterator[None]:
    """Has what `measure.py`, which runs without this library, says of a folder as AttnError."""
    try:
        yield
    except FolderError as error:
        raise AttnError(error.why, error.folder) from None


def kept_state(folder: Path, key: str, limit: float) -> dict[str, Any]:
    """How a compile went: `status` (compiled, failed, late), `reason`, `limit`; empty where it has
    to be done, again where it had no end within a limit below this one, in seconds."""
    state = read_json(folder / "compiled" / f"{key}.json")
    if not isinstance(state, dict):
        return {}
    return {} if state["status"] == "late" and state["limit"] < limit else state


def scratch_path(folder: Path, key: str) -> Path:
    """The folder that a compile writes in: one that is killed in a write leaves a part of it."""
    return folder / "compiled" / f".{key}"


class KeptCompile(Child):
    """A compile that runs. `command` lacks the output, `title` is for the progress; once it has
    ended, `status` and `reason` say how it went."""

    def __init__(self, folder: Path, key: str, title: str, command: Sequence[str], limit: float):
        self.folder, self.key, self.title = folder, key, title
        self.status, self.reason = "", ""
        self.scratch = scratch_path(folder, key)
        self.scratch.mkdir(exist_ok=True)
        self.output = self.scratch / "module.vmfb"
        super().__init__([*command, "-o", str(self.output)], limit)

    def finish(self) -> None:
        """Says in the folder how it went."""
        if self.late:
            self.status, self.reason = "late", f"no end of the compile within {self.limit:.3g} s"
        elif self.code:
            self.status, self.reason = "failed", first_error(self.said, self.code)
        else:
            self.status, self.reason = self.check()
        if self.status == "compiled":
            os.replace(self.output, self.folder / "compiled" / f"{self.key}.vmfb")
        state = {"status": self.status, "reason": self.reason, "limit": self.limit}
        write_json(self.folder / "compiled" / f"{self.key}.json", state)

    def check(self) -> tuple[str, str]:
        """The status and the reason of one that the compiler did not refuse."""
        return "compiled", ""

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        super().close()


ACompile = TypeVar("ACompile", bound=KeptCompile)


def run_compiles(starts: Sequence[Callable[[], ACompile]], at_once: int, quiet: bool) -> None:
    """Starts compiles in order, `at_once` at a time, and keeps each that has ended."""
    if not starts:
        return
    progress = Progress("compiled", len(starts), quiet)

    def done(one: ACompile) -> None:
        one.finish()
        progress.step(f"{one.title}: {one.status}")

    try:
        run_children(starts, at_once, done)
    finally:
        progress.stop()
