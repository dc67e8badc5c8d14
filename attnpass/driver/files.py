"""Reading and writing files for the tools: whole or not at all, with clear errors."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import AttnError

STANDARD = "-"
_BYTECODE = b"ML\xefR"
# Where LLVM looks for a folder of temporary files, the first that is set.
_LEAST_SPACE = 1 << 16
_TEMPORARY = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")


def read_input(path: str) -> bytes:
    """The bytes of a file, or of standard input for '-'."""
    if path == STANDARD and sys.stdin is None:
        raise AttnError("cannot read it: standard input is closed", "<stdin>")
    try:
        if path == STANDARD:
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        name = "<stdin>" if path == STANDARD else path
        raise AttnError(f"cannot read it: {_why(error)}", name) from None


def printable(path: str) -> str:
    """A path as UTF-8 for messages and for IREE, with escapes for what of it is none."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_bytecode(data: bytes) -> bool:
    return data.startswith(_BYTECODE)


def decode(data: bytes, name: str) -> str:
    """The text of an MLIR file; AttnError, with the place, where it is none."""
    if data.startswith(codecs.BOM_UTF8):
        raise AttnError("it begins with a byte order mark, which MLIR does not take", f"{name}:1:1")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise AttnError("neither MLIR text nor MLIR bytecode", f"{name}:1:1") from None
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        words = f"the byte 0x{data[error.start]:02x} is no UTF-8, in which MLIR is written"
        raise AttnError(words, f"{name}:{line}:{column}") from None
    if "\0" in text:
        raise AttnError("neither MLIR text nor MLIR bytecode", f"{name}:1:1")
    return text


def check_temporary_folder() -> None:
    """AttnError if there is no such folder where the environment says: IREE 3.13 crashes then."""
    name = next((name for name in _TEMPORARY if os.environ.get(name)), None)
    if name is not None and not os.access(os.environ[name], os.W_OK | os.X_OK):
        raise AttnError(
            f"the environment's {name} is no folder that files can be written in; IREE needs one",
            os.environ[name],
        )


def full_temporary_folder(said: str) -> str:
    """The folder of temporary files if it is full, as far as a failed compile, which `said` so
    much, can tell; else ''."""
    named = (os.environ[name] for name in _TEMPORARY if os.environ.get(name))
    folder = next(named, None) or tempfile.gettempdir()
    # In the system's own words, unlike ours about the output.
    if os.strerror(errno.ENOSPC) in said:
        return folder
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_LEAST_SPACE))
    except OSError as error:
        return folder if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return ""


@contextlib.contextmanager
def sole_user(folder: Path) -> Iterator[None]:
    """Holds a folder, if there is one, against other processes that do so; AttnError where one of
    them holds it already."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Who reads or makes it says what is wrong.
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        words = "another command works in it: wait for that, or name another folder"
        raise AttnError(words, str(folder)) from None
    finally:
        os.close(handle)


def check_writable(path: str) -> None:
    """AttnError if a file could not be written at `path`; writes nothing."""
    if path == STANDARD:
        if sys.stdout is None:
            raise AttnError("cannot write it: standard output is closed", "<stdout>")
        return
    target = Path(path)
    try:
        _behind_links(path)
    except OSError as error:
        raise AttnError(f"cannot write it: {_why(error)}", path) from None
    if target.is_dir():
        raise AttnError("cannot write it: it is a folder", path)
    if target.exists():
        if not os.access(target, os.W_OK):
            raise AttnError("cannot write it: permission denied", path)
    elif not target.parent.is_dir():
        raise AttnError(f"cannot write it: no folder '{target.parent}'", path)
    elif not os.access(target.parent, os.W_OK):
        raise AttnError("cannot write it: permission denied", path)


def check_all_differ(written: Mapping[str, str], read: Sequence[str] = ()) -> None:
    """AttnError if two of the files that are `written`, by what they are called, are one, or one of
    them is an input that is `read`. What goes to standard error is not to be among them."""
    names = list(written)
    for number, name in enumerate(names):
        for other in names[:number]:
            if _is_same(written[other], written[name]):
                text = f"the {other} and the {name} cannot be one file"
                raise AttnError(text, written[name])
        if any(path != STANDARD and _is_same(path, written[name]) for path in read):
            raise AttnError(f"the {name} would overwrite the input", written[name])


def _is_same(one: str, other: str) -> bool:
    if one == other or STANDARD in (one, other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other) and not _is_special(one)


def write_output(path: str, data: bytes) -> None:
    """Writes all of `data`, or raises AttnError and leaves what was there."""
    try:
        if path == STANDARD:
            check_writable(path)
            flush_output()
            sys.stdout.buffer.write(data)
            flush_output()
            return
        if _is_special(path):
            Path(path).write_bytes(data)
            return
        # A link stays: what it points to is replaced.
        target = _behind_links(path)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "<stdout>" if path == STANDARD else path
        raise AttnError(f"cannot write it: {_why(error)}", name) from None


def flush_output() -> None:
    """Writes what waits for standard output; AttnError where that cannot be."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AttnError(f"cannot write it: {_why(error)}", "<stdout>") from None


def forget_output() -> None:
    """Drops what could not be written: the interpreter must not complain of it at exit."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _behind_links(path: str) -> Path:
    """The file that a path means; OSError for links that lead to themselves."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _is_special(path: str) -> bool:
    """Whether `path` is a device, a pipe or an open stream, which cannot be replaced."""
    target = Path(path)
    streams = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    return streams or (target.exists() and not target.is_file())


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
