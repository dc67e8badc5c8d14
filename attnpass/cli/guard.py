"""A child process for the tools' work, so that a crash of the compiler stays a message.

IREE 3.13 ends with a segmentation fault on some mistakes (`--iree-cuda-target=gfx942`, an
unknown `--iree-llvmcpu-target-triple`). Nothing in the same process can report that.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType

# What the system sends a process for a mistake of its own.
_CRASHES = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")
    if hasattr(signal, name)
)
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP")
_SET_PARENT_DEATH_SIGNAL = 1
_AT_ONCE_SECONDS = 0.5


def guarded(name: str, body: Callable[[], int]) -> int:
    """The exit code of `body`, run in a child of this process where the system can fork.

    A crash there is one line on standard error and 1, an interrupt 130. Signals to end go to
    the child; where it ends by one, so does this process. A second interrupt kills the child:
    IREE notices none within a phase. For commands: call it before threads are started and
    before anything is printed.
    """
    if not hasattr(os, "fork"):
        return body()
    parent = os.getpid()
    # Until both processes are ready for them.
    signals = {getattr(signal, name) for name in _PASSED_ON}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        _end_with(parent)
        return _interruptible(body, before)
    relay = _Relay(child)
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, relay)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = signal.SIGINT if relay.killed else signal.Signals(os.WTERMSIG(status))
    if number in _CRASHES:
        print(f"{name}: error: {_crash_words(number)}", file=sys.stderr)
        return 1
    if number == signal.SIGKILL:
        print(f"{name}: error: the compiler was killed (out of memory?)", file=sys.stderr)
        return 1
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)
        os.kill(parent, number)
    return 128 + number


class _Interrupts:
    """Tells interrupts apart: a terminal sends one to parent and child, and the parent passes
    its own on, so what comes twice at once counts once."""

    def __init__(self) -> None:
        self._last = -math.inf

    def another(self) -> bool:
        before, self._last = self._last, time.monotonic()
        return self._last - before > _AT_ONCE_SECONDS


class _Relay:
    """A handler that passes signals on to the child, and kills it at the second interrupt."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.interrupted = self.killed = False
        self._interrupts = _Interrupts()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT and self._interrupts.another():
            self.killed, self.interrupted = self.interrupted, True
        # The same signal may have ended it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL if self.killed else number)


def _interruptible(body: Callable[[], int], mask: Iterable[int]) -> int:
    """The exit code of `body`, which an interrupt reaches as KeyboardInterrupt; 130 where it is
    left by one. Before and after, interrupts wait: this process has nothing more to say."""
    interrupts = _Interrupts()

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        if interrupts.another():
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return body()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    except KeyboardInterrupt:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return 130


def _end_with(parent: int) -> None:
    """Linux: this process is killed with its parent, who may not get to pass anything on."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _crash_words(number: signal.Signals) -> str:
    words = (signal.strsignal(number) or number.name).lower()
    return (
        f"IREE's compiler crashed ({words}); what it said last stands above. Look for a flag that "
        "names a target or a file that it cannot take"
    )
