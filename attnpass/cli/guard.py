"""A child process for the tools' work, so that a crash of the compiler stays a message.

IREE 3.13 ends with a segmentation fault on some mistakes (`--iree-cuda-target=gfx942`, an
unknown `--iree-llvmcpu-target-triple`). Nothing in the same process can report that.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
# How long a child that is told to end may take for it: IREE hears nothing within a phase.
_PATIENCE_SECONDS = 0.8
# What to do about a crash.
HINT = (
    "; what it said, if anything, stands above. Look for a flag that names a target or a file "
    "that it cannot take"
)


@dataclass(frozen=True)
class ChildExit:
    """How a child process ended: its exit code, or the signal that ended it."""

    code: int = 0
    signal: signal.Signals | None = None

    @property
    def crash(self) -> str:
        """What happened to the compiler in it, in words; '' where it did not crash."""
        if self.signal is None:
            return ""
        if self.signal in _CRASHES:
            return f"crashed ({(signal.strsignal(self.signal) or self.signal.name).lower()})"
        return "was killed (out of memory?)" if self.signal == signal.SIGKILL else ""


class Channel:
    """A pipe out of a child; `take` gets what comes through it."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self.reader, self.writer = os.pipe()
        self.take = take


class HeldText:
    """Text that is held back until it is known whether it counts, and printed at once from the
    byte on from which there is too much of it."""

    def __init__(self, most: int = 1 << 20) -> None:
        self._parts: list[bytes] = []
        self._most = most

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        if sum(map(len, self._parts)) > self._most:
            self.print()
            self._most = 0

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")

    def print(self) -> None:
        """Writes it to standard error, where there is one."""
        text, self._parts = self.text, []
        if text and sys.stderr:
            sys.stderr.write(text)
            sys.stderr.flush()


def guarded(name: str, body: Callable[[], int]) -> int:
    """The exit code of `body`, run in a child of this process where the system can fork.

    A crash there is one line on standard error and 1; an interrupt is a line, too, and 130.
    Where the child ends by another signal, so does this process. For commands: see `in_child`.
    """
    if not hasattr(os, "fork"):
        return body()
    ended = in_child(body)
    if ended.crash:
        print(f"{name}: error: IREE's compiler {ended.crash}{HINT}", file=sys.stderr)
        return 1
    return exit_code(name, ended)


def exit_code(name: str, ended: ChildExit) -> int:
    """The exit code of the command `name` after a child that did not crash; ends this process by
    the child's signal where that was none to interrupt."""
    if ended.signal is None:
        return ended.code
    if ended.signal == signal.SIGINT:
        print(f"{name}: interrupted", file=sys.stderr)
    if ended.signal != signal.SIGINT:
        signal.signal(ended.signal, signal.SIG_DFL)
        os.kill(os.getpid(), ended.signal)
    return 128 + ended.signal


def in_child(body: Callable[[], int], channels: Sequence[Channel] = ()) -> ChildExit:
    """Runs `body`, which returns an exit code, in a child of this process, and waits for it.

    Signals to end go to the child, which is killed if it has not ended within a second. For
    commands: call it before threads are started and before anything is printed.
    """
    parent = os.getpid()
    # Until both processes are ready for them.
    signals = {getattr(signal, name) for name in _PASSED_ON}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        _end_with(parent)
        for channel in channels:
            os.close(channel.reader)
        sys.exit(_interruptible(body, before))
    relay = _Relay(child)
    handlers = {n: signal.getsignal(n) for n in signals}
    heard = {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in heard:
        signal.signal(number, relay)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for channel in channels:
        os.close(channel.writer)
    status = _follow(child, channels)
    relay.end()
    for number, handler in heard.items():
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    if os.WIFEXITED(status):
        return ChildExit(os.WEXITSTATUS(status))
    number = relay.asked if relay.killed else os.WTERMSIG(status)
    return ChildExit(signal=signal.Signals(number))


def _follow(child: int, channels: Sequence[Channel]) -> int:
    """The status that a child ends with; takes what comes out of it. Processes of its own that
    outlive it, and hold its pipes open, are not waited for."""
    status: int | None = None
    with selectors.DefaultSelector() as waiting:
        for channel in channels:
            waiting.register(channel.reader, selectors.EVENT_READ, channel)
        while waiting.get_map():
            ready = waiting.select(_AT_ONCE_SECONDS if status is None else 0)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                key.data.take(data)
                if not data:
                    waiting.unregister(key.fd)
            if status is not None and not ready:
                break
            if status is None:
                ended, found = os.waitpid(child, os.WNOHANG)
                status = found if ended else None
    for channel in channels:
        os.close(channel.reader)
    return os.waitpid(child, 0)[1] if status is None else status


class _Interrupts:
    """Tells interrupts apart: a terminal sends one to parent and child, and the parent passes
    its own on, so what comes twice at once counts once."""

    def __init__(self) -> None:
        self._last = -math.inf

    @property
    def came(self) -> bool:
        """Whether there was one, though it may not have reached the work: what IREE calls in a
        compile may make another error of it."""
        return self._last > -math.inf

    def another(self) -> bool:
        before, self._last = self._last, time.monotonic()
        return self._last - before > _AT_ONCE_SECONDS


class _Relay:
    """A handler that passes signals on to the child, and kills it if that does not end it."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.asked = 0
        self.killed = False
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._kill)
        self._timer.daemon = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:
            self.asked = number
            self._timer.start()
        # The same signal may have ended it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, number)

    def _kill(self) -> None:
        self.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)

    def end(self) -> None:
        """The child has ended: its number may be another's now."""
        self._timer.cancel()


class _Terminated(BaseException):
    """A signal to end, on its way through what has children of its own to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise _Terminated(number)


def _interruptible(body: Callable[[], int], mask: Iterable[int]) -> int:
    """The exit code of `body`, which an interrupt reaches as KeyboardInterrupt; 130 where it is
    left by one. Before and after, interrupts wait: this process has nothing more to say. Other
    signals to end unwind `body`, too, and end the process then."""
    interrupts = _Interrupts()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if interrupts.another():
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    for number in {getattr(signal, name) for name in _PASSED_ON} - {signal.SIGINT}:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    try:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            code = body()
            return 130 if code and interrupts.came else code
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    except KeyboardInterrupt:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return 130
    except _Terminated as terminated:
        signal.signal(terminated.number, signal.SIG_DFL)
        os.kill(os.getpid(), terminated.number)
        raise


def _end_with(parent: int) -> None:
    """Linux: this process is killed with its parent, who may not get to pass anything on."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
