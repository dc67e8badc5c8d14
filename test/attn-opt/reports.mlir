// Each decision is a remark at its op, and a record of the JSON report; the lists of passes
// and options need no input.

// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --remarks --report=%t.json -o %t 2> %t.remarks
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: attn-opt %s --attn-configure --target=llvm-cpu --remarks -o %t 2>&1 | FileCheck %s --check-prefix=NOTE
// RUN: attn-opt --show-passes | FileCheck %s --check-prefix=PASSES
// RUN: attn-opt --version | FileCheck %s --check-prefix=VERSION
// RUN: attn-opt --help | FileCheck %s --check-prefix=HELP

// NOTE: reports.mlir: note: attention at {{.*}}reports.mlir:{{.*}} is configured for llvm-cpu
// PASSES: attn-propagate-layout{mode=cost {{.*}}} {{.*}}cost
// PASSES: attn-bubble-transpose-v {{.*}}linalg.transpose
// PASSES: attn-fold-transpose{through-reshapes=false} {{.*}}maps

// VERSION: attnpass {{[0-9.]+}} (iree-base-compiler 3.13.{{[0-9]+}})
// HELP: usage: attn-opt [FILE|-]
// HELP: --verify-diagnostics

// JSON: "version": 4,
// JSON: "location": "{{.*}}reports.mlir:[[# @LINE + 14]]:
// JSON: "function": "argument",
// JSON: "operand": "value",
// JSON-NEXT: "decision": "refused",

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
// REMARK: reports.mlir:[[# @LINE + 4]]:{{[0-9]+}}: remark: value refused: {{.*}}it is an argument of @
func.func @argument(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}
