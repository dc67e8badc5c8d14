"""Mistakes on attn-opt's command line: one clear line, exit code 1, no output file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm

import attnpass.cli.attn_opt as attn_opt
from attnpass.driver.files import check_writable, write_output
from attnpass.errors import AttnError

ROOT = Path(__file__).parents[2]
GOOD = "func.func @f() {\n  return\n}\n"
WRONG_TYPE = "module {\n  func.func @f(%a: tensor<2xf32>) -> f32 {\n    return %a : f32\n  }\n}\n"
BYTECODE = b"ML\xefR"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "attnpass.cli.attn_opt", *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def opt(*arguments: str, folder: Path, **kwargs) -> subprocess.CompletedProcess[bytes]:
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [*warm.command("attn-opt"), *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
        **kwargs,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.mlir").write_text(GOOD)
    (tmp_path / "folder").mkdir()
    return tmp_path


# What the file holds, and what is said of it.
CONTENTS = [
    (b"", r"in:1:1: error: the file is empty; an MLIR module is needed"),
    (b" \n\t\n", r"in:1:1: error: the file is empty; an MLIR module is needed"),
    (b"hello, world\n", r"in:1:1: error: .*hello"),
    (b"func.func @f( {\n", r"in:1:\d+: error: expected"),
    (b"func.func @f() {\n  return\n", r"in:\d:\d+: error: expected"),
    (b"func.func @f() {\n  no.such\n  return\n}\n", r"in:2:3: error: Dialect `no' not found"),
    (WRONG_TYPE.encode(), r"in:3:\d+: error: use of value '%a' expects different type"),
    (bytes(range(256)) * 8, r"in:1:1: error: neither MLIR text nor MLIR bytecode"),
    (GOOD.encode() + b"\0", r"in:1:1: error: neither MLIR text nor MLIR bytecode"),
    (GOOD.encode("utf-16"), r"in:1:1: error: neither MLIR text nor MLIR bytecode"),
    (b"func.func @f() {\n  return // \xe9\n}\n", r"in:2:13: error: the byte 0xe9 is no UTF-8"),
    (b"\xef\xbb\xbf" + GOOD.encode(), r"in:1:1: error: it begins with a byte order mark"),
    (BYTECODE, r"in: error: .+"),
    (BYTECODE + b"garbage", r"in: error: bytecode version 51 is newer"),
    (BYTECODE + b"\x0dMLIR24\0" + b"\xff" * 40, r"in: error: .+"),
]


@pytest.mark.parametrize(("content", "says"), CONTENTS)
@pytest.mark.parametrize("standard_input", [False, True])
def test_bad_content(content: bytes, says: str, standard_input: bool, folder: Path) -> None:
    (folder / "in").write_bytes(content)
    if standard_input:
        with (folder / "in").open("rb") as stream:
            done = opt("-o", "out", "--cse", folder=folder, stdin=stream)
        says = says.replace("in:", "<stdin>:", 1)
    else:
        done = opt("in", "-o", "out", "--cse", folder=folder)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert re.match(says, lines[0]), lines
    assert sum("error:" in line for line in lines) == 1
    assert "Traceback" not in done.stderr.decode()
    assert not (folder / "out").exists()


# The arguments, and the one line that they bring.
ARGUMENTS = [
    ("missing.mlir", r"missing\.mlir: error: cannot read it: no such file or directory"),
    ("folder", r"folder: error: cannot read it: is a directory"),
    ("good.mlir/x", r"good\.mlir/x: error: cannot read it: not a directory"),
    ("good.mlir other.mlir", r"attn-opt: error: more than one input file: 'good\.mlir' and .*"),
    ("good.mlir -o folder", r"folder: error: cannot write it: it is a folder"),
    ("good.mlir -o no/out", r"no/out: error: cannot write it: no folder 'no'"),
    ("good.mlir -o good.mlir/out", r".*: error: cannot write it: no folder 'good\.mlir'"),
    ("good.mlir --report=folder", r"folder: error: cannot write it: it is a folder"),
    ("good.mlir -o x --report=x", r"x: error: the output and the report cannot be one file"),
    ("missing.mlir -o folder", r"folder: error: cannot write it: it is a folder"),
    ("good.mlir -o", r"attn-opt: error: option '-o' needs a value"),
    ("good.mlir --target -p cse", r"attn-opt: error: option '--target' needs a value"),
    ("good.mlir --target", r"attn-opt: error: option '--target' needs a value"),
    ("good.mlir --target=", r"attn-opt: error: option '--target=' needs a value"),
    ("good.mlir --target=sm_9", r"attn-opt: error: unknown target 'sm_9' \(known: .*sm_80.*"),
    ("good.mlir --target=gfx9", r"attn-opt: error: unknown target 'gfx9' \(known: .*gfx942.*"),
    ("good.mlir --target=pdp11", r"attn-opt: error: unknown target 'pdp11' \(known: .*sm_80.*"),
    ("good.mlir --no-verify=1", r"attn-opt: error: option '--no-verify' takes no value, .*"),
    ("good.mlir -q", r"attn-opt: error: unknown option '-q'; --help lists the options"),
    ("good.mlir --", r"attn-opt: error: unknown option '--'; --help lists the options"),
    ("good.mlir --=x", r"attn-opt: error: unknown option '--=x'; --help lists the options"),
    ("good.mlir --no-such", r"attn-opt: error: pass 'no-such': 'no-such' does not refer to .*"),
    ("good.mlir --remark", r"attn-opt: error: .*; did you mean '--remarks'\?"),
    ("good.mlir --show-pass", r"attn-opt: error: .*; did you mean '--show-passes'\?"),
    (
        "good.mlir --attn-qqqqqqqq",
        r"attn-opt: error: unknown pass 'attn-qqqqqqqq'; --show-passes lists .*",
    ),
    (
        "good.mlir --attn-propagate-layot",
        r"attn-opt: error: unknown pass .*; did you mean 'attn-propagate-layout'\?",
    ),
    (
        "good.mlir --attn-propagate-layout=mode=perhaps",
        r"attn-opt: error: pass 'attn-propagate-layout': 'perhaps' is not a value of option "
        r"'mode' \(use cost, always, never\)",
    ),
    (
        "good.mlir --attn-propagate-layout=mod=cost",
        r"attn-opt: error: pass 'attn-propagate-layout' has no option 'mod' \(it has: mode, .*",
    ),
    ("good.mlir --attn-propagate-layout={mode", r"attn-opt: error: .*missing '}'"),
    ("good.mlir --cse=no-such=1", r"attn-opt: error: pass 'cse\{.*\}': no such option no-such"),
    ("good.mlir --cse -p cse", r"attn-opt: error: passes are given both .*"),
    ("good.mlir -p cse,", r"attn-opt: error: pass pipeline 'cse,', column 5: expected a pass .*"),
    ("good.mlir -p builtin.modul(cse)", r"attn-opt: error: no op is called 'builtin.modul', .*"),
    ("good.mlir -p builtin.module(cse", r"attn-opt: error: .*column 19: expected '\)'"),
    (
        "good.mlir -p func.func(attn-fold-transpose)",
        r"attn-opt: error: .*column 11 is nested under 'func\.func'.* at builtin\.module level",
    ),
]


@pytest.mark.parametrize(("arguments", "says"), ARGUMENTS)
def test_bad_arguments(arguments: str, says: str, folder: Path) -> None:
    words = arguments.split()
    if "-o" not in words:
        words = ["-o", "out", *words]
    before = sorted(folder.rglob("*"))
    done = opt(*words, folder=folder)
    assert (done.returncode, done.stdout) == (1, b"")
    assert re.fullmatch(says + "\n", done.stderr.decode()), done.stderr.decode()
    assert sorted(folder.rglob("*")) == before


def test_a_failure_leaves_the_output_as_it_was(folder: Path) -> None:
    (folder / "out").write_text("before")
    (folder / "bad.mlir").write_text("func.func @f(")
    assert opt("bad.mlir", "-o", "out", folder=folder).returncode == 1
    assert (folder / "out").read_text() == "before"
    assert opt("good.mlir", "-o", "out", folder=folder).returncode == 0
    assert "func.func @f" in (folder / "out").read_text()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_an_input_is_not_written_over(folder: Path) -> None:
    before = (folder / "good.mlir").read_text()
    done = opt("good.mlir", "-o", "good.mlir", folder=folder)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"good.mlir: error: the output would overwrite the input\n"
    assert (folder / "good.mlir").read_text() == before


def test_bytecode_is_read(folder: Path) -> None:
    from iree.compiler import ir

    context = ir.Context()
    context.load_all_available_dialects()
    with (folder / "good.mlirbc").open("wb") as stream:
        ir.Module.parse(GOOD, context).operation.write_bytecode(stream)
    done = opt("good.mlirbc", "--cse", folder=folder)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == opt("good.mlir", "--cse", folder=folder).stdout


@pytest.fixture
def as_user() -> Iterator[Path]:
    """A folder that only root may write to, for a process that is not root for a while."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_text("before")
        (folder / "file").chmod(0o444)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.setresuid(65534, 65534, 0)
        try:
            yield folder
        finally:
            if user == 0:
                os.setresuid(0, 0, 0)
            folder.chmod(0o755)


def test_read_only_outputs_are_refused_before_work(as_user: Path, capsys) -> None:
    for path in (as_user / "file", as_user / "new"):
        with pytest.raises(AttnError) as error:
            check_writable(str(path))
        assert str(error.value) == f"{path}: error: cannot write it: permission denied"
        # The input is not even looked for.
        assert attn_opt.main(["missing.mlir", "-o", str(path)]) == 1
        assert capsys.readouterr().err == f"{error.value}\n"


def test_a_write_that_fails_leaves_nothing(as_user: Path) -> None:
    with pytest.raises(AttnError) as error:
        write_output(str(as_user / "new"), b"data")
    assert "cannot write it: permission denied" in str(error.value)
    assert [path.name for path in as_user.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("arguments", [["good.mlir"], ["--help"], ["--show-passes"]])
def test_a_full_disk(arguments: list[str], folder: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = opt(*arguments, folder=folder, stdout=full)
    assert done.returncode == 1
    assert done.stderr == b"<stdout>: error: cannot write it: no space left on device\n"


def test_closed_streams(folder: Path) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command("good.mlir")]
    done = subprocess.run(shell, cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr == b"<stdout>: error: cannot write it: standard output is closed\n"
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command("-")]
    done = subprocess.run(shell, cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr == b"<stdin>: error: cannot read it: standard input is closed\n"


@pytest.mark.parametrize("arguments", [["good.mlir"], ["--help"]])
def test_a_broken_pipe_is_quiet(arguments: list[str], folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = opt(*arguments, folder=folder, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_interrupt_is_told(folder: Path) -> None:
    process = subprocess.Popen(
        command("-"),
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell starts its background jobs, and what they start, with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    status = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not status.exists():
        process.kill()
        pytest.skip("needs /proc to see that the tool waits for input")
    # It waits for its input once its command line is read.
    deadline = time.monotonic() + 300
    while not _waits_for_input(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    # Its input stays open until it has ended: a terminal's does.
    process.wait(timeout=300)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors) == (130, b"", b"attn-opt: interrupted\n")


def _waits_for_input(pid: int) -> bool:
    """Whether the process's child, which does its work, sleeps in a read of file 0."""
    try:
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        words = Path(f"/proc/{child}/syscall").read_text().split()
    except (OSError, IndexError):
        return False
    return words[:2] == ["0", "0x0"]
