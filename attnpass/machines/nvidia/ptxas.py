"""What a configured attention kernel needs of a CUDA GPU: compiles it alone and asks ptxas.

Needs `ptxas` of the CUDA toolkit on PATH and takes some seconds an op.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import AttnError

if TYPE_CHECKING:
    from iree.compiler import ir

    from .. import Target

# A kernel that keeps more than this in memory for want of registers is refused. Measured on an
# H200: the best tile for fp8 spills 552 bytes; one that spills 8668 takes ten times as long.
MOST_SPILLED_BYTES = 1024
_PTX = re.compile(rb"\.version [^\0]*")
_SPILLS = re.compile(r"(\d+) bytes spill stores")


def find_ptxas() -> str:
    """The path of ptxas; AttnError where there is none."""
    found = shutil.which("ptxas")
    if found is None:
        raise AttnError("check=ptxas needs ptxas, of the CUDA toolkit, on PATH")
    return found


def spill_refusal(op: ir.Operation, target: Target) -> str:
    """Why the kernel of an attention that has a configuration is not to be used, or ''."""
    from iree.compiler.tools import CompilerToolError

    from ...driver.tools import compile_str
    from ...ir import print_as_function

    ptxas = find_ptxas()
    flags = ["--iree-hal-target-device=cuda", f"--iree-cuda-target={target.arch}"]
    try:
        # They take other registers than what IREE makes of the kernel.
        passes = "attn-lower-cuda"
        compiled = compile_str(print_as_function(op), pipeline=passes, extra_args=flags)
    except CompilerToolError as error:
        words = re.search(r"error: (.*)", str(error))
        return f"IREE does not compile it: {words[1] if words else 'no reason given'}"
    spilled = [_spilled(ptx, ptxas, target.arch) for ptx in ptx_in(compiled or b"")]
    if max(spilled, default=0) <= MOST_SPILLED_BYTES:
        return ""
    return f"ptxas: its kernel spills {max(spilled)} bytes of registers to memory"


def ptx_in(module: bytes) -> list[bytes]:
    """The PTX of each executable in a module compiled for CUDA."""
    return _PTX.findall(module)


def _spilled(ptx: bytes, ptxas: str, arch: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_bytes(ptx)
        command = [ptxas, "-v", f"-arch={arch}", str(source), "-o", str(source) + ".cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or "no reason given").splitlines()[0]
        raise AttnError(f"check=ptxas: ptxas failed: {said}")
    return max((int(bytes_) for bytes_ in _SPILLS.findall(done.stderr)), default=0)
