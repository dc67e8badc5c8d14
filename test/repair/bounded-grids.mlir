// Samples of a grid are bounded: zeros by a choice, borders by theirs; cubic ones stay.

// RUN: attn-opt %s --attn-bounded-grids | FileCheck %s

// CHECK-LABEL: func.func @zeros(
// CHECK: %[[NEAR:.*]] = torch.aten.all.dim
// CHECK: %[[GRID:.*]] = torch.aten.where.ScalarOther
// CHECK: %[[R:.*]] = torch.aten.grid_sampler %{{.*}}, %[[GRID]]
// CHECK: torch.aten.where.ScalarOther %{{.*}}, %[[R]]
func.func @zeros(%x: !torch.vtensor<[2,3,8,4],f32>, %g: !torch.vtensor<[2,9,4,2],f32>) -> !torch.vtensor<[2,3,9,4],f32> {
  %0 = torch.constant.int 0
  %false = torch.constant.bool false
  %r = torch.aten.grid_sampler %x, %g, %0, %0, %false : !torch.vtensor<[2,3,8,4],f32>, !torch.vtensor<[2,9,4,2],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[2,3,9,4],f32>
  return %r : !torch.vtensor<[2,3,9,4],f32>
}

// x and y: (4 - 1) / 4, and (8 - 1) / 8.
// CHECK-LABEL: func.func @border(
// CHECK: torch.vtensor.literal(dense<[7.500000e-01, 8.750000e-01]>
// CHECK: %[[R:.*]] = torch.aten.grid_sampler
// CHECK-NEXT: return %[[R]]
func.func @border(%x: !torch.vtensor<[2,3,8,4],f32>, %g: !torch.vtensor<[2,9,4,2],f32>) -> !torch.vtensor<[2,3,9,4],f32> {
  %1 = torch.constant.int 1
  %false = torch.constant.bool false
  %r = torch.aten.grid_sampler %x, %g, %1, %1, %false : !torch.vtensor<[2,3,8,4],f32>, !torch.vtensor<[2,9,4,2],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[2,3,9,4],f32>
  return %r : !torch.vtensor<[2,3,9,4],f32>
}

// CHECK-LABEL: func.func @cubic(
// CHECK-NOT: where
func.func @cubic(%x: !torch.vtensor<[2,3,8,4],f32>, %g: !torch.vtensor<[2,9,4,2],f32>) -> !torch.vtensor<[2,3,9,4],f32> {
  %0 = torch.constant.int 0
  %2 = torch.constant.int 2
  %false = torch.constant.bool false
  %r = torch.aten.grid_sampler %x, %g, %2, %0, %false : !torch.vtensor<[2,3,8,4],f32>, !torch.vtensor<[2,9,4,2],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[2,3,9,4],f32>
  return %r : !torch.vtensor<[2,3,9,4],f32>
}

// 16 bits are widened: IREE's import divides in f32 by what it adds in them.
// CHECK-LABEL: func.func @narrow(
// CHECK-COUNT-2: torch.prims.convert_element_type
// CHECK: torch.aten.grid_sampler {{.*}} -> !torch.vtensor<[2,3,9,4],f32>
// CHECK: %[[R:.*]] = torch.prims.convert_element_type {{.*}} -> !torch.vtensor<[2,3,9,4],f16>
// CHECK: return %[[R]]
func.func @narrow(%x: !torch.vtensor<[2,3,8,4],f16>, %g: !torch.vtensor<[2,9,4,2],f16>) -> !torch.vtensor<[2,3,9,4],f16> {
  %0 = torch.constant.int 0
  %false = torch.constant.bool false
  %r = torch.aten.grid_sampler %x, %g, %0, %0, %false : !torch.vtensor<[2,3,8,4],f16>, !torch.vtensor<[2,9,4,2],f16>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[2,3,9,4],f16>
  return %r : !torch.vtensor<[2,3,9,4],f16>
}
