"""The precompiled kernels: the files are those of the manifest, and IREE embeds them."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

import pytest

import attnpass.kernels
from attnpass.kernels import Kernel, load_kernels

ATTENTION = """
func.func @main(%q: tensor<{heads}x?x{d}x{t}>, %k: tensor<{heads}x?x{d}x{t}>, %v: {v}) -> {o} {{
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<{heads}x?x{d}x{t}>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty(%m) : {o}
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<{heads}x?x{d}x{t}>, tensor<{heads}x?x{d}x{t}>, {v}, f32)
      outs(%e : {o}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {o}
  return %r : {o}
}}
"""


@pytest.mark.parametrize("kernel", load_kernels(), ids=lambda kernel: kernel.name)
def test_files_match_the_manifest(kernel: Kernel) -> None:
    ptx = kernel.ptx()
    source = files(attnpass.kernels).joinpath(kernel.source).read_bytes()
    assert hashlib.sha256(ptx).hexdigest() == kernel.hash
    # A changed source needs tools/build_kernels.py to be run again.
    assert hashlib.sha256(source).hexdigest() == kernel.source_hash


@pytest.mark.parametrize("kernel", load_kernels(), ids=lambda kernel: kernel.name)
def test_parameters_are_those_that_iree_passes(kernel: Kernel) -> None:
    """Pointers, then 32-bit constants: IREE's CUDA driver has no other parameters."""
    entry = re.search(r"\.entry (\w+)\((.*?)\)", kernel.ptx().decode(), re.S)
    assert entry is not None and entry[1] == kernel.name
    kinds = re.findall(r"\.param \.(\w+)", entry[2])
    pointers = {"prefill": 5, "decode": 6, "combine": 3}[kernel.kind]
    pointers += kernel.mask == "operand"
    assert kinds[:pointers] == ["u64"] * pointers
    assert kinds[pointers:] == ["f32" if name == "scale" else "u32" for name in kernel.constants]
    assert f".reqntid {kernel.workgroup_size}" in kernel.ptx().decode()


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_iree_embeds_the_kernel_as_it_is(element: str, tmp_path) -> None:
    """Compiled for cuda without a GPU: the module holds the very PTX, beside IREE's code."""
    from iree.compiler.tools import compile_str

    from attnpass.cli.attn_opt import main

    o = f"tensor<4x?x64x{element}>"
    source, rewritten = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(ATTENTION.format(heads=4, d=64, t=element, v=o, o=o))
    options = "--attn-use-kernels=target=sm_90 mode=always"
    assert main([str(source), options, "-o", str(rewritten)]) == 0
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    data = compile_str(rewritten.read_text(), extra_args=flags)
    (kernel,) = [k for k in load_kernels() if k.name == f"attention_{element}_d64"]
    assert data is not None and kernel.ptx() in data
