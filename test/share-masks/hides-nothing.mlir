// Masks that show each row every key go; others stay, and those for GPUs.

// RUN: attn-opt %s --attn-share-masks --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(a, b, c) -> (a, b, c)>

// An index is at least 0.
// CHECK-LABEL: func.func @positions(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}]>
func.func @positions(%q: tensor<?x24x16xf32>, %k: tensor<?x40x16xf32>, %size: index) -> tensor<?x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0 : index
  %e = tensor.empty(%size) : tensor<?x24x40xi1>
  %mask = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<?x24x40xi1>) {
  ^bb0(%o: i1):
    %i = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %zero : index
    linalg.yield %seen : i1
  } -> tensor<?x24x40xi1>
  %o = tensor.empty(%size) : tensor<?x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %k, %scale, %mask : tensor<?x24x16xf32>, tensor<?x40x16xf32>, tensor<?x40x16xf32>, f32, tensor<?x24x40xi1>) outs(%o : tensor<?x24x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x24x16xf32>
  return %r : tensor<?x24x16xf32>
}

// Zeros, added to scores.
// CHECK-LABEL: func.func @zeros(
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}, #{{[a-z0-9]+}}]>
func.func @zeros(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = arith.constant dense<0.0> : tensor<8x24x40xf32>
  %o = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%o : tensor<8x24x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// Other numbers than zero change scores.
// CHECK-LABEL: func.func @ones(
// CHECK: iree_linalg_ext.attention {{.*}}, %{{.*}} : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<{{.*}}xf32>)
func.func @ones(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = arith.constant dense<1.0> : tensor<8x24x40xf32>
  %o = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%o : tensor<8x24x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// Nothing is seen.
// CHECK-LABEL: func.func @never(
// CHECK: iree_linalg_ext.attention {{.*}}, %{{.*}} : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<{{.*}}xi1>)
func.func @never(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = arith.constant dense<false> : tensor<8x24x40xi1>
  %o = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xi1>) outs(%o : tensor<8x24x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#b = affine_map<(b, m, n, k1, k2) -> (b, m, k2)>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#all = affine_map<(a, b, c) -> (a, b, c)>

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
// CHECK-LABEL: func.func @for_gpus(
// CHECK: iree_linalg_ext.attention {{.*}}, %{{.*}} : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<{{.*}}xf32>)
func.func @for_gpus(%q: tensor<8x24x16xf32>, %k: tensor<8x40x16xf32>) -> tensor<8x24x16xf32> {
  %scale = arith.constant 0.25 : f32
  %mask = arith.constant dense<0.0> : tensor<8x24x40xf32>
  %o = tensor.empty() : tensor<8x24x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #b, #o]> ins(%q, %k, %k, %scale, %mask : tensor<8x24x16xf32>, tensor<8x40x16xf32>, tensor<8x40x16xf32>, f32, tensor<8x24x40xf32>) outs(%o : tensor<8x24x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<8x24x16xf32>
  return %r : tensor<8x24x16xf32>
}
}
