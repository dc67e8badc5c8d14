"""The tools' child process: what becomes of crashes, exit codes and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import pytest
from iree.compiler import ir

from attnpass.driver.children import Child, run_children
from attnpass.ir import walk

ROOT = Path(__file__).parents[2]
# Runs a body, of which both processes may say something first.
SCRIPT = """
import os, signal, sys, time
from attnpass.cli import guard
from attnpass.cli.diagnostics import run_tool

guard._PATIENCE_SECONDS = {patience}

def behind():
    print("behind", flush=True)
    time.sleep(0.2)

def body():
    print(os.getpid(), flush=True)
    {body}

sys.exit(guard.guarded("tool", lambda: run_tool("tool", body)))
"""
SLEEP = "time.sleep(60)"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def start(body: str, patience: float = 0.8) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body, patience=patience)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def child_of(process: subprocess.Popen[str]) -> int:
    """The child's process id, which it prints when it works."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def gone(pid: int) -> bool:
    """Whether the process ends long before SLEEP does; a zombie that nobody waits for has ended."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("return 0", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit(5)", 5, ""),
        # An interrupt of which something on its way has made another error.
        ("try: signal.raise_signal(2)\n    except KeyboardInterrupt: return 1", 130, ""),
        ("raise KeyError('x')", 1, "tool: error: internal error: KeyError"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1, "tool: error: IREE's compiler crashed (seg"),
        ("os.abort()", 1, "tool: error: IREE's compiler crashed (aborted)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "tool: error: IREE's compiler was killed"),
    ],
)
def test_ends(body: str, code: int, says: str) -> None:
    process = start(body)
    child_of(process)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code
    assert errors.startswith(says) and errors.count("\n") == bool(says)


@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGINT, 130, "tool: interrupted\n"), (signal.SIGTERM, -signal.SIGTERM, "")],
)
def test_signals_reach_the_work(
    number: signal.Signals, code: int, says: str, to_group: bool
) -> None:
    process = start(SLEEP)
    child = child_of(process)
    (os.killpg if to_group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (code, says)
    assert gone(child)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has such a signal")
def test_nothing_goes_on_without_the_parent() -> None:
    process = start(SLEEP)
    child = child_of(process)
    process.kill()
    process.wait()
    assert gone(child)


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGINT, 130, "tool: interrupted\n"), (signal.SIGTERM, -signal.SIGTERM, "")],
)
def test_what_hears_no_signal_is_killed(number: signal.Signals, code: int, says: str) -> None:
    """As in a phase of IREE, which lets no signal through to Python."""
    process = start("signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15}); " + SLEEP)
    child = child_of(process)
    # Until it has no effect, wherever the child was.
    time.sleep(0.2)
    process.send_signal(number)
    before = time.monotonic()
    _, errors = process.communicate(timeout=300)
    # Long before it ends by itself.
    assert time.monotonic() - before < 30
    assert (process.returncode, errors) == (code, says)
    assert gone(child)


def test_work_that_is_terminated_ends_its_own() -> None:
    """A child of the work in a group of its own, which no signal to the work's group reaches."""
    kill = "sys.path.insert(0, %r); from attnpass.driver.children import Child, run_children; "
    run = "run_children([lambda: Child(['sleep', '61.25'], 60)], 1, print)"
    process = start(kill % str(ROOT) + run)
    child = child_of(process)
    status = Path(f"/proc/{child}/task/{child}/children")
    deadline = time.monotonic() + 300
    while not status.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    sleeper = int(status.read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGTERM
    assert gone(child) and gone(sleeper)


def test_an_interrupt_of_a_walk_is_one() -> None:
    def interrupted(op: ir.Operation) -> ir.WalkResult:
        raise KeyboardInterrupt

    with ir.Context(), pytest.raises(KeyboardInterrupt):
        walk(ir.Module.parse("module {}").operation, interrupted)


def test_an_interrupt_behind_the_work_is_too_late() -> None:
    # A busy machine may take seconds to end the process.
    process = start("import atexit; atexit.register(behind); return 0", patience=250)
    child_of(process)
    assert process.stdout is not None and process.stdout.readline() == "behind\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("command", ["attn_compile", "attn_opt", "attn_tune", "attn_verify"])
def test_an_interrupt_of_the_import_is_told(command: str, tmp_path: Path) -> None:
    package = tmp_path / "attnpass"
    package.mkdir()
    (package / "__init__.py").write_text("import time; print('importing', flush=True); " + SLEEP)
    process = subprocess.Popen(
        [sys.executable, "-c", f"from attnpass_commands import {command} as main; main()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    name = command.replace("_", "-")
    assert (process.returncode, errors) == (130, f"{name}: interrupted\n")


def test_none_of_a_killed_group_is_left() -> None:
    """What a child started may be in a call that makes a file; the files are removed after."""
    process = "import os; os.fork()\nwhile True: open(os.devnull).close()"
    for _ in range(4):
        child = Child([sys.executable, "-c", process], 60)
        time.sleep(0.1)
        child.kill()
        left = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group, *_ = path.read_text().rpartition(")")[2].split()
                left += [state] if int(group) == child._process.pid else []
        assert {*left} <= {"Z", "X"}
        child.close()


def test_a_signal_waits_for_the_start_of_a_child() -> None:
    """One that comes when the child runs and nobody knows it yet."""
    started: list[Child] = []

    def start() -> Child:
        started.append(Child(["sleep", "61.5"], 60))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(SystemExit):
            run_children([start], 1, print)
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started[0].code == -signal.SIGKILL
