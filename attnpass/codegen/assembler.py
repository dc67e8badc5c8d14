"""The GPU's machine code for PTX, by NVIDIA's assembler `ptxas` where that is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import AttnError
from ..ir import Refusal

# Where Python's packages have it: NVIDIA's, and Triton's, which PyTorch comes with.
_PACKAGES = (
    ("nvidia", "cuda_nvcc/bin/ptxas"),
    ("triton", "backends/nvidia/bin/ptxas"),
)
# What a newer one writes is not loaded by drivers for this version of CUDA, which our own kernels
# are made with.
_CUDA = "12"
# A kernel takes some tens of ms.
_SECONDS = 120
# What stands for any GPU is written for older ones than this.
_OLDEST = 75

_MAGIC, _VERSION = 0xBA55ED50, 1
_PTX, _MACHINE_CODE = 1, 2
_PART_VERSION, _ELF_VERSION = 0x101, (1, 7)
# For addresses of 64 bits, as Linux has them.
_FLAGS = 0x11


@dataclass(frozen=True)
class Assembler:
    """A `ptxas` to run."""

    path: Path

    def machine_code(self, ptx: bytes) -> bytes | Refusal:
        """The machine code of a PTX text for the GPU that it names, as an ELF file."""
        with tempfile.TemporaryDirectory(prefix="attnpass-") as folder:
            (Path(folder) / "kernel.ptx").write_bytes(ptx)
            # The name of what it reads is in what it writes: the same in each compile.
            words = [self.path, f"-arch={arch_of(ptx)}", "kernel.ptx", "-o", "kernel.cubin"]
            try:
                run = subprocess.run(
                    words, cwd=folder, capture_output=True, timeout=_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                return Refusal(f"{self.path} does not end in {_SECONDS} s")
            except OSError as error:
                return Refusal(f"{self.path} cannot be run: {error.strerror}")
            written = Path(folder) / "kernel.cubin"
            if run.returncode or not written.exists():
                said = (run.stderr or run.stdout).decode(errors="replace").split("\n")[0]
                return Refusal(f"{self.path} fails: {said or run.returncode}")
            return written.read_bytes()


def find_assembler(named: str) -> Assembler | Refusal:
    """The assembler at a path, or with `auto` the first that is installed and of CUDA 12.

    Raises AttnError where a path is given and has none."""
    if named != "auto":
        if shutil.which(named) is None:
            raise AttnError("there is no program of this name: --attn-ptxas wants ptxas", named)
        return Assembler(Path(named).absolute() if os.sep in named else Path(named))
    newer = ""
    for path in _installed():
        version = _version(path)
        if version.startswith(f"{_CUDA}."):
            return Assembler(path)
        newer = newer or (f"{path} is of CUDA {version}" if version else f"{path} does not run")
    return Refusal(newer or "no ptxas is installed")


def _installed() -> Iterator[Path]:
    if found := shutil.which("ptxas"):
        yield Path(found)
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root and (path := Path(root) / "bin" / "ptxas").is_file():
            yield path
    for package, place in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            if (path := Path(root) / place).is_file():
                yield path


def _version(path: Path) -> str:
    """The release of CUDA that a `ptxas` says it is of; '' for none."""
    try:
        run = subprocess.run(
            [path, "--version"], capture_output=True, timeout=_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    _, _, behind = run.stdout.partition("release ")
    return behind.split(",")[0].strip()


def arch_of(ptx: bytes) -> str:
    """The architecture that a PTX text is for, as `sm_90`; '' for what is no PTX."""
    if b"\0" in ptx or b".version" not in ptx:
        return ""
    words = ptx.partition(b".target ")[2].split(maxsplit=1)
    return words[0].rstrip(b",").decode() if words else ""


def entries_of(ptx: bytes) -> int:
    """How many kernels a PTX text has."""
    return ptx.count(b".visible .entry ")


def worth_assembling(image: bytes) -> bool:
    """Whether an image that a driver loads is PTX for a GPU of its own, not for any."""
    return _number(arch_of(image)) >= _OLDEST


def _number(arch: str) -> int:
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdecimal() else 0


def fat_binary(machine_code: bytes, ptx: bytes) -> bytes:
    """What a CUDA driver takes the machine code from where the GPU is the PTX's, and compiles the
    PTX elsewhere. As NVIDIA's `nvFatbin` lays it out: a header, then parts, each of whole 8
    bytes, which begin with their kind, size and architecture."""
    arch = _number(arch_of(ptx))
    major, minor = ptx.partition(b".version ")[2].split(maxsplit=1)[0].split(b".")
    parts = _part(_MACHINE_CODE, machine_code, arch, _ELF_VERSION)
    parts += _part(_PTX, ptx + b"\0", arch, (int(major), int(minor)))
    return struct.pack("<IHHQ", _MAGIC, _VERSION, 16, len(parts)) + parts


def _part(kind: int, data: bytes, arch: int, version: tuple[int, int]) -> bytes:
    data += bytes(-len(data) % 8)
    major, minor = version
    # Kind, version, bytes of this header and of the data, two for what is compressed, version of
    # the data, architecture, bits of an address, two for a name, flags, two for what is compressed.
    numbers = (kind, _PART_VERSION, 64, len(data), 0, 0, minor, major, arch, 64, 0, _FLAGS, 0, 0)
    return struct.pack("<HHIQIIHHIIIQQQ", *numbers) + data
