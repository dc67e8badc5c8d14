// A module that a front end wrote says so: passes on tensors find nothing in it.

// RUN: attn-opt %s --attn-propagate-layout -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-flex-masks -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty

// CHECK: before-input-conversion.mlir:[[# @LINE + 6]]:8: warning: 'torch.aten.relu' is torch's, from before IREE's input conversion: passes on tensors find nothing in it.
// CHECK-SAME: attn-compile and attnpass.compile_str run them behind that conversion
// CHECK-SAME: iree-compile --compile-to=preprocessing
// NONE-NOT: warning

func.func @main(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32> {
  %0 = torch.aten.relu %x : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  return %0 : !torch.vtensor<[2,3],f32>
}
