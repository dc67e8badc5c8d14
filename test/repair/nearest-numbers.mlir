// Numbers of the torch dialect become the nearest of f32; not where there are tensors of f64, and
// not those that f32 does not have.

// RUN: attn-opt %s --split-input-file --attn-nearest-numbers | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK: torch.constant.float 1.321755886077{{[0-9]+}}
// CHECK: torch.constant.float 5.000000e-01
// CHECK: torch.constant.float 1.000000e+300
func.func @main(%x: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3],f32>, !torch.float, !torch.float) {
  %log = torch.constant.float 1.3217558399823195
  %half = torch.constant.float 5.000000e-01
  %large = torch.constant.float 1.000000e+300
  %0 = torch.aten.div.Scalar %x, %log : !torch.vtensor<[3],f32>, !torch.float -> !torch.vtensor<[3],f32>
  return %0, %half, %large : !torch.vtensor<[3],f32>, !torch.float, !torch.float
}

// -----

// CHECK-LABEL: func.func @doubles(
// CHECK: torch.constant.float 1.3217558399823195
func.func @doubles(%x: !torch.vtensor<[3],f64>) -> !torch.vtensor<[3],f64> {
  %log = torch.constant.float 1.3217558399823195
  %0 = torch.aten.div.Scalar %x, %log : !torch.vtensor<[3],f64>, !torch.float -> !torch.vtensor<[3],f64>
  return %0 : !torch.vtensor<[3],f64>
}
