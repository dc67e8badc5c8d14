"""The precompiled kernels: the files are those of the manifest, and IREE embeds them."""

from __future__ import annotations

import hashlib
import re
import struct
from importlib.resources import files

import build_kernels
import pytest
from helpers import MAPS

import attnpass.kernels.hopper
from attnpass.kernels.hopper.manifest import entries_of, load_kernels

ATTENTION = (
    MAPS
    + """
func.func @main(%q: tensor<{heads}x?x{d}x{t}>, %k: tensor<{heads}x?x{d}x{t}>, %v: {v}) -> {o} {{
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<{heads}x?x{d}x{t}>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty(%m) : {o}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<{heads}x?x{d}x{t}>, tensor<{heads}x?x{d}x{t}>, {v}, f32)
      outs(%e : {o}) {{
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  }} -> {o}
  return %r : {o}
}}
"""
)


def test_files_match_the_manifest() -> None:
    for kernel in load_kernels():
        image = kernel.image()
        folder = files(attnpass.kernels.hopper)
        common = [build_kernels.COMMON]
        if kernel.source.startswith("cuda/"):
            common = [f"cuda/{name}" for name in ("attend.h", "tma.h", "weights.h")]
        sources = b"".join(folder.joinpath(name).read_bytes() for name in (kernel.source, *common))
        assert hashlib.sha256(image).hexdigest() == kernel.hash, kernel.name
        # A changed source needs tools/build_kernels.py to be run again.
        assert hashlib.sha256(sources).hexdigest() == kernel.source_hash, kernel.name


def test_a_manifest_is_of_one_version_of_each_source() -> None:
    text = files(attnpass.kernels.hopper).joinpath("manifest.json").read_text()
    entries = entries_of(text)
    assert build_kernels.manifest_text(entries) == text
    entries[-1]["source_hash"] = "0"
    with pytest.raises(ValueError, match=f"{entries[-1]['name']} and others are of two versions"):
        build_kernels.manifest_text(entries)


def test_parameters_are_those_that_iree_passes() -> None:
    """Pointers, then 32-bit constants: IREE's CUDA driver has no other parameters."""
    for kernel in load_kernels():
        image = kernel.image()
        assert f".text.{kernel.name}\0".encode() in image, kernel.name
        # EIATTR_KPARAM_INFO (cuobjdump -elf): ordinal and offset of a parameter, its size behind.
        found = re.findall(rb"\x04\x17\x0c\x00\0{4}(.{8})", image, re.S)
        parameters = sorted(struct.unpack("<HHI", entry) for entry in found)
        pointers = {"decode": 5, "latent": 5, "split": 5, "combine": 3}.get(kernel.kind, 4)
        pointers += (
            (kernel.mask in ("operand", "keys")) + bool(kernel.scratch_per_workgroup) + kernel.sink
        )
        sizes = [8] * pointers + [4] * len(kernel.constants)
        assert [entry[2] >> 18 for entry in parameters] == sizes, kernel.name
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        assert [entry[1] for entry in parameters] == offsets, kernel.name


@pytest.mark.parametrize(
    ("element", "value", "head"),
    [
        ("f16", "f16", 64),
        ("f32", "f32", 64),
        ("bf16", "bf16", 64),
        ("f8E4M3FN", "f16", 128),
        ("f8E4M3FN", "bf16", 128),
    ],
)
def test_iree_embeds_the_kernel_as_it_is(element: str, value: str, head: int, tmp_path) -> None:
    """Compiled for cuda without a GPU: the module holds the very code, beside IREE's code, and
    nothing that casts the operands."""
    from iree.compiler.tools import compile_str

    from attnpass.cli.attn_opt import main

    o = f"tensor<4x?x{head}x{value}>"
    source, rewritten = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(ATTENTION.format(heads=4, d=head, t=element, v=o, o=o))
    options = "--attn-use-kernels=target=sm_90 mode=always"
    assert main([str(source), options, "-o", str(rewritten)]) == 0
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    data = compile_str(rewritten.read_text(), extra_args=flags)
    types = element.lower() if element == value else f"{element.lower()}_{value}"
    (kernel,) = [k for k in load_kernels() if k.name == f"attention_{types}_d{head}"]
    assert data is not None and kernel.image() in data
    assert not re.findall(rb"main_dispatch_\d+_elementwise", data)


PROJECTED = (
    MAPS
    + """
func.func @main(%q: tensor<32x1024x128xf8E4M3FN>, %k: tensor<32x1024x128xf8E4M3FN>,
    %x: tensor<1024x512xf16>, %w: tensor<512x4096xf16>) -> tensor<32x1024x128xf16> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1024x4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %p = linalg.matmul ins(%x, %w : tensor<1024x512xf16>, tensor<512x4096xf16>)
      outs(%z : tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %e2 = tensor.empty() : tensor<1024x4096xf8E4M3FN>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<1024x4096xf32>) outs(%e2 : tensor<1024x4096xf8E4M3FN>) {
  ^bb0(%wide: f32, %out: f8E4M3FN):
    %narrow = arith.truncf %wide : f32 to f8E4M3FN
    linalg.yield %narrow : f8E4M3FN
  } -> tensor<1024x4096xf8E4M3FN>
  %h = tensor.expand_shape %n [[0], [1, 2]] output_shape [1024, 32, 128]
      : tensor<1024x4096xf8E4M3FN> into tensor<1024x32x128xf8E4M3FN>
  %e1 = tensor.empty() : tensor<32x1024x128xf8E4M3FN>
  %v = linalg.transpose ins(%h : tensor<1024x32x128xf8E4M3FN>)
      outs(%e1 : tensor<32x1024x128xf8E4M3FN>) permutation = [1, 0, 2]
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x1024x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<32x1024x128xf8E4M3FN>, tensor<32x1024x128xf8E4M3FN>,
          tensor<32x1024x128xf8E4M3FN>, f32) outs(%e : tensor<32x1024x128xf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<32x1024x128xf16>
  return %r : tensor<32x1024x128xf16>
}
"""
)


def test_a_projection_delivers_the_layout_that_the_kernel_wants() -> None:
    """From a whole compile: the product writes V^T, the 8-bit kernel is embedded, and no
    dispatch stands between them."""
    import attnpass

    report = attnpass.Report()
    pipeline = "attn-propagate-layout{operands=v,k,q},attn-use-kernels,attn-hardware-exp2"
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    data = attnpass.compile_str(PROJECTED, pipeline=pipeline, report=report, extra_args=flags)
    decisions = {operand.operand: operand for operand in report.attentions[0].operands}
    assert decisions["value"].decision == "absorbed"
    assert "_d128_vt reads V^T, the one for the other layout is slower" in decisions["value"].reason
    assert decisions["output"].decision == "kernel"
    (kernel,) = [k for k in load_kernels() if k.name == "attention_f8e4m3fn_d128_vt"]
    assert data is not None and kernel.image() in data
    assert set(re.findall(rb"main_dispatch_(\d+_[a-z]+)", data)) == {b"0_matmul"}


LATENTS = (
    MAPS
    + """
func.func @main(%q: tensor<2x16x576xbf16>, %c: tensor<2x999x512xbf16>, %p: tensor<2x999x64xbf16>)
    -> tensor<2x16x512xbf16> {
  %k = tensor.concat dim(2) %c, %p
      : (tensor<2x999x512xbf16>, tensor<2x999x64xbf16>) -> tensor<2x999x576xbf16>
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x16x512xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %c, %scale : tensor<2x16x576xbf16>, tensor<2x999x576xbf16>,
          tensor<2x999x512xbf16>, f32) outs(%e : tensor<2x16x512xbf16>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<2x16x512xbf16>
  return %r : tensor<2x16x512xbf16>
}
"""
)


def test_latents_are_read_where_they_lie_by_default() -> None:
    """From a whole compile: K is never joined in memory, two kernels are all there is."""
    import attnpass

    report = attnpass.Report()
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    data = attnpass.compile_str(LATENTS, report=report, extra_args=flags)
    (output,) = [o for o in report.attentions[0].operands if o.operand == "output"]
    assert output.decision == "kernel" and data is not None
    for name in ("latent_bf16_d576x512", "combine_bf16_d512_by128"):
        (kernel,) = [kernel for kernel in load_kernels() if kernel.name == name]
        assert kernel.image() in data
    assert b"main_dispatch" not in data


FLOATS = (
    MAPS
    + """
func.func @main(%q: {q}, %k: {k}, %v: {k}) -> {q} {{
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : {q}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : {q}, {k}, {k}, f32) outs(%e : {q}) {{
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  }} -> {q}
  return %r : {q}
}}
"""
)


@pytest.mark.parametrize(("rows", "taken"), [(512, True), (1, False)])
def test_f32_takes_a_kernel_by_default_where_it_is_faster(rows: int, taken: bool) -> None:
    """From a whole compile. One row is bound by memory, and has no kernel that cuts the keys."""
    import attnpass

    text = FLOATS.format(q=f"tensor<4x{rows}x128xf32>", k="tensor<4x2048x128xf32>")
    report = attnpass.Report()
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    data = attnpass.compile_str(text, report=report, extra_args=flags)
    (output,) = [o for o in report.attentions[0].operands if o.operand == "output"]
    (kernel,) = [k for k in load_kernels() if k.name == "attention_f32_d128"]
    assert data is not None and (kernel.image() in data) == taken
    assert (output.decision == "kernel") == taken
