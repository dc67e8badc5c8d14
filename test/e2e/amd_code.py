"""The code of attention for AMD GPUs: what IREE's assembly has, each instruction counted once."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

OWN_TRANSPOSE = "--iree-global-opt-enable-attention-v-transpose"
VARIANTS = {
    "row-major": ["--attn-disable", f"{OWN_TRANSPOSE}=false"],
    "IREE": ["--attn-disable", f"{OWN_TRANSPOSE}=true"],
    "cost": ["--attn-mode=cost", "--attn-configure=false"],
    "always": ["--attn-mode=always", "--attn-configure=false"],
}
COMPILE_SECONDS = 120

# A read of LDS: `ds_read_u16_d16`, `ds_read2_b64`, `ds_load_2addr_stride64_b64`,
# `ds_read_b64_tr_b16`. The first group says that two are read, the second gives each one's bits.
LDS_READ = re.compile(r"ds_(?:read|load)(2|_2addr)?(?:st64|_stride64)?_[bui](\d+)(?:_\w+)?")
NARROW_STORE = re.compile(
    r"(?:buffer|global|flat)_store_(?:d16_hi_)?(?:byte|short|b8|b16)(_d16_hi)?"
)
MATRIX = re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)_\w+")


# A projection, whose heads are brought forward, into attention of 2 heads, in one type.
_PROJECTION = """
func.func @main(%q: HEADS, %k: HEADS, %x: FLAT, %w: FLAT) -> HEADS {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 8.838835e-02 : KIND
  %1 = tensor.empty() : tensor<256x256xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<256x256xf32>) -> tensor<256x256xf32>
  %3 = linalg.matmul ins(%x, %w : FLAT, FLAT) outs(%2 : tensor<256x256xf32>) -> tensor<256x256xf32>
  %4 = tensor.empty() : FLAT
  %5 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%3 : tensor<256x256xf32>) outs(%4 : FLAT) {
  ^bb0(%a: f32, %o: KIND):
    %c = arith.truncf %a : f32 to KIND
    linalg.yield %c : KIND
  } -> FLAT
  %6 = tensor.expand_shape %5 [[0, 1], [2, 3]] output_shape [1, 256, 2, 128]
      : FLAT into tensor<1x256x2x128xKIND>
  %7 = tensor.empty() : tensor<1x2x256x128xKIND>
  %8 = linalg.transpose ins(%6 : tensor<1x256x2x128xKIND>)
      outs(%7 : tensor<1x2x256x128xKIND>) permutation = [0, 2, 1, 3]
  %9 = tensor.collapse_shape %8 [[0, 1], [2], [3]] : tensor<1x2x256x128xKIND> into HEADS
  %10 = tensor.empty() : HEADS
  %11 = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %9, %scale : HEADS, HEADS, HEADS, KIND) outs(%10 : HEADS) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> HEADS
  return %11 : HEADS
}
"""


def projection(kind: str) -> str:
    """The module of element type `kind`."""
    heads = _PROJECTION.replace("HEADS", "tensor<2x256x128xKIND>")
    return heads.replace("FLAT", "tensor<256x256xKIND>").replace("KIND", kind)


@dataclass
class Kernel:
    """One kernel's static counts.

    Reads are instructions that read LDS: narrow ones give a lane one or two bytes. Narrow
    stores write one or two bytes to memory. `matrix` counts MFMA or WMMA. `vgprs` includes
    accumulation registers, `spills` is in registers, `lds` in bytes.
    """

    narrow_reads: int = 0
    wide_reads: int = 0
    bytes_read: int = 0
    narrow_stores: int = 0
    matrix: int = 0
    vgprs: int = 0
    spills: int = 0
    lds: int = 0


def compile_module(target: str, text: str, variant: str) -> str:
    """The assembly of a module; CalledProcessError if it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "model.mlir")
        source.write_text(text)
        command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source)]
        command += ["--iree-hal-target-device=hip", f"--iree-rocm-target={target}"]
        command += [f"--iree-hal-dump-executable-intermediates-to={folder}"]
        command += [*VARIANTS[variant], "-o", str(Path(folder, "model.vmfb"))]
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS)
        (assembly,) = Path(folder).glob("*.rocmasm")
        return assembly.read_text()


def read_kernels(assembly: str) -> dict[str, Kernel]:
    """The kernels of an assembly file by name.

    ValueError for a read of LDS in a form that is not known here: it would not be counted.
    """
    code, _, metadata = assembly.partition(".amdgpu_metadata")
    names = re.findall(r"^    \.name:\s+(\S+)$", metadata, re.MULTILINE)
    kernels = {name: Kernel() for name in names}
    current = None
    for line in code.splitlines():
        label = re.match(r"(\w+):", line)
        if label and label[1] in kernels:
            current = kernels[label[1]]
        elif current and (instruction := re.match(r"\t([a-z]\w+)", line)):
            _count(current, instruction[1])
    for entry in re.split(r"^  - (?=\.)", metadata, flags=re.MULTILINE)[1:]:
        # The keys of a kernel are indented by four, the first stands behind its dash.
        declared = dict(re.findall(r"^(?:    )?\.(\w+):\s+(\S+)$", entry, re.MULTILINE))
        kernel = kernels[declared["name"]]
        kernel.vgprs = int(declared["vgpr_count"])
        kernel.spills = int(declared["vgpr_spill_count"])
        kernel.lds = int(declared["group_segment_fixed_size"])
    return kernels


def _count(kernel: Kernel, instruction: str) -> None:
    if read := LDS_READ.fullmatch(instruction):
        size = int(read[2]) // 8 * (2 if read[1] else 1)
        kernel.bytes_read += size
        kernel.narrow_reads += size <= 2
        kernel.wide_reads += size > 2
    elif instruction.startswith(("ds_read", "ds_load")):
        raise ValueError(f"{instruction} reads LDS in a form that is not known here")
    elif NARROW_STORE.fullmatch(instruction):
        kernel.narrow_stores += 1
    elif MATRIX.fullmatch(instruction):
        kernel.matrix += 1


def the_kernel(kernels: dict[str, Kernel], kind: str) -> Kernel:
    """The only kernel that is an `attention` or a `matmul`."""
    (found,) = (kernel for name, kernel in kernels.items() if f"_{kind}_" in name)
    return found
