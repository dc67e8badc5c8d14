"""The tools' child process: what becomes of crashes, exit codes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Runs a body, of which both processes may say something first.
SCRIPT = """
import os, signal, sys, time
from attnpass.cli.diagnostics import run_tool
from attnpass.cli.guard import guarded

def body():
    print(os.getpid(), flush=True)
    {body}

sys.exit(guarded("tool", lambda: run_tool("tool", body)))
"""
SLEEP = "time.sleep(60)"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def start(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body)],
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
    """Whether the process ends within a while; a zombie that nobody waits for has ended."""
    for _ in range(200):
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
        ("raise KeyError('x')", 1, "tool: error: internal error: KeyError"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1, "tool: error: IREE's compiler crashed (seg"),
        ("os.abort()", 1, "tool: error: IREE's compiler crashed (aborted)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "tool: error: IREE's compiler was killed"),
    ],
)
def test_ends(body: str, code: int, says: str) -> None:
    process = start(body)
    child_of(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors.startswith(says) and errors.count("\n") == bool(says)


@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_signals_reach_the_work(number: signal.Signals, code: int, to_group: bool) -> None:
    process = start(SLEEP)
    child = child_of(process)
    (os.killpg if to_group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "")
    assert gone(child)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has such a signal")
def test_nothing_goes_on_without_the_parent() -> None:
    process = start(SLEEP)
    child = child_of(process)
    process.kill()
    process.wait()
    assert gone(child)


def test_a_second_interrupt_ends_what_hears_none() -> None:
    """As in a phase of IREE, which lets no signal through to Python."""
    process = start("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); " + SLEEP)
    child = child_of(process)
    # Until the first one has no effect, wherever the child was.
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert gone(child)


def test_an_interrupt_behind_the_work_is_too_late() -> None:
    process = start("import atexit; atexit.register(time.sleep, 2); return 0")
    child_of(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("command", ["attn_compile", "attn_opt", "attn_tune", "attn_verify"])
def test_an_interrupt_of_the_import_is_quiet(command: str, tmp_path: Path) -> None:
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
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
