// A number of keys known only at run time gets a mask on GPUs; a known one, one under a mask
// already, and one for a CPU do not.

// RUN: attn-opt %s --attn-mask-dynamic-keys=target=sm_80 --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-mask-dynamic-keys=target=llvm-cpu | FileCheck %s --check-prefix=CPU
// CPU-NOT: linalg.fill

// WHY: attention at {{.*}}:{{[0-9]+}}:8: a mask that hides nothing is added
// WHY-NOT: gets a mask

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
#m = affine_map<(b, m, n, k1, k2) -> (m, k2)>

// CHECK: #[[K2:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4)>
// CHECK-LABEL: func.func @keys(
// CHECK: %[[N:.*]] = tensor.dim %{{.*}}, %{{.*}} : tensor<2x?x64xf16>
// CHECK: %[[E:.*]] = tensor.empty(%[[N]]) : tensor<?xi1>
// CHECK: %[[M:.*]] = linalg.fill ins(%true{{.*}} : i1) outs(%[[E]] : tensor<?xi1>)
// CHECK: iree_linalg_ext.attention <indexing_maps = [#{{map[^,]*, #map[^,]*, #map[^,]*, #map[^,]*}}, #[[K2]], #{{map[^,]*}}]>
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %arg3, %[[M]] :
func.func @keys(%q: tensor<2x32x64xf16>, %k: tensor<2x?x64xf16>, %v: tensor<2x?x64xf16>, %scale: f16) -> tensor<2x32x64xf16> {
  %e = tensor.empty() : tensor<2x32x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x32x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, f16) outs(%e : tensor<2x32x64xf16>) {
  ^bb0(%x: f32):
    %y = arith.addf %x, %x : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2x32x64xf16>
  return %r : tensor<2x32x64xf16>
}

// CHECK-LABEL: func.func @known(
// CHECK-NOT: linalg.fill
func.func @known(%q: tensor<2x32x64xf16>, %k: tensor<2x48x64xf16>, %v: tensor<2x48x64xf16>, %scale: f16) -> tensor<2x32x64xf16> {
  %e = tensor.empty() : tensor<2x32x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x32x64xf16>, tensor<2x48x64xf16>, tensor<2x48x64xf16>, f16) outs(%e : tensor<2x32x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x32x64xf16>
  return %r : tensor<2x32x64xf16>
}

// CHECK-LABEL: func.func @masked(
// CHECK-NOT: linalg.fill
func.func @masked(%q: tensor<2x32x64xf16>, %k: tensor<2x?x64xf16>, %v: tensor<2x?x64xf16>, %mask: tensor<32x?xi1>, %scale: f16) -> tensor<2x32x64xf16> {
  %e = tensor.empty() : tensor<2x32x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x32x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, f16, tensor<32x?xi1>) outs(%e : tensor<2x32x64xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x32x64xf16>
  return %r : tensor<2x32x64xf16>
}
