"""Commands as child processes, each in a group of its own and with a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

# A group that was killed is gone at once, but for a process that no parent takes note of.
_MOST_WAIT_SECONDS = 2.0


class Child:
    """A command that runs, for at most `limit` seconds."""

    def __init__(self, command: Sequence[str], limit: float):
        self.limit = limit
        self.late = False
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (of this object's life)
        self._start = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    def ended(self) -> bool:
        """Whether it is done, or was `late` and is ended now."""
        if self._process.poll() is not None:
            return True
        self.late = time.monotonic() - self._start >= self.limit
        if self.late:
            self.kill()
        return self.late

    @property
    def code(self) -> int:
        """The exit code; below 0 the signal that ended it. Once it has ended."""
        code = self._process.returncode
        assert code is not None, "still running"
        return code

    @property
    def said(self) -> str:
        """What it wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def kill(self) -> None:
        """Ends the process and what it started, and waits for the end of all of them."""
        # Once the process is waited for, its group's number may be another's.
        if self._process.returncode is not None:
            return
        group = self._process.pid
        until = time.monotonic() + _MOST_WAIT_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
            self._process.wait()
            # As long as one is in it, the number is this group's. A killed process ends the call
            # that it is in, which may make a file.
            while time.monotonic() < until and _is_running(group):
                time.sleep(0.002)
        self._process.wait()

    def close(self) -> None:
        """Forgets what it said; it has ended."""
        self._errors.close()


def _is_running(group: int) -> bool:
    """Whether a process of a group has not ended; ProcessLookupError where there is none at all.
    One that has ended stays in it until its parent asks, which may take a container's first
    process seconds."""
    os.killpg(group, 0)
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group, *_ = path.read_text().rpartition(")")[2].split()
            found += [state] if int(its_group) == group else []
    return not found or any(state not in "ZX" for state in found)


AChild = TypeVar("AChild", bound=Child)
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Has Python's handlers of signals that end a process wait for the end of the block.

    A handler that raises between a child's start and its place in a list would leave it running.
    """
    if threading.current_thread() is not threading.main_thread():
        # Handlers run in the main thread alone.
        yield
        return
    came: list[int] = []
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    waiting = [number for number, handler in handlers.items() if callable(handler)]
    for number in waiting:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number in waiting:
            signal.signal(number, handlers[number])
        for number in came:
            signal.raise_signal(number)


def run_children(
    starts: Sequence[Callable[[], AChild]], at_once: int, done: Callable[[AChild], None]
) -> None:
    """Starts children in order, `at_once` at a time, and calls `done` with each that has ended."""
    waiting = list(starts)
    active: list[AChild] = []
    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                with _undisturbed():
                    active.append(waiting.pop(0)())
            for child in [child for child in active if child.ended()]:
                active.remove(child)
                done(child)
                child.close()
            time.sleep(0.02)
    finally:
        for child in active:
            child.kill()
            child.close()


def first_error(text: str, code: int) -> str:
    """What a compiler that failed said first, without the place."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if "error: " in line), "")
    if found:
        return found.partition("error: ")[2][:300]
    if code < 0:
        return f"the compiler crashed (signal {-code})"
    return lines[-1][:300] if lines else f"the compiler ended with exit code {code}"


def error_place(text: str) -> str:
    """Where a compiler that failed said it failed; '' where that is no place in a file."""
    for line in text.splitlines():
        place, found, _ = line.partition(": error: ")
        if found:
            return "" if place in ("attn-compile", "attn-tune", "iree-compile") else place
    return ""
