// A tuning spec of the user's goes before our tables, where IREE reads it; where it does not, a
// warning says which flag IREE reads.
// RUN: attn-compile %s -o %t.mlir --iree-hal-target-device=hip --iree-rocm-target=gfx942 \
// RUN:   --iree-codegen-tuning-spec-path=%S/Inputs/user-spec.mlir \
// RUN:   --compile-to=executable-configurations --attn-summary 2> %t.report
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t.report
// RUN: attn-compile %s -o %t.ours.mlir --iree-hal-target-device=hip --iree-rocm-target=gfx942 \
// RUN:   --compile-to=executable-configurations
// RUN: FileCheck %s --check-prefix=OURS --input-file=%t.ours.mlir
// RUN: attn-compile %s -o %t.cuda.mlir --iree-hal-target-device=cuda --iree-cuda-target=sm_80 \
// RUN:   --iree-codegen-tuning-spec-path=%S/Inputs/user-spec.mlir --compile-to=flow 2> %t.warning
// RUN: FileCheck %s --check-prefix=UNREAD --input-file=%t.warning
// RUN: not attn-compile %s -o - --iree-hal-target-device=cuda --iree-cuda-target=sm_80 \
// RUN:   --iree-codegen-tuning-spec-path=%S/Inputs/user-spec.mlir --compile-to=flow \
// RUN:   --attn-fail-on=ignored 2>&1 | FileCheck %s --check-prefix=FAILS
// RUN: attn-compile %s -o %t.library.mlir --iree-hal-target-device=hip --iree-rocm-target=gfx942 \
// RUN:   --iree-codegen-transform-dialect-library=%S/Inputs/user-spec.mlir \
// RUN:   --compile-to=executable-configurations
// RUN: FileCheck %s --input-file=%t.library.mlir

// CHECK: workgroup_size = [64, 4]
// CHECK-NOT: workgroup_size = [256, 1, 1]
// REPORT: attention at {{.*}} has the configuration that --iree-codegen-tuning-spec-path gives it
// OURS-NOT: workgroup_size = [64, 4]
// UNREAD: warning: ignored: IREE 3.13 does not read --iree-codegen-tuning-spec-path for cuda: give the spec by --iree-codegen-transform-dialect-library={{.*}}user-spec.mlir
// FAILS: error: --attn-fail-on=ignored: IREE 3.13 does not read

#q = affine_map<(b, h, m, n, k1, k2) -> (b, m, h, k1)>
#k = affine_map<(b, h, m, n, k1, k2) -> (b, k2, h, k1)>
#v = affine_map<(b, h, m, n, k1, k2) -> (b, k2, h, n)>
#s = affine_map<(b, h, m, n, k1, k2) -> ()>
#o = affine_map<(b, h, m, n, k1, k2) -> (b, h, m, n)>

func.func @f(%q: tensor<2x4096x10x128xf16>, %k: tensor<2x1024x10x128xf16>, %v: tensor<2x1024x10x128xf16>) -> tensor<2x10x4096x128xf16> {
  %scale = arith.constant 0.125 : f16
  %e = tensor.empty() : tensor<2x10x4096x128xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x4096x10x128xf16>, tensor<2x1024x10x128xf16>, tensor<2x1024x10x128xf16>, f16) outs(%e : tensor<2x10x4096x128xf16>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x10x4096x128xf16>
  return %r : tensor<2x10x4096x128xf16>
}
