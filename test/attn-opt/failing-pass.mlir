// A pass of MLIR or IREE that fails is named; one of unknown name is refused before work.

// RUN: not attn-opt %s -p 'func.func(cse,iree-verify-input-legality)' 2>&1 | FileCheck %s
// RUN: not attn-opt %s --iree-global-opt-propagate-linalg-transpose 2>&1 | FileCheck %s --check-prefix=NEST
// RUN: not attn-opt %s.missing --cse --no-such-pass 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not attn-opt %s -p 'cse{no-such-option=1}' 2>&1 | FileCheck %s --check-prefix=OPTION

// NEST: attn-opt: error: pass 'iree-global-opt-propagate-linalg-transpose' failed: unable to schedule {{.*}}nest it: -p 'builtin.module(func.func(
// UNKNOWN: attn-opt: error: pass 'no-such-pass': 'no-such-pass' does not refer to a registered pass
// OPTION: attn-opt: error: pass 'cse{no-such-option=1}': no such option no-such-option

// CHECK: failing-pass.mlir:[[# @LINE + 3]]:{{[0-9]+}}: error: 'tosa.abs' op : illegal op still exists
// CHECK: note: pass 'func.func(cse,iree-verify-input-legality)' failed
func.func @tosa(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
