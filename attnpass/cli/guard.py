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
    the child; where it ends by one, so does this process. For commands: call it before threads
    are started and before anything is printed.
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
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return body()
    _pass_on(signals, child)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = signal.Signals(os.WTERMSIG(status))
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


def _pass_on(signals: Iterable[signal.Signals], child: int) -> None:
    """Lets these signals go on to the child, but for those that the caller had ignored."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        # The same signal may have ended it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)


def _interrupt() -> Callable[[int, FrameType | None], None]:
    """A handler: a terminal interrupts parent and child, and the parent passes its own on, so
    what comes twice at once counts once."""
    last = -math.inf

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        del number, frame
        before, last = last, time.monotonic()
        if last - before > _AT_ONCE_SECONDS:
            raise KeyboardInterrupt

    return interrupt


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
