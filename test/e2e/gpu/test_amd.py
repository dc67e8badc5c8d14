"""On AMD targets, V^T from the passes rids attention of its one- and two-byte LDS reads.

Only compiled: the instructions are counted in the assembly by amd_code.py.
"""

from __future__ import annotations

from functools import cache

import pytest
from amd_code import Kernel, compile_module, projection, read_kernels, the_kernel

TARGETS = [("gfx942", "f16"), ("gfx1201", "f8E4M3FN")]


@cache
def kernels(target: str, kind: str, variant: str) -> dict[str, Kernel]:
    return read_kernels(compile_module(target, projection(kind), variant))


@pytest.mark.parametrize(("target", "kind"), TARGETS)
def test_no_narrow_reads_with_v_transposed(target: str, kind: str) -> None:
    before, after = (
        the_kernel(kernels(target, kind, variant), "attention")
        for variant in ("row-major", "always")
    )
    assert before.narrow_reads >= 64 and after.narrow_reads == 0
    # The same work in fewer instructions.
    assert before.matrix == after.matrix > 0
    assert before.bytes_read == after.bytes_read
    assert after.spills == 0


@pytest.mark.parametrize(("target", "kind"), TARGETS)
def test_v_is_not_moved_for_it(target: str, kind: str) -> None:
    names = [name.split("_dispatch_")[1] for name in kernels(target, kind, "always")]
    assert [name.split("_")[1] for name in names] == ["matmul", "attention"]


def test_an_unknown_read_is_no_silence() -> None:
    text = "k:\n\tds_read_odd v0, v1\n.amdgpu_metadata\n  - .args: []\n    .name:  k\n"
    with pytest.raises(ValueError, match="ds_read_odd"):
        read_kernels(text)
