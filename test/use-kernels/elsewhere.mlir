// RUN: attn-opt %s --attn-use-kernels="target=sm_90 elsewhere=iree" --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: attn-opt %s --attn-use-kernels=target=sm_90 | FileCheck %s --check-prefix=ALONE

// A module for Hopper and others: it asks the device, and keeps IREE's attention beside the
// kernel. IREE loads all executables of a module, so other devices get one that does nothing.

// CHECK: %[[OK:.*]], %[[MAJOR:.*]] = hal.device.query<%{{.*}} : !hal.device> key("cuda.device" :: "compute_capability_major")
// CHECK: %[[HOPPER:.*]] = arith.cmpi eq, %[[MAJOR]], %c9
// CHECK: %[[R:.*]] = scf.if %[[HOPPER]] -> (tensor<32x512x128xf16>) {
// CHECK: hal.dispatch.extern "attention_f16_d128"
// CHECK: if(%{{.*}}: !hal.device) -> i1 {
// CHECK: ordinal(0) = [#hal.executable.object<{path = "attention_f16_d128.cubin"
// CHECK: ordinal(0) = [#hal.executable.object<{path = "attention_f16_d128_elsewhere.cubin"
// CHECK: } else {
// CHECK: iree_linalg_ext.attention
// CHECK: return %[[R]]
// REMARK: output kernel: attention_f16_d128: {{.*}}; IREE's own code elsewhere
// ALONE-NOT: hal.device.query
// ALONE-NOT: iree_linalg_ext.attention
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
func.func @main(%q: tensor<32x512x128xf16>, %k: tensor<32x4096x128xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x512x128xf16> {
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<32x512x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<32x512x128xf16>, tensor<32x4096x128xf16>, tensor<32x4096x128xf16>, f32) outs(%e : tensor<32x512x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<32x512x128xf16>
  return %r : tensor<32x512x128xf16>
}
