"""Machine code stands beside PTX where an assembler is installed."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers import has_gpu, run_module
from iree.compiler.tools import CompilerToolError

from attnpass import compile_str
from attnpass.codegen.assembler import Assembler, find_assembler
from attnpass.codegen.executables import images_of, with_image
from attnpass.ir import Refusal

_CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
_TEXT = """
func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %sum = arith.addf %x, %y : tensor<1024xf32>
  return %sum : tensor<1024xf32>
}
"""
_MAGIC = struct.pack("<I", 0xBA55ED50)
# Stands in for NVIDIA's: says its release, keeps what it was called with, and writes as it is told.
_TOOL = """#!/bin/sh
case "$1" in --version) echo "Cuda compilation tools, release {release}, V{release}.1"; exit;; esac
echo "$@" > {said}
{body}
"""
_WRITES = 'printf "machine code of %s" "$1" > kernel.cubin'


def _fake(folder: Path, body: str = _WRITES, release: str = "12.8") -> Path:
    path = folder / "ptxas"
    path.write_text(_TOOL.format(release=release, said=folder / "said", body=body))
    path.chmod(0o755)
    return path


def _parts(module: bytes) -> dict[int, bytes]:
    """What the one fat binary of a module holds, by the kind of its parts."""
    (begin,) = (at for at in range(0, len(module), 8) if module.startswith(_MAGIC, at))
    _, version, header, size = struct.unpack_from("<IHHQ", module, begin)
    assert (version, header) == (1, 16)
    found: dict[int, bytes] = {}
    place, end = begin + header, begin + header + size
    while place < end:
        kind, _, header, length = struct.unpack_from("<HHIQ", module, place)
        (arch,) = struct.unpack_from("<I", module, place + 28)
        assert arch == 90
        found[kind] = module[place + header : place + header + length]
        place += header + length
    assert place == end
    return found


def _compiled(ptxas: Path | str, *flags: str) -> bytes:
    made = compile_str(_TEXT, extra_args=[*_CUDA, f"--attn-ptxas={ptxas}", *flags])
    assert made is not None
    return made


def test_machine_code_is_beside_ptx(tmp_path: Path) -> None:
    tool = _fake(tmp_path)
    made = _compiled(tool)
    parts = _parts(made)
    assert parts[2].rstrip(b"\0") == b"machine code of -arch=sm_90"
    assert b".visible .entry main_dispatch_0" in parts[1] and parts[1].endswith(b"\0")
    assert (tmp_path / "said").read_text().split() == [
        "-arch=sm_90",
        "kernel.ptx",
        "-o",
        "kernel.cubin",
    ]
    # The text stands in the module once: its old place is cleared.
    assert made.count(b".visible .entry main_dispatch_0") == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'ptxas fatal : no' >&2; exit 3", "fails: ptxas fatal : no"),
        ("exit 0", "fails: 0"),
    ],
)
def test_ptx_stays_where_the_assembler_fails(
    tmp_path: Path, body: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tool = _fake(tmp_path, body)
    made = _compiled(tool, "--attn-summary")
    assert _MAGIC not in made and b".visible .entry" in made
    said = capfd.readouterr().err
    assert "kernels stay PTX, which the driver compiles when the module is loaded" in said
    assert reason in said


def test_never_leaves_ptx() -> None:
    assert _MAGIC not in _compiled("never")


def test_a_path_without_a_program_is_an_error() -> None:
    with pytest.raises(CompilerToolError, match="/nowhere/ptxas: error: there is no program"):
        _compiled("/nowhere/ptxas")


def test_assemblers_newer_than_the_oldest_driver_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` takes the first of CUDA 12, and says why there is none."""
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("attnpass.codegen.assembler._PACKAGES", ())
    newer, older = tmp_path / "newer", tmp_path / "older" / "bin"
    newer.mkdir()
    older.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{newer}{os.pathsep}{os.environ['PATH']}")
    tool = _fake(newer, release="13.1")
    found = find_assembler("auto")
    assert isinstance(found, Assembler) or f"{tool} is of CUDA 13.1" in str(found)
    monkeypatch.setenv("CUDA_HOME", str(older.parent))
    wanted = Assembler(_fake(older))
    assert find_assembler("auto") == wanted


def test_images_are_found_and_replaced() -> None:
    """Of IREE's own executable, a second time as the first."""
    made = _compiled("never")
    begin = made.index(b"CDA1")
    executable = made[begin:]
    (image,) = images_of(executable)
    assert image.data.startswith(b"//") and image.data.rstrip().endswith(b"}")
    for new in (b"other", b"\x7fELF" * 1000):
        executable = with_image(executable, image, new)
        (image,) = images_of(executable)
        assert image.data == new
    assert not images_of(b"something else") and not images_of(b"")


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU")
@pytest.mark.parametrize("loads", ["machine code", "PTX"])
def test_either_part_runs(loads: str, tmp_path: Path) -> None:
    tool = find_assembler("auto")
    if isinstance(tool, Refusal):
        pytest.skip(str(tool))
    made = bytearray(_compiled(tool.path))
    if loads == "PTX":
        # The machine code is another GPU's then, and none that this one could run.
        begin = made.index(_MAGIC) + 16
        struct.pack_into("<I", made, begin + 28, 80)
        made[made.index(b"\x7fELF", begin) + 64] ^= 0xFF
    x, y = np.random.default_rng(0).standard_normal((2, 1024)).astype(np.float32)
    assert np.array_equal(run_module(bytes(made), [x, y], driver="cuda"), x + y)
