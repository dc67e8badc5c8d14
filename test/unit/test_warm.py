"""Commands in forks of a loaded process end as those in processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import warm

MODULE = "func.func @f() {\n  return\n}\n"


def run(command: list[str], *words: str, folder: Path, text: str = "") -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": str(warm.ROOT), "COLUMNS": "77"}
    done = subprocess.run(
        [*command, *words], cwd=folder, env=environment, input=text, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words", [["m.mlir"], ["-"], ["none.mlir"], ["--no-such-flag"], ["--help"]]
)
def test_a_command_ends_as_in_a_process_of_its_own(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(MODULE)
    cold = [sys.executable, "-m", "attnpass.cli.attn_opt"]
    wanted = run(cold, *words, folder=tmp_path, text=MODULE)
    assert run(warm.command("attn-opt"), *words, folder=tmp_path, text=MODULE) == wanted


def test_a_command_ends_with_its_client() -> None:
    command = [*warm.command("attn-opt"), "-"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin and client.stdout
    client.stdin.write(MODULE.encode())
    client.stdin.flush()
    client.kill()
    # Nobody holds its output any more, though its input goes on.
    reader = threading.Thread(target=client.stdout.read, daemon=True)
    reader.start()
    reader.join(300)
    assert not reader.is_alive()
    client.stdin.close()
    client.wait()


@pytest.mark.parametrize("said", [b"", b"half", (99).to_bytes(8, "little") + b"less"])
def test_clients_that_end_before_they_have_asked(said: bytes, tmp_path: Path) -> None:
    *_, path, _ = command = warm.command("attn-opt")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(said)
    code, out, _ = run(command, "-", folder=tmp_path, text=MODULE)
    assert code == 0 and "func.func @f" in out
