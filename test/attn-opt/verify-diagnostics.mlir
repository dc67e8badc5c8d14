// What is expected must come, and nothing else of weight may.

// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-bubble-transpose-v --remarks | FileCheck %s

// The parts without errors are written.
// CHECK-NOT: @undeclared
// CHECK: @remarks
// CHECK-NOT: @mismatch

func.func @undeclared() -> i32 {
  return %nothing : i32 // expected-error {{use of undeclared SSA value name}}
}

// -----

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>

func.func @remarks(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  // expected-remark @below {{value kept: a transpose in front of attention}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// -----

// expected-error-re @+2 {{type of return operand {{[0-9]+}} ('i32') doesn't match}}
func.func @mismatch(%a: i32) -> i64 {
  return %a : i32
  // expected-note-re @above {{see current {{op.*}}: "func.return"}}
}
