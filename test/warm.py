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
from types import ModuleType
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).parents[1]
CLIENT = Path(__file__).with_name("warm_client.py")
# What is run, by name.
TOOLS = {
    **{f"attn-{x}": f"attnpass.cli.attn_{x}" for x in ("compile", "opt", "tune", "verify")},
    "FileCheck": "filecheck.main",
}
# The dialects that a compile imports.
_DIALECTS = (
    "arith builtin flow func hal iree_codegen iree_gpu iree_tensor_ext linalg stream tensor util "
    "vector"
)
_started: list[tuple[subprocess.Popen[bytes], str]] = []
# What tells that a command has ended, its process, and the client that waits for it.
Running = dict[int, tuple[int, socket.socket]]


class Request(NamedTuple):
    """A command that a client wants to be run, with the three streams that it gives it."""

    tool: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


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
    """Imports all that a compile needs, and reads what packages have registered and which kernels
    there are."""
    import attnpass
    from attnpass.kernels.hopper.manifest import load_kernels, load_products
    from attnpass.passes import pass_names
    from attnpass.program.front_ends import TESTED

    # With the front ends of doors a fork takes twice as long; sources of kernels need Triton.
    sources = (f"attnpass.kernels.hopper.{name}" for name in ("cuda", "hopper_"))
    _load(attnpass, (*sources, *(f"attnpass.{door}" for door in TESTED)))
    dialects = (f"iree.compiler.dialects.{name}" for name in _DIALECTS.split())
    for name in ("iree.compiler.api.ctypes_dl", "filecheck.main", "importlib.readers", *dialects):
        importlib.import_module(name)
    for read in (pass_names, load_kernels, load_products):
        read()


def _load(package: ModuleType, without: tuple[str, ...]) -> None:
    """Imports the modules of a package but those whose names begin so."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.name.startswith(without):
            module = importlib.import_module(found.name)
            if found.ispkg:
                _load(module, without)


def _serve(path: str) -> Request | None:
    """Forks for each command: in the child what it is to run, in the server None at the end."""
    _load_all()
    assert len(os.listdir("/proc/self/task")) == 1
    # The collector would write to pages that all forks share.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: Running = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            # Standard input ends with the process that started this one.
            clients = [client for _, client in running.values()]
            ready, _, _ = select.select([listener, 0, *running, *clients], [], [])
            if 0 in ready:
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)
                return None
            for ended in [ended for ended in running if ended in ready]:
                _tell(ended, *running.pop(ended))
            for worker, client in running.values():
                if client in ready:
                    _kill(worker)
            if listener in ready:
                client, _ = listener.accept()
                if request := _forked(client, running):
                    return request


def _forked(client: socket.socket, running: Running) -> Request | None:
    """Forks for what a client asks: that in the child, None in the server, which adds the child
    to what is running."""
    request = _received(client)
    if request is None:
        client.close()
        return None
    worker = os.fork()
    # Both set it: the one may kill the group, and the other fork, before the other gets to it.
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(worker, worker)
    if worker:
        for fd in request.streams:
            os.close(fd)
        running[os.pidfd_open(worker)] = worker, client
        return None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client.close()
    for ended, (_, other) in running.items():
        os.close(ended)
        other.close()
    return request


def _tell(ended: int, worker: int, client: socket.socket) -> None:
    """Tells a client how its command has ended."""
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with client, contextlib.suppress(OSError):
        client.sendall(status.to_bytes(4, "little", signed=True))


def _kill(worker: int) -> None:
    """Ends a command whose client is gone: those that wait say nothing more."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker, signal.SIGKILL)


def _received(client: socket.socket) -> Request | None:
    """What a client asks for; None where it has ended before it said all."""
    fds = array.array("i")
    try:
        size, ancillary, _, _ = client.recvmsg(8, socket.CMSG_SPACE(3 * fds.itemsize))
        for _, _, data in ancillary:
            fds.frombytes(data)
        with client.makefile("rb") as stream:
            data = stream.read(int.from_bytes(size, "little"))
        (tool, *arguments), folder, environment = marshal.loads(data)
    except (OSError, EOFError, ValueError):
        for fd in fds:
            os.close(fd)
        return None
    return Request(tool, arguments, folder, environment, fds.tolist())


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
    request = _serve(words[0])
    if request is None:
        return 0
    for number, fd in enumerate(request.streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    _fresh_streams()
    try:
        _end(_run(request.tool, request.arguments))
    except SystemExit as error:
        _end(error.code if isinstance(error.code, int) else int(error.code is not None))


if __name__ == "__main__":
    # The package of these tests, whatever is installed.
    sys.path.insert(0, str(ROOT))
    sys.exit(_main(*sys.argv[1:]))
