"""The project's commands in forks of a process that has loaded them and the compiler, for tests:
to load those is half of a short compile.

`command` is what runs one. It is a client of a server that ends with the process that started it;
each command still has a process of its own, which may crash.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
CLIENT = Path(__file__).with_name("warm_client.py")
# What is run, by name.
TOOLS = {
    **{f"attn-{x}": f"attnpass.cli.attn_{x}" for x in ("compile", "opt", "tune", "verify")},
    "FileCheck": "filecheck.main",
}
# The dialects that a compile imports.
_DIALECTS = "arith builtin flow func hal iree_codegen iree_tensor_ext linalg stream tensor util"
_started: list[tuple[subprocess.Popen[bytes], str]] = []


def command(tool: str) -> list[str]:
    """The words that run a tool of TOOLS; arguments go behind them."""
    if not hasattr(os, "pidfd_open"):
        return [sys.executable, "-P", str(Path(__file__)), "run", tool]
    if not _started:
        _start()
    # Without the folders of packages, Python itself starts at once.
    return [sys.executable, "-I", "-S", str(CLIENT), _started[0][1], tool]


def _start() -> None:
    path = os.path.join(tempfile.mkdtemp(prefix="attnpass-"), "socket")
    # Forks of a process with threads may hang.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, "serve", path],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _started.append((server, path))
    atexit.register(_stop, os.getpid())
    if not server.stdout or server.stdout.readline() != b"ready\n":
        raise RuntimeError("the server of the tests' commands has not started")


def _stop(starter: int) -> None:
    server, _ = _started[0]
    if os.getpid() == starter and server.stdin:
        server.stdin.close()
        server.wait()


def _load_all() -> None:
    """Imports all that a compile needs, and reads what packages have registered."""
    import attnpass
    from attnpass.passes import pass_names
    from attnpass.program.front_ends import TESTED

    names = {module.name for module in pkgutil.walk_packages(attnpass.__path__, "attnpass.")}
    others = ("attnpass.kernels.hopper.", *(f"attnpass.{door}." for door in TESTED))
    names = {name for name in names if not name.startswith(others)}
    dialects = (f"iree.compiler.dialects.{name}" for name in _DIALECTS.split())
    for name in ("iree.compiler.api", "filecheck.main", *sorted(names), *dialects):
        importlib.import_module(name)
    importlib.import_module("attnpass.kernels.hopper.provider")
    pass_names()


def _serve(path: str) -> socket.socket | None:
    """Forks for each connection: in the child that connection, in the server None at the end."""
    _load_all()
    assert len(os.listdir("/proc/self/task")) == 1
    # The collector would write to pages that all forks share.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            # Standard input ends with the process that started this one.
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)
                return None
            connection, _ = listener.accept()
            if os.fork() == 0:
                return connection
            connection.close()
            _reap()


def _reap() -> None:
    """Takes note of the forks that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _received(connection: socket.socket) -> tuple[list[str], str, dict[str, str]]:
    """The words of a command, its folder and its environment; takes its three streams."""
    fds = array.array("i")
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * fds.itemsize))
    fds.frombytes(ancillary[0][2])
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    with connection.makefile("rb") as stream:
        return marshal.loads(stream.read(int.from_bytes(size, "little")))


def _is_worker(connection: socket.socket) -> bool:
    """Forks: true in the process for the command. The other tells the client how that ended, or
    ends it where the client is gone, and ends."""
    worker = os.fork()
    # Both set it: the one may kill the group, and the other fork, before the other gets to it.
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(worker, worker)
    if worker == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return True
    ended = os.pidfd_open(worker)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended in ready:
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        connection.sendall(status.to_bytes(4, "little", signed=True))
    else:
        os.killpg(worker, signal.SIGKILL)
    os._exit(0)


def _fresh_streams() -> None:
    """The standard streams of Python, as those of a new process, for other files."""
    # ruff: noqa: SIM115
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _end(code: int) -> NoReturn:
    """Ends the process; what it had loaded is not worth taking down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(tool: str, arguments: list[str]) -> int:
    sys.argv = [tool, *arguments]
    return importlib.import_module(TOOLS[tool]).main()


def _main(what: str, *words: str) -> int:
    if what == "run":
        return _run(words[0], [*words[1:]])
    connection = _serve(words[0])
    if connection is None:
        return 0
    (tool, *arguments), folder, environment = _received(connection)
    if not _is_worker(connection):
        return 0
    connection.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    _fresh_streams()
    try:
        _end(_run(tool, arguments))
    except SystemExit as error:
        _end(error.code if isinstance(error.code, int) else int(error.code is not None))


if __name__ == "__main__":
    # The package of these tests, whatever is installed.
    sys.path.insert(0, str(ROOT))
    sys.exit(_main(*sys.argv[1:]))
