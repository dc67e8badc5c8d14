"""Precompiled attention kernels and what the manifest says about them.

The kernels are data: PTX that `tools/build_kernels.py` made from the sources beside this file.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Kernel:
    """One kernel, as the manifest describes it.

    `head_dims` are those of Q.K and of V. `v_layout` is `row-major` (keys, head dim) or
    `transposed`; `mask` is `none`, `causal`, `window` (causal, and no keys far behind) or
    `operand` (a tensor of `mask_type`); the number of keys must be a multiple of
    `keys_multiple` and every operand aligned to `alignment` bytes. `scratch_per_workgroup`
    and `shared_memory` are in bytes, `workgroup_size` in threads.
    """

    name: str
    target: str
    element_type: str
    output_type: str
    head_dims: tuple[int, int]
    v_layout: str
    mask: str
    mask_type: str
    grouped: bool
    dynamic: bool
    keys_multiple: int
    rows_per_workgroup: int
    alignment: int
    scratch_per_workgroup: int
    shared_memory: int
    workgroup_size: int
    constants: tuple[str, ...]
    source: str
    source_hash: str
    file: str
    hash: str

    @property
    def v_transposed(self) -> bool:
        return self.v_layout == "transposed"

    def ptx(self) -> bytes:
        """The kernel's PTX text."""
        return zlib.decompress(files(__name__).joinpath(self.file).read_bytes())


@cache
def load_kernels() -> tuple[Kernel, ...]:
    """Every kernel of the manifest."""
    text = files(__name__).joinpath("manifest.json").read_text()
    return tuple(
        Kernel(
            **{
                **entry,
                "head_dims": tuple(entry["head_dims"]),
                "constants": tuple(entry["constants"]),
            }
        )
        for entry in json.loads(text)["kernels"]
    )
