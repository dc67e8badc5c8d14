"""Modules of probes that are no single attention."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SUM_OF_FP8 = """
func.func @main(%x: tensor<64xf8E4M3FN>) -> tensor<64xf8E4M3FN> {
  %e = tensor.empty() : tensor<64xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<64xf8E4M3FN>) outs(%e : tensor<64xf8E4M3FN>) {
  ^bb0(%a: f8E4M3FN, %o: f8E4M3FN):
    %c = arith.addf %a, %a : f8E4M3FN
    linalg.yield %c : f8E4M3FN
  } -> tensor<64xf8E4M3FN>
  return %r : tensor<64xf8E4M3FN>
}
"""

# As torch.export writes `a & b`.
TENSOR_AND = """
func.func @main(%a: !torch.vtensor<[3],si64>, %b: !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64> {
  %r = torch.aten.__and__.Tensor %a, %b : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  return %r : !torch.vtensor<[3],si64>
}
"""

MASK_WITHOUT_HEADS = """
func.func @main(%q: !torch.vtensor<[1,2,3,4],f32>, %m: !torch.vtensor<[3,3],f32>) -> !torch.vtensor<[1,2,3,4],f32> {
  %0 = torch.constant.float 0.0
  %no = torch.constant.bool false
  %none = torch.constant.none
  %r = torch.aten.scaled_dot_product_attention %q, %q, %q, %m, %0, %no, %none, %no : !torch.vtensor<[1,2,3,4],f32>, !torch.vtensor<[1,2,3,4],f32>, !torch.vtensor<[1,2,3,4],f32>, !torch.vtensor<[3,3],f32>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,3,4],f32>
  return %r : !torch.vtensor<[1,2,3,4],f32>
}
"""

CUT_NUMBER = """
func.func @main(%x: !torch.vtensor<[2],f32>) -> (!torch.vtensor<[2],f32>, !torch.vtensor<[4],si64>) {
  %0 = torch.constant.float 1.3217558399823195
  %1 = torch.aten.div.Scalar %x, %0 : !torch.vtensor<[2],f32>, !torch.float -> !torch.vtensor<[2],f32>
  %2 = torch.aten.ceil %1 : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %large = torch.constant.float 16777217.0
  %four = torch.constant.int 4
  %none = torch.constant.none
  %no = torch.constant.bool false
  %sizes = torch.prim.ListConstruct %four : (!torch.int) -> !torch.list<int>
  %3 = torch.aten.full %sizes, %large, %four, %none, %none, %no : !torch.list<int>, !torch.float, !torch.int, !torch.none, !torch.none, !torch.bool -> !torch.vtensor<[4],si64>
  %near = torch.constant.int 16777216
  %one = torch.constant.int 1
  %4 = torch.aten.sub.Scalar %3, %near, %one : !torch.vtensor<[4],si64>, !torch.int, !torch.int -> !torch.vtensor<[4],si64>
  return %2, %4 : !torch.vtensor<[2],f32>, !torch.vtensor<[4],si64>
}
"""

FLOOR_DIVISIONS = """
func.func @main(%a: !torch.vtensor<[3],si64>, %b: !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64> {
  %r = torch.aten.floor_divide %a, %b : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64> -> !torch.vtensor<[3],si64>
  return %r : !torch.vtensor<[3],si64>
}
"""

COMPARED = """
func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %2 = torch.constant.int 2
  %c = torch.vtensor.literal(dense<3.0> : tensor<3xf32>) : !torch.vtensor<[3],f32>
  %y = torch.aten.gt.Scalar %c, %2 : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],i1>
  %r = torch.aten.mul.Tensor %x, %y : !torch.vtensor<[3],f32>, !torch.vtensor<[3],i1> -> !torch.vtensor<[3],f32>
  return %r : !torch.vtensor<[3],f32>
}
"""

SIGNED = """
func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %-3 = torch.constant.int -3
  %c = torch.vtensor.literal(dense<1.0> : tensor<3xf32>) : !torch.vtensor<[3],f32>
  %y = torch.aten.mul.Scalar %c, %-3 : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],f32>
  %r = torch.aten.mul.Tensor %x, %y : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32>
  return %r : !torch.vtensor<[3],f32>
}
"""

# The rest of C.
RESTS = """
func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %3 = torch.constant.int 3
  %c = torch.vtensor.literal(dense<-1.0> : tensor<3xf32>) : !torch.vtensor<[3],f32>
  %y = torch.aten.remainder.Scalar %c, %3 : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],f32>
  %r = torch.aten.mul.Tensor %x, %y : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32>
  return %r : !torch.vtensor<[3],f32>
}
"""

SHIFTED = """
func.func @main(%x: !torch.vtensor<[5],f32>) -> !torch.vtensor<[5],f32> {
  %1 = torch.constant.int 1
  %-1 = torch.constant.int -1
  %0 = torch.constant.float 0.0
  %sizes = torch.prim.ListConstruct %1, %-1 : (!torch.int, !torch.int) -> !torch.list<int>
  %r = torch.aten.constant_pad_nd %x, %sizes, %0 : !torch.vtensor<[5],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[5],f32>
  return %r : !torch.vtensor<[5],f32>
}
"""

ROLLED = """
func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %4 = torch.constant.int 4
  %0 = torch.constant.int 0
  %by = torch.prim.ListConstruct %4 : (!torch.int) -> !torch.list<int>
  %dims = torch.prim.ListConstruct %0 : (!torch.int) -> !torch.list<int>
  %r = torch.aten.roll %x, %by, %dims : !torch.vtensor<[3],f32>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[3],f32>
  return %r : !torch.vtensor<[3],f32>
}
"""

PIXELS = """
func.func @main(%x: !torch.vtensor<[4],ui8>) -> !torch.vtensor<[4],f32> {
  %255 = torch.constant.float 255.0
  %r = torch.aten.div.Scalar %x, %255 : !torch.vtensor<[4],ui8>, !torch.float -> !torch.vtensor<[4],f32>
  return %r : !torch.vtensor<[4],f32>
}
"""

POOLED = """
func.func @main(%x: tensor<5xf32>, %w: tensor<3xf32>) -> tensor<1xf32> {
  %start = arith.constant dense<0.0> : tensor<1xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(y, i) -> (y * 3 + i)>, affine_map<(y, i) -> (i)>, affine_map<(y, i) -> (y)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<5xf32>, tensor<3xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  return %r : tensor<1xf32>
}
"""

BRANCH_BY_I16 = """
func.func @main(%x: tensor<3xi16>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %2 = arith.constant 2 : index
  %two = arith.constant 2 : i16
  %a = tensor.extract %x[%2] : tensor<3xi16>
  %c = arith.cmpi sge, %a, %two : i16
  %r = scf.if %c -> tensor<2xf32> {
    %z = arith.addf %y, %y : tensor<2xf32>
    scf.yield %z : tensor<2xf32>
  } else {
    scf.yield %y : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""

BACKWARDS = """
func.func @main(%x: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<4x20xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, -n + 19)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x20xf32>) outs(%e : tensor<4x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x20xf32>
  return %r : tensor<4x20xf32>
}
"""

NOTHING = """
func.func @main(%x: tensor<2x0xf32>, %y: tensor<0x3xf32>, %start: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = linalg.matmul ins(%x, %y : tensor<2x0xf32>, tensor<0x3xf32>) outs(%start : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
"""

SAMPLED = """
func.func @main(%x: !torch.vtensor<[1,1,1,4],f32>, %g: !torch.vtensor<[1,1,3,2],f32>) -> !torch.vtensor<[1,1,1,3],f32> {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %false = torch.constant.bool false
  %r = torch.aten.grid_sampler %x, %g, %0, %1, %false : !torch.vtensor<[1,1,1,4],f32>, !torch.vtensor<[1,1,3,2],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[1,1,1,3],f32>
  return %r : !torch.vtensor<[1,1,1,3],f32>
}
"""

GELU_TANH = """
func.func @main(%x: !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {
  %by = torch.constant.str "tanh"
  %r = torch.aten.gelu %x, %by : !torch.vtensor<[64],f32>, !torch.str -> !torch.vtensor<[64],f32>
  return %r : !torch.vtensor<[64],f32>
}
"""

LAYER_NORM = """
func.func @main(%x: !torch.vtensor<[4,4096],f16>) -> !torch.vtensor<[4,4096],f16> {
  %n = torch.constant.int 4096
  %shape = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  %none = torch.constant.none
  %eps = torch.constant.float 1.0e-5
  %false = torch.constant.bool false
  %r = torch.aten.layer_norm %x, %shape, %none, %none, %eps, %false : !torch.vtensor<[4,4096],f16>, !torch.list<int>, !torch.none, !torch.none, !torch.float, !torch.bool -> !torch.vtensor<[4,4096],f16>
  return %r : !torch.vtensor<[4,4096],f16>
}
"""

# A mask of PyTorch.
HIDDEN = """
func.func @main(%x: !torch.vtensor<[8],f16>) -> !torch.vtensor<[8],f16> {
  %hidden = torch.constant.float -1.0e9
  %r = torch.aten.mul.Scalar %x, %hidden : !torch.vtensor<[8],f16>, !torch.float -> !torch.vtensor<[8],f16>
  return %r : !torch.vtensor<[8],f16>
}
"""

SILU = """
func.func @main(%x: !torch.vtensor<[8],f16>) -> !torch.vtensor<[8],f16> {
  %r = torch.aten.silu %x : !torch.vtensor<[8],f16> -> !torch.vtensor<[8],f16>
  return %r : !torch.vtensor<[8],f16>
}
"""

# A product of JAX, its sums too large for f16 to count on.
ONES = """
func.func @main(%x: tensor<4x4096xf16>, %y: tensor<4096x4xf16>) -> tensor<4x4xf16> {
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x4096xf16>, tensor<4096x4xf16>) -> tensor<4x4xf16>
  return %r : tensor<4x4xf16>
}
"""

# JAX's attention says so of its scores.
BY_ALGORITHM = """
func.func @main(%x: tensor<2x4x8xbf16>, %y: tensor<2x8x4xbf16>) -> tensor<2x4x4xf32> {
  %r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x4x8xbf16>, tensor<2x8x4xbf16>) -> tensor<2x4x4xf32>
  return %r : tensor<2x4x4xf32>
}
"""

# Heads of any batch and length, joined to rows.
JOINED = """
func.func @main(%x: !torch.vtensor<[?,?,4,8],f32>) -> !torch.vtensor<[?,32],f32> attributes {torch.onnx_meta.ir_version = 9 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %s = torch.operator "onnx.Constant"() {torch.onnx.value = dense<[-1, 32]> : tensor<2xsi64>} : () -> !torch.vtensor<[2],si64>
  %r = torch.operator "onnx.Reshape"(%x, %s) : (!torch.vtensor<[?,?,4,8],f32>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[?,32],f32>
  return %r : !torch.vtensor<[?,32],f32>
}
"""

INSTANCE_NORM = """
func.func @main(%x: !torch.vtensor<[2,4,?],f32>, %w: !torch.vtensor<[4],f32>, %b: !torch.vtensor<[4],f32>) -> !torch.vtensor<[2,4,?],f32> attributes {torch.onnx_meta.ir_version = 9 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %r = torch.operator "onnx.InstanceNormalization"(%x, %w, %b) : (!torch.vtensor<[2,4,?],f32>, !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[2,4,?],f32>
  return %r : !torch.vtensor<[2,4,?],f32>
}
"""

BOUNDED = """
func.func @main(%x: !torch.vtensor<[4],f32>, %y: !torch.vtensor<[4],f32>) -> (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) {
  %least = torch.constant.float -1.0
  %most = torch.constant.float 1.0
  %five = torch.constant.float 5.0
  %none = torch.constant.none
  %a = torch.aten.clamp %x, %least, %most : !torch.vtensor<[4],f32>, !torch.float, !torch.float -> !torch.vtensor<[4],f32>
  %b = torch.aten.maximum %x, %y : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %c = torch.aten.nan_to_num %a, %five, %none, %none : !torch.vtensor<[4],f32>, !torch.float, !torch.none, !torch.none -> !torch.vtensor<[4],f32>
  %d = torch.aten.nan_to_num %b, %five, %none, %none : !torch.vtensor<[4],f32>, !torch.float, !torch.none, !torch.none -> !torch.vtensor<[4],f32>
  return %c, %d : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>
}
"""

POWERS = """
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = math.powf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

LOGARITHMS = """
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.log10 %a : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

EVALUATED_LOGARITHMS = """
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 10.0, 20.0, 1000.0]> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%c : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.log10 %a : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel"]} ins(%x, %0 : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""

LARGE_ANGLES = LOGARITHMS.replace("math.log10", "math.sin")

EINSUM = """
func.func @main(%x: !torch.vtensor<[?,?,4],f32>, %w: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[?,?,8],f32> attributes {torch.onnx_meta.ir_version = 9 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %r = torch.operator "onnx.Einsum"(%x, %w) {torch.onnx.equation = "bik,kn->bin"} : (!torch.vtensor<[?,?,4],f32>, !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[?,?,8],f32>
  return %r : !torch.vtensor<[?,?,8],f32>
}
"""

# The sums of rows, each beside each.
CROSSED = """
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
func.func @main(%x: tensor<20x3xf32>) -> tensor<20x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<20xf32>) -> tensor<20xf32>
  %0 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<20x3xf32>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<20xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%0 : tensor<20xf32>) outs(%e : tensor<20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<20xf32>
  %r = tensor.empty() : tensor<20x20xf32>
  %1 = linalg.generic {indexing_maps = [#i, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%p, %0 : tensor<20xf32>, tensor<20xf32>) outs(%r : tensor<20x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<20x20xf32>
  return %1 : tensor<20x20xf32>
}
"""

# Numbers about the mean of their row, and the sums of their squares.
CENTERED = """
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<512x768xf32>) -> (tensor<512x768xf32>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 768.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %0 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<512x768xf32>) outs(%f : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<512xf32>
  %r = tensor.empty() : tensor<512x768xf32>
  %1 = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<512x768xf32>, tensor<512xf32>) outs(%r : tensor<512x768xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.divf %b, %n : f32
    %d = arith.subf %a, %m : f32
    linalg.yield %d : f32
  } -> tensor<512x768xf32>
  %2 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<512x768xf32>) outs(%f : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  } -> tensor<512xf32>
  return %1, %2 : tensor<512x768xf32>, tensor<512xf32>
}
"""

# A count, and the indices of rows, added up.
LONE_TERMS = """
#ij = affine_map<(i, j) -> (i, j)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %0:2 = linalg.generic {indexing_maps = [#ij, #i, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%f, %f : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32, %p: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %t = arith.sitofp %j : i32 to f32
    %s = arith.addf %o, %one : f32
    %q = arith.addf %p, %t : f32
    linalg.yield %s, %q : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
"""

# A softmax over any number of keys, of scores of which a number that is computed hides some.
NEAR_KEYS = """
#ij = affine_map<(b, i, j) -> (b, i, j)>
func.func @main(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c13 = arith.constant 13 : i64
  %low = arith.constant -5.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?x?xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?x?xf32>
  %n = tensor.dim %x, %c2 : tensor<?x?x?xf32>
  %keys = arith.index_cast %n : index to i64
  %far = arith.subi %keys, %c13 : i64
  %e = tensor.empty(%b, %m, %n) : tensor<?x?x?xf32>
  %0 = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %j = linalg.index 2 : index
    %at = arith.index_cast %j : index to i64
    %seen = arith.cmpi slt, %at, %far : i64
    %y = arith.select %seen, %in, %low : f32
    linalg.yield %y : f32
  } -> tensor<?x?x?xf32>
  %1 = linalg.softmax dimension(2) ins(%0 : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  return %1 : tensor<?x?x?xf32>
}
"""

# Embeddings, and their norm.
EMBEDDED = """
func.func @main(%table: !torch.vtensor<[1024,512],f32>, %at: !torch.vtensor<[2,512],si64>, %places: !torch.vtensor<[512,512],f32>) -> (!torch.vtensor<[2,512,512],f32>, !torch.vtensor<[2,512,512],f32>) {
  %n = torch.constant.int 512
  %none = torch.constant.none
  %one = torch.constant.int 1
  %minus = torch.constant.int -1
  %false = torch.constant.bool false
  %eps = torch.constant.float 1.0e-5
  %shape = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  %e = torch.aten.embedding %table, %at, %minus, %false, %false : !torch.vtensor<[1024,512],f32>, !torch.vtensor<[2,512],si64>, !torch.int, !torch.bool, !torch.bool -> !torch.vtensor<[2,512,512],f32>
  %x = torch.aten.add.Tensor %e, %places, %one : !torch.vtensor<[2,512,512],f32>, !torch.vtensor<[512,512],f32>, !torch.int -> !torch.vtensor<[2,512,512],f32>
  %r = torch.aten.layer_norm %x, %shape, %none, %none, %eps, %false : !torch.vtensor<[2,512,512],f32>, !torch.list<int>, !torch.none, !torch.none, !torch.float, !torch.bool -> !torch.vtensor<[2,512,512],f32>
  return %x, %r : !torch.vtensor<[2,512,512],f32>, !torch.vtensor<[2,512,512],f32>
}
"""

# A sum, and its norm.
SUMMED = """
func.func @main(%x: !torch.vtensor<[1024,512],f32>, %y: !torch.vtensor<[1024,512],f32>) -> (!torch.vtensor<[1024,512],f32>, !torch.vtensor<[1024,512],f32>) {
  %n = torch.constant.int 512
  %none = torch.constant.none
  %one = torch.constant.int 1
  %false = torch.constant.bool false
  %eps = torch.constant.float 1.0e-5
  %shape = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  %s = torch.aten.add.Tensor %x, %y, %one : !torch.vtensor<[1024,512],f32>, !torch.vtensor<[1024,512],f32>, !torch.int -> !torch.vtensor<[1024,512],f32>
  %r = torch.aten.layer_norm %s, %shape, %none, %none, %eps, %false : !torch.vtensor<[1024,512],f32>, !torch.list<int>, !torch.none, !torch.none, !torch.float, !torch.bool -> !torch.vtensor<[1024,512],f32>
  return %s, %r : !torch.vtensor<[1024,512],f32>, !torch.vtensor<[1024,512],f32>
}
"""

# Attention whose V an elementwise op makes.
COMPUTED_V = """
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x40x16xf32>, %x: tensor<2x40x12xf32>) -> tensor<2x8x12xf32> {
  %scale = arith.constant 0.25 : f32
  %f = tensor.empty() : tensor<2x40x12xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(b, k, n) -> (b, k, n)>, affine_map<(b, k, n) -> (b, k, n)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x40x12xf32>) outs(%f : tensor<2x40x12xf32>) {
  ^bb0(%a: f32, %b: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<2x40x12xf32>
  %e = tensor.empty() : tensor<2x8x12xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, d, k) -> (b, m, d)>,
      affine_map<(b, m, n, d, k) -> (b, k, d)>, affine_map<(b, m, n, d, k) -> (b, k, n)>,
      affine_map<(b, m, n, d, k) -> ()>, affine_map<(b, m, n, d, k) -> (b, m, n)>]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x40x16xf32>, tensor<2x40x12xf32>, f32)
      outs(%e : tensor<2x8x12xf32>) {
    ^bb0(%z: f32):
      iree_linalg_ext.yield %z : f32
  } -> tensor<2x8x12xf32>
  return %r : tensor<2x8x12xf32>
}
"""


def gathered_by(places: Sequence[int], rows: Sequence[int]) -> str:
    """A gather of rows of these dims by several indices each; `places` has the dim of each."""
    source, result = "4x" * len(places) + "6xf32", "x".join(map(str, rows)) + "x6xf32"
    indices = "x".join(map(str, (*rows, len(places)))) + "xi32"
    return f"""
func.func @main(%s: tensor<{source}>, %at: tensor<{indices}>) -> tensor<{result}> {{
  %e = tensor.empty() : tensor<{result}>
  %g = iree_linalg_ext.gather dimension_map = {list(places)} ins(%s, %at : tensor<{source}>, tensor<{indices}>) outs(%e : tensor<{result}>) -> tensor<{result}>
  return %g : tensor<{result}>
}}
"""


# Attention whose K and V a gather takes, by one index a row.
GATHERED = """
func.func @main(%q: tensor<5x8xf32>, %pk: tensor<48x8xf32>, %pv: tensor<48x8xf32>, %at: tensor<10x1xi32>) -> tensor<5x8xf32> {
  %e = tensor.empty() : tensor<10x8xf32>
  %k = iree_linalg_ext.gather dimension_map = [0] ins(%pk, %at : tensor<48x8xf32>, tensor<10x1xi32>) outs(%e : tensor<10x8xf32>) -> tensor<10x8xf32>
  %v = iree_linalg_ext.gather dimension_map = [0] ins(%pv, %at : tensor<48x8xf32>, tensor<10x1xi32>) outs(%e : tensor<10x8xf32>) -> tensor<10x8xf32>
  %scale = arith.constant 0.25 : f32
  %z = tensor.empty() : tensor<5x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, d, k) -> (m, d)>,
      affine_map<(m, n, d, k) -> (k, d)>, affine_map<(m, n, d, k) -> (k, n)>,
      affine_map<(m, n, d, k) -> ()>, affine_map<(m, n, d, k) -> (m, n)>]>
      ins(%q, %k, %v, %scale : tensor<5x8xf32>, tensor<10x8xf32>, tensor<10x8xf32>, f32) outs(%z : tensor<5x8xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<5x8xf32>
  return %r : tensor<5x8xf32>
}
"""

# A scatter of rows whose indices are computed.
SCATTERED = """
func.func @main(%new: tensor<4x8xf16>, %at: tensor<4xi64>, %cache: tensor<16x8xf16>) -> tensor<16x8xf16> {
  %e = tensor.empty() : tensor<4x1xi64>
  %i = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi64>) outs(%e : tensor<4x1xi64>) {
  ^bb0(%x: i64, %y: i64):
    %two = arith.constant 2 : i64
    %z = arith.muli %x, %two : i64
    linalg.yield %z : i64
  } -> tensor<4x1xi64>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%new, %i : tensor<4x8xf16>, tensor<4x1xi64>) outs(%cache : tensor<16x8xf16>) {
  ^bb0(%a: f16, %b: f16):
    iree_linalg_ext.yield %a : f16
  } -> tensor<16x8xf16>
  return %r : tensor<16x8xf16>
}
"""

# A scatter into a slice of a constant.
SCATTERED_SLICE = """
func.func @main(%new: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %x = arith.constant dense<[[[-0.25], [0.0], [1.25]], [[-2.0], [-0.5], [1.0]]]> : tensor<2x3x1xf32>
  %sum = arith.addf %x, %x : tensor<2x3x1xf32>
  %part = tensor.extract_slice %sum[0, 2, 0] [2, 1, 1] [1, 1, 1] : tensor<2x3x1xf32> to tensor<2x1xf32>
  %at = arith.constant dense<[[1], [0]]> : tensor<2x1xi32>
  %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%new, %at : tensor<2x1xf32>, tensor<2x1xi32>) outs(%part : tensor<2x1xf32>) {
  ^bb0(%one: f32, %old: f32):
    iree_linalg_ext.yield %one : f32
  } -> tensor<2x1xf32>
  return %r : tensor<2x1xf32>
}
"""

# A scatter to an argument that the function gives back as it was.
RETURNED = """
func.func @main(%cache: tensor<4x2xf32>, %new: tensor<2x2xf32>, %at: tensor<2x1xi32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %next = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%new, %at : tensor<2x2xf32>, tensor<2x1xi32>) outs(%cache : tensor<4x2xf32>) {
    ^bb0(%a: f32, %b: f32):
      iree_linalg_ext.yield %a : f32
  } -> tensor<4x2xf32>
  return %cache, %next : tensor<4x2xf32>, tensor<4x2xf32>
}
"""

# A global that gets what another held.
OF_A_GLOBAL = """
util.global private mutable @now = dense<[1.0, 2.0]> : tensor<2xf32>
util.global private mutable @last = dense<[3.0, 4.0]> : tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %last = util.global.load @last : tensor<2xf32>
  %now = util.global.load @now : tensor<2xf32>
  util.global.store %now, @last : tensor<2xf32>
  util.global.store %x, @now : tensor<2xf32>
  return %last : tensor<2xf32>
}
"""

# Rows that move up by one in the tensor that they are read of.
MOVED_UP = """
func.func @main(%cache: tensor<2x16x8xf32>) -> tensor<2x16x8xf32> {
  %part = tensor.extract_slice %cache[0, 0, 0] [2, 15, 8] [1, 1, 1] : tensor<2x16x8xf32> to tensor<2x15x8xf32>
  %r = tensor.insert_slice %part into %cache[0, 1, 0] [2, 15, 8] [1, 1, 1] : tensor<2x15x8xf32> into tensor<2x16x8xf32>
  return %r : tensor<2x16x8xf32>
}
"""

# A row of each sequence, as `vmap` of `dynamic_update_slice` writes them.
SEQUENCES = """
func.func @main(%cache: tensor<2x3x16x8xf32>, %at: tensor<2x3xi32>, %new: tensor<2x3x1x8xf32>) -> tensor<2x3x16x8xf32> {
  %r = "stablehlo.scatter"(%cache, %at, %new) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2, 3], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1, 2, 3], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %one: tensor<f32>):
    stablehlo.return %one : tensor<f32>
  }) : (tensor<2x3x16x8xf32>, tensor<2x3xi32>, tensor<2x3x1x8xf32>) -> tensor<2x3x16x8xf32>
  return %r : tensor<2x3x16x8xf32>
}
"""

# Factors of rows, by which scores are scaled and which the caller gets.
ROW_FACTORS = """
func.func @main(%x: tensor<8x9xf32>, %row: tensor<8xf32>) -> (tensor<8x9xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %f = tensor.empty() : tensor<8x9xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%row : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %q = math.exp %p : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v, %x : tensor<8xf32>, tensor<8x9xf32>) outs(%f : tensor<8x9xf32>) {
  ^bb0(%p: f32, %y: f32, %o: f32):
    %t = arith.mulf %p, %y : f32
    linalg.yield %t : f32
  } -> tensor<8x9xf32>
  %w = linalg.softmax dimension(1) ins(%z : tensor<8x9xf32>) outs(%f : tensor<8x9xf32>) -> tensor<8x9xf32>
  return %w, %v : tensor<8x9xf32>, tensor<8xf32>
}
"""

# Unsigned integers in the other order.
REVERSED = """
func.func @main(%x: tensor<4xui8>) -> tensor<4xui8> {
  %r = stablehlo.reverse %x, dims = [0] : tensor<4xui8>
  return %r : tensor<4xui8>
}
"""

# Rows written by indices of 32 bits.
NARROW_INDICES = """
func.func @main(%cache: !torch.vtensor<[2,16,8],f32>, %new: !torch.vtensor<[2,1,8],f32>, %at: !torch.vtensor<[1],si32>) -> !torch.vtensor<[2,16,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %list = torch.prim.ListConstruct %none, %at : (!torch.none, !torch.vtensor<[1],si32>) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %cache, %list, %new, %false : !torch.vtensor<[2,16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[2,1,8],f32>, !torch.bool -> !torch.vtensor<[2,16,8],f32>
  return %r : !torch.vtensor<[2,16,8],f32>
}
"""

# Each time round a row of the result so far is put over one of the same start.
LOOP = """
func.func @main(%base: tensor<4x8xf32>, %first: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%old = %first) -> (tensor<4x8xf32>) {
    %row = tensor.extract_slice %old[%i, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
    %new = tensor.insert_slice %row into %base[%i, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
    scf.yield %new : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}
"""


def after_loop(start: np.ndarray, state: np.ndarray) -> np.ndarray:
    """What LOOP returns."""
    for row in range(3):
        after = start.copy()
        after[row] = state[row]
        state = after
    return state


# A choice among cases, of a tensor.
SWITCH = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %number = tensor.extract %n[] : tensor<i32>
  %case = arith.index_cast %number : i32 to index
  %r = scf.index_switch %case -> tensor<4xf32>
  case 0 {
    %y = arith.negf %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  case 1 {
    %y = arith.addf %x, %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  default {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""

# A loop of ONNX that ends where its condition says, in front of its last step.
STOPPING_LOOP = """
func.func @main(%x: !torch.vtensor<[4],f32>, %total: !torch.vtensor<[],si64>)
    -> !torch.vtensor<[4],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {
  %most = torch.operator "onnx.Constant"() {torch.onnx.value = dense<6> : tensor<si64>}
      : () -> !torch.vtensor<[],si64>
  %go = torch.operator "onnx.Constant"() {torch.onnx.value = dense<true> : tensor<i1>}
      : () -> !torch.vtensor<[],i1>
  %0 = torch.operator "onnx.Loop"(%most, %go, %x)
      : (!torch.vtensor<[],si64>, !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>)
      -> !torch.vtensor<[4],f32> {
  ^bb0(%i: !torch.vtensor<[],si64>, %c: !torch.vtensor<[],i1>, %a: !torch.vtensor<[4],f32>):
    %1 = torch.operator "onnx.Add"(%a, %a)
        : (!torch.vtensor<[4],f32>, !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
    %2 = torch.operator "onnx.Greater"(%total, %i)
        : (!torch.vtensor<[],si64>, !torch.vtensor<[],si64>) -> !torch.vtensor<[],i1>
    torch.operator_terminator %2, %1 : !torch.vtensor<[],i1>, !torch.vtensor<[4],f32>
  }
  return %0 : !torch.vtensor<[4],f32>
}
"""

# A loop that carries its condition, of which nothing can be moved out.
CONDITION = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : i32
  %first = tensor.extract %n[] : tensor<i32>
  %go = arith.cmpi sgt, %first, %c0 : i32
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.while (%c = %go, %a = %x) : (i1, tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%c) %a : tensor<4xf32>
  } do {
  ^bb0(%a: tensor<4xf32>):
    %b = linalg.map ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) (%v: f32, %o: f32) {
      %w = arith.addf %v, %v : f32
      linalg.yield %w : f32
    }
    %i = arith.constant 0 : index
    %one = tensor.extract %b[%i] : tensor<4xf32>
    %most = arith.constant 100.0 : f32
    %again = arith.cmpf olt, %one, %most : f32
    scf.yield %again, %b : i1, tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""

INFINITE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xi32> {
  %e = tensor.empty() : tensor<4xi32>
  %r = linalg.map ins(%x : tensor<4xf32>) outs(%e : tensor<4xi32>) (%a: f32, %o: i32) {
    %i = math.isinf %a : f32
    %n = arith.extui %i : i1 to i32
    linalg.yield %n : i32
  }
  return %r : tensor<4xi32>
}
"""

HALF_OF_DOUBLE = """
func.func @main(%x: tensor<4xf64>) -> tensor<4xf16> {
  %e = tensor.empty() : tensor<4xf16>
  %r = linalg.map ins(%x : tensor<4xf64>) outs(%e : tensor<4xf16>) (%a: f64, %o: f16) {
    %h = arith.truncf %a : f64 to f16
    linalg.yield %h : f16
  }
  return %r : tensor<4xf16>
}
"""

# A loop whose start is added to its result.
LOOP_START = """
func.func @main(%given: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<4xf32>
  %x = linalg.map { arith.mulf } ins(%given, %given : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %b = linalg.map { arith.addf } ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
    scf.yield %b : tensor<4xf32>
  }
  %r = linalg.map { arith.addf } ins(%y, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
  return %r : tensor<4xf32>
}
"""

# Two tables by one kernel that reads no tensor, of which the second is written into.
TABLES = """
#m = affine_map<(d0) -> (d0)>
func.func @main(%given: tensor<?xf32>, %new: tensor<1xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %given, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r:2 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} outs(%e, %e : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%o: f32, %p: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %g = arith.addf %f, %f : f32
    linalg.yield %f, %g : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  %s = tensor.insert_slice %new into %r#1[1] [1] [1] : tensor<1xf32> into tensor<?xf32>
  return %r#0, %r#1, %s : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
"""

# A slice with gaps, its last dim read from its end.
REVERSED_SLICE = """
func.func @main(%x: tensor<8x16x64xf32>, %w: tensor<64xf32>) -> tensor<8x4x64xf32> {
  %top = arith.constant 63 : index
  %piece = tensor.extract_slice %x[0, 6, 0] [8, 4, 64] [1, 1, 1] : tensor<8x16x64xf32> to tensor<8x4x64xf32>
  %e = tensor.empty() : tensor<8x4x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<64xf32>) outs(%e : tensor<8x4x64xf32>) {
  ^bb0(%weight: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %n = linalg.index 2 : index
    %reverse = arith.subi %top, %n : index
    %back = arith.minsi %reverse, %top : index
    %v = tensor.extract %piece[%i, %j, %back] : tensor<8x4x64xf32>
    %p = arith.mulf %v, %weight : f32
    linalg.yield %p : f32
  } -> tensor<8x4x64xf32>
  return %r : tensor<8x4x64xf32>
}
"""

# Powers by integers that are known at run time.
WHOLE_POWERS = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xi32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xf32>, tensor<4xi32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: i32, %o: f32):
    %v = math.fpowi %a, %b : f32, i32
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""

QUOTIENTS = """
func.func @main(%x: tensor<4xi64>, %y: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {
  %e = tensor.empty() : tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xi64>, tensor<4xi64>) outs(%e : tensor<4xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %v = arith.divsi %a, %b : i64
    linalg.yield %v : i64
  } -> tensor<4xi64>
  %rest = arith.remsi %x, %y : tensor<4xi64>
  return %r, %rest : tensor<4xi64>, tensor<4xi64>
}
"""

# Scores and their softmax, both results.
SCORES = """
func.func @main(%x: tensor<2x6xf32>, %m: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %e = tensor.empty() : tensor<2x6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<2x6xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x6xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) -> tensor<2x6xf32>
  return %s, %p : tensor<2x6xf32>, tensor<2x6xf32>
}
"""

# The place of the largest of two, of which one is NaN.
LEAST = """
func.func @main(%x: tensor<2x512xi32>) -> tensor<2xi32> {
  %most = arith.constant 2147483647 : i32
  %e = tensor.empty() : tensor<2xi32>
  %f = linalg.fill ins(%most : i32) outs(%e : tensor<2xi32>) -> tensor<2xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x512xi32>) outs(%f : tensor<2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %m = arith.minsi %a, %b : i32
    linalg.yield %m : i32
  } -> tensor<2xi32>
  return %r : tensor<2xi32>
}
"""

ARGMAX = """
func.func @main(%x: tensor<2xf32>) -> tensor<i32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %v = tensor.empty() : tensor<f32>
  %i = tensor.empty() : tensor<i32>
  %vs = linalg.fill ins(%low : f32) outs(%v : tensor<f32>) -> tensor<f32>
  %is = linalg.fill ins(%zero : i32) outs(%i : tensor<i32>) -> tensor<i32>
  %r:2 = iree_linalg_ext.arg_compare dimension(0) ins(%x : tensor<2xf32>) outs(%vs, %is : tensor<f32>, tensor<i32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<f32>, tensor<i32>
  return %r#1 : tensor<i32>
}
"""

ROWS_ARGMAX = """
func.func @main(%x: tensor<3x512xf16>) -> tensor<3xi64> {
  %low = arith.constant 0xFC00 : f16
  %zero = arith.constant 0 : i64
  %v = tensor.empty() : tensor<3xf16>
  %i = tensor.empty() : tensor<3xi64>
  %vs = linalg.fill ins(%low : f16) outs(%v : tensor<3xf16>) -> tensor<3xf16>
  %is = linalg.fill ins(%zero : i64) outs(%i : tensor<3xi64>) -> tensor<3xi64>
  %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : tensor<3x512xf16>) outs(%vs, %is : tensor<3xf16>, tensor<3xi64>) {
  ^bb0(%a: f16, %b: f16):
    %c = arith.cmpf ogt, %a, %b : f16
    iree_linalg_ext.yield %c : i1
  } -> tensor<3xf16>, tensor<3xi64>
  return %r#1 : tensor<3xi64>
}
"""

# As PyTorch's `mask.sum(-1)` is imported.
TRUTHS = """
func.func @main(%x: tensor<3x1024xi1>) -> tensor<3xi64> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<3xi64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<3xi64>) -> tensor<3xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x1024xi1>) outs(%f : tensor<3xi64>) {
  ^bb0(%a: i1, %o: i64):
    %w = arith.extui %a : i1 to i64
    %s = arith.addi %w, %o : i64
    linalg.yield %s : i64
  } -> tensor<3xi64>
  return %r : tensor<3xi64>
}
"""

SOFTMAX_OF_F16 = """
func.func @main(%x: tensor<4x7xf16>) -> tensor<4x7xf16> {
  %e = tensor.empty() : tensor<4x7xf16>
  %r = linalg.softmax dimension(1) ins(%x : tensor<4x7xf16>) outs(%e : tensor<4x7xf16>) -> tensor<4x7xf16>
  return %r : tensor<4x7xf16>
}
"""

# The second of three columns, upside down.
REVERSED_COLUMN = """
func.func @main(%x: tensor<4x64x3xf32>) -> tensor<4x64xf32> {
  %top = arith.constant 63 : index
  %piece = tensor.extract_slice %x[0, 0, 1] [4, 64, 1] [1, 1, 1] : tensor<4x64x3xf32> to tensor<4x64xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x64xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 1 : index
    %back = arith.subi %top, %i : index
    %j = linalg.index 0 : index
    %v = tensor.extract %piece[%j, %back] : tensor<4x64xf32>
    linalg.yield %v : f32
  } -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}
"""

# Attention's result, three times.
REPEATED = """
func.func @main(%q: tensor<36x64xf32>, %k: tensor<32x64xf32>, %v: tensor<32x40xf32>) -> tensor<3x36x40xf32> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<36x40xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, d, k) -> (m, d)>,
      affine_map<(m, n, d, k) -> (k, d)>, affine_map<(m, n, d, k) -> (k, n)>,
      affine_map<(m, n, d, k) -> ()>, affine_map<(m, n, d, k) -> (m, n)>]>
      ins(%q, %k, %v, %scale : tensor<36x64xf32>, tensor<32x64xf32>, tensor<32x40xf32>, f32) outs(%e : tensor<36x40xf32>) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  } -> tensor<36x40xf32>
  %f = tensor.empty() : tensor<3x36x40xf32>
  %g = linalg.broadcast ins(%r : tensor<36x40xf32>) outs(%f : tensor<3x36x40xf32>) dimensions = [0]
  return %g : tensor<3x36x40xf32>
}
"""

# Rows of a known length, in sequences of an unknown number.
UNKNOWN_TILES = """
func.func @main(%a: tensor<?x16x64xf16>, %b: tensor<64x32xf16>) -> tensor<?x16x32xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %a, %c0 : tensor<?x16x64xf16>
  %e = tensor.empty(%n) : tensor<?x16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x16x32xf32>) -> tensor<?x16x32xf32>
  %r = linalg.contract indexing_maps = [affine_map<(t, m, n, k) -> (t, m, k)>, affine_map<(t, m, n, k) -> (k, n)>, affine_map<(t, m, n, k) -> (t, m, n)>]
      ins(%a, %b : tensor<?x16x64xf16>, tensor<64x32xf16>) outs(%f : tensor<?x16x32xf32>) -> tensor<?x16x32xf32>
  return %r : tensor<?x16x32xf32>
}
"""

# A sum of products one of whose factors has none of the summed dims.
LONE_FACTOR = """
func.func @main(%x: tensor<2x64x48xf32>, %g: tensor<48xf32>) -> tensor<2x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x48xf32>) -> tensor<2x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b, k, n)>, affine_map<(b, n, k) -> (n)>, affine_map<(b, n, k) -> (b, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<2x64x48xf32>, tensor<48xf32>) outs(%f : tensor<2x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %c : f32
    linalg.yield %s : f32
  } -> tensor<2x48xf32>
  return %r : tensor<2x48xf32>
}
"""

NUMBER_FACTOR = """
func.func @main(%x: tensor<64x128xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x128xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %c: f32):
    %p = arith.mulf %a, %half : f32
    %s = arith.addf %p, %c : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
"""

# A product over a dim of unknown size, of rows and columns of unknown number.
UNKNOWN_SUM = """
func.func @main(%q: tensor<2x?x?x?x2xf16>, %k: tensor<2x?x?x?xf16>) -> tensor<2x?x2x?x?xf32> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %h = tensor.dim %q, %c2 : tensor<2x?x?x?x2xf16>
  %m = tensor.dim %q, %c3 : tensor<2x?x?x?x2xf16>
  %n = tensor.dim %k, %c2 : tensor<2x?x?x?xf16>
  %e = tensor.empty(%h, %m, %n) : tensor<2x?x2x?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x2x?x?xf32>) -> tensor<2x?x2x?x?xf32>
  %r = linalg.contract indexing_maps = [affine_map<(g, h, b, m, k, d) -> (b, d, h, m, g)>, affine_map<(g, h, b, m, k, d) -> (b, h, k, d)>, affine_map<(g, h, b, m, k, d) -> (g, h, b, m, k)>]
      ins(%q, %k : tensor<2x?x?x?x2xf16>, tensor<2x?x?x?xf16>) outs(%f : tensor<2x?x2x?x?xf32>) -> tensor<2x?x2x?x?xf32>
  return %r : tensor<2x?x2x?x?xf32>
}
"""

# An elementwise op on rows of unknown number.
UNKNOWN_ROWS = """
func.func @main(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = math.exp %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
"""


def product(sums: str, left: np.ndarray, right: np.ndarray) -> str:
    """A named product of two arrays into f32; `sums` as for einsum."""
    factors, out = sums.split("->")
    maps = [*factors.split(","), out]
    loops = [*out, *sorted({*factors} - {*out, ","})]
    sizes = dict(zip("".join(maps[:2]), (*left.shape, *right.shape), strict=True))
    names = {"float16": "f16", "float32": "f32"}
    kinds = [names[one.dtype.name] for one in (left, right)]
    types = [
        f"tensor<{'x'.join([*(str(sizes[dim]) for dim in dims), kind])}>"
        for dims, kind in zip(maps, [*kinds, "f32"], strict=True)
    ]
    indexing = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in maps)
    return f"""
func.func @main(%l: {types[0]}, %r: {types[1]}) -> {types[2]} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {types[2]}
  %start = linalg.fill ins(%zero : f32) outs(%empty : {types[2]}) -> {types[2]}
  %p = linalg.contract indexing_maps = [{indexing}]
      ins(%l, %r : {types[0]}, {types[1]}) outs(%start : {types[2]}) -> {types[2]}
  return %p : {types[2]}
}}
"""


INTEGERS_TO_BF16 = """
func.func @main(%x: tensor<3x1xi8>) -> tensor<3x1xbf16> {
  %e = tensor.empty() : tensor<3x1xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x1xi8>) outs(%e : tensor<3x1xbf16>) {
    ^bb0(%i: i8, %o: bf16):
      %f = arith.sitofp %i : i8 to bf16
      linalg.yield %f : bf16
  } -> tensor<3x1xbf16>
  return %r : tensor<3x1xbf16>
}
"""

SMALL_HALVES = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf16> {
  %e = tensor.empty() : tensor<4xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf16>) {
    ^bb0(%i: f32, %o: f16):
      %f = arith.truncf %i : f32 to f16
      linalg.yield %f : f16
  } -> tensor<4xf16>
  return %r : tensor<4xf16>
}
"""


def repeated(operand: str) -> str:
    """Attention whose K has each key twice, or whose V each column."""
    k, v = "tensor<4x20x16xf32>", "tensor<4x20x8xf32>"
    whole, parts, given = {
        "k": (k, "tensor<4x10x2x16xf32>", "tensor<4x10x16xf32>"),
        "v": (v, "tensor<4x20x4x2xf32>", "tensor<4x20x4xf32>"),
    }[operand]
    groups, dim = {"k": ("[[0], [1, 2], [3]]", 2), "v": ("[[0], [1], [2, 3]]", 3)}[operand]
    kinds = {"k": k, "v": v, operand: given}
    names = {"k": "%k", "v": "%v", operand: "%w"}
    return f"""
func.func @main(%q: tensor<4x6x16xf32>, %k: {kinds["k"]}, %v: {kinds["v"]}) -> tensor<4x6x8xf32> {{
  %p = tensor.empty() : {parts}
  %b = linalg.broadcast ins(%{operand} : {given}) outs(%p : {parts}) dimensions = [{dim}]
  %w = tensor.collapse_shape %b {groups} : {parts} into {whole}
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<4x6x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, d, k) -> (b, m, d)>,
      affine_map<(b, m, n, d, k) -> (b, k, d)>, affine_map<(b, m, n, d, k) -> (b, k, n)>,
      affine_map<(b, m, n, d, k) -> ()>, affine_map<(b, m, n, d, k) -> (b, m, n)>]>
      ins(%q, {names["k"]}, {names["v"]}, %scale : tensor<4x6x16xf32>, {k}, {v}, f32) outs(%e : tensor<4x6x8xf32>) {{
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
  }} -> tensor<4x6x8xf32>
  return %r : tensor<4x6x8xf32>
}}
"""
