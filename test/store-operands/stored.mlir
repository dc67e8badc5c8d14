// What makes K, V or a mask element by element stays out of attention's kernel on CPUs, at every
// level: vector loops read memory, and of few rows codes in it.

// RUN: attn-opt %s --attn-store-operands=target=llvm-cpu --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-compile %s %cpu --iree-opt-level=O0 --compile-to=executable-configurations | FileCheck %s --check-prefix=LOOPS
// RUN: attn-compile %s %cpu --iree-opt-level=O2 --compile-to=executable-configurations | FileCheck %s --check-prefix=LOOPS
// RUN: attn-compile %s %cpu --iree-opt-level=O3 --compile-to=executable-configurations | FileCheck %s --check-prefix=LOOPS
// RUN: attn-opt %s --attn-store-operands | FileCheck %s --check-prefix=NO-TARGET

// LOOPS-COUNT-6: attnpass.lowered_by
// NO-TARGET-NOT: compute_barrier

#i = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#i4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#by_key = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#mask = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#keys = affine_map<(b, m, n, k1, k2) -> (k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// WHY: its key is computed, and put in memory before it
// CHECK-LABEL: func.func @codes
// CHECK: %[[K:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[K]]
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}%[[STORED]]
func.func @codes(%q: tensor<2x32x64xf32>, %k8: tensor<2x40x64xi8>, %v: tensor<2x40x64xf32>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x32x64xf32>
  %e = tensor.empty() : tensor<2x40x64xf32>
  %k = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k8 : tensor<2x40x64xi8>) outs(%e : tensor<2x40x64xf32>) {
    ^bb0(%x: i8, %y: f32):
    %f = arith.sitofp %x : i8 to f32
    %g = arith.mulf %f, %scale : f32
    linalg.yield %g : f32
  } -> tensor<2x40x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x32x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x32x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}

// Few rows read codes as they lie, below reshapes that leave rows of them whole: each once.
//
// WHY: its key is widened in registers, from codes as they lie
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: compute_barrier
// CHECK: iree_linalg_ext.attention
func.func @few_rows(%q: tensor<2x4x64xf32>, %k8: tensor<1x2x40x64xi8>, %scales: tensor<1x2x40xf32>, %v: tensor<2x40x64xf32>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x4x64xf32>
  %e = tensor.empty() : tensor<1x2x40x64xf32>
  %w = linalg.generic {indexing_maps = [#i4, #by_key, #i4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k8, %scales : tensor<1x2x40x64xi8>, tensor<1x2x40xf32>) outs(%e : tensor<1x2x40x64xf32>) {
    ^bb0(%x: i8, %s: f32, %y: f32):
    %f = arith.sitofp %x : i8 to f32
    %g = arith.mulf %f, %s : f32
    linalg.yield %g : f32
  } -> tensor<1x2x40x64xf32>
  %k = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<1x2x40x64xf32> into tensor<2x40x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x4x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}

// Its reshape cuts rows of codes.
//
// WHY: its value is computed, and put in memory before it
// CHECK-LABEL: func.func @cut_rows
// CHECK: iree_tensor_ext.compute_barrier.start
func.func @cut_rows(%q: tensor<2x4x64xf32>, %k: tensor<2x40x64xf32>, %v8: tensor<2x40x2x32xi8>) -> tensor<2x4x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x4x64xf32>
  %e = tensor.empty() : tensor<2x40x2x32xf32>
  %w = linalg.generic {indexing_maps = [#i4, #i4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v8 : tensor<2x40x2x32xi8>) outs(%e : tensor<2x40x2x32xf32>) {
    ^bb0(%x: i8, %y: f32):
    %f = arith.sitofp %x : i8 to f32
    linalg.yield %f : f32
  } -> tensor<2x40x2x32xf32>
  %v = tensor.collapse_shape %w [[0], [1], [2, 3]] : tensor<2x40x2x32xf32> into tensor<2x40x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x4x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x4x64xf32>
  return %r : tensor<2x4x64xf32>
}

// WHY: its mask is computed, and put in memory before it
// CHECK-LABEL: func.func @positions
// CHECK: %[[MASK:.*]] = linalg.generic
// CHECK: iree_tensor_ext.compute_barrier.start %[[MASK]]
func.func @positions(%q: tensor<2x32x64xf32>, %k: tensor<2x40x64xf32>, %v: tensor<2x40x64xf32>, %length: tensor<i64>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x32x64xf32>
  %e = tensor.empty() : tensor<40xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%length : tensor<i64>) outs(%e : tensor<40xi1>) {
    ^bb0(%last: i64, %old: i1):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %seen = arith.cmpi sle, %n, %last : i64
    linalg.yield %seen : i1
  } -> tensor<40xi1>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #keys, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x32x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32, tensor<40xi1>) outs(%out : tensor<2x32x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}

// A bias with its heads last (T5): its keys are to lie side by side.
//
// WHY: its mask is transposed, and put in memory as loops read it
// CHECK-LABEL: func.func @heads_last
// CHECK: %[[TURNED:.*]] = linalg.transpose
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[TURNED]]
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}%[[STORED]]
func.func @heads_last(%q: tensor<2x32x64xf32>, %k: tensor<2x40x64xf32>, %v: tensor<2x40x64xf32>, %bias: tensor<32x40x2xf32>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x32x64xf32>
  %e = tensor.empty() : tensor<2x32x40xf32>
  %mask = linalg.transpose ins(%bias : tensor<32x40x2xf32>) outs(%e : tensor<2x32x40xf32>) permutation = [2, 0, 1]
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #mask, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x32x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32, tensor<2x32x40xf32>) outs(%out : tensor<2x32x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}

// A mask that is cut to computed sizes.
// WHY: its mask is computed, and put in memory before it
// CHECK-LABEL: func.func @reshaped
// CHECK: %[[M:.*]] = tensor.reshape
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[M]]
// CHECK: iree_linalg_ext.attention {{.*}} ins({{.*}}%[[STORED]]
func.func @reshaped(%q: tensor<2x32x64xf32>, %k: tensor<2x40x64xf32>, %v: tensor<2x40x64xf32>, %m: tensor<?x40xf32>, %shape: tensor<2xi64>) -> tensor<2x32x64xf32> {
  %scale = arith.constant 0.125 : f32
  %out = tensor.empty() : tensor<2x32x64xf32>
  %mask = tensor.reshape %m(%shape) : (tensor<?x40xf32>, tensor<2xi64>) -> tensor<32x40xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, affine_map<(b, m, n, k1, k2) -> (m, k2)>, #o]>
      ins(%q, %k, %v, %scale, %mask : tensor<2x32x64xf32>, tensor<2x40x64xf32>, tensor<2x40x64xf32>, f32, tensor<32x40xf32>) outs(%out : tensor<2x32x64xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x32x64xf32>
  return %r : tensor<2x32x64xf32>
}
