// On GPUs the least signed integer of a row is found without a sign, from the largest one on; sums, integers
// without a sign and a bound that is read again stay, and all for CPUs.

// RUN: attn-opt %s --attn-signed-bounds --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-signed-bounds --split-input-file | attn-opt - --attn-signed-bounds --split-input-file | FileCheck %s

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {

// CHECK-LABEL: func.func @least(
// CHECK: linalg.generic
// CHECK: %[[TURNED:.*]] = arith.xori %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: arith.minui %[[TURNED]], %{{.*}} : i32
// CHECK: %[[RIGHT:.*]] = linalg.generic
// CHECK: arith.xori
// CHECK: return %[[RIGHT]]
func.func @least(%x: tensor<4x?xi32>) -> tensor<4xi32> {
  %most = arith.constant 2147483647 : i32
  %e = tensor.empty() : tensor<4xi32>
  %f = linalg.fill ins(%most : i32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  %r = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi32>) outs(%f : tensor<4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.minsi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// All of a tensor, for two users; the largest by `linalg.reduce`.
// CHECK-LABEL: func.func @whole(
// CHECK: arith.minui
// CHECK: %[[RIGHT:.*]] = linalg.generic
// CHECK: arith.xori
// CHECK: %[[LARGEST:.*]] = linalg.reduce
// CHECK: arith.xori
// CHECK-NEXT: arith.maxui
// CHECK: linalg.generic {{.*}} ins(%[[LARGEST]] : tensor<?xi64>)
// CHECK: return %[[RIGHT]], %[[RIGHT]],
func.func @whole(%x: tensor<512xi32>, %f: tensor<i32>, %y: tensor<?x?xi64>, %g: tensor<?xi64>) -> (tensor<i32>, tensor<i32>, tensor<?xi64>) {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<512xi32>) outs(%f : tensor<i32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.minsi %o, %a : i32
    linalg.yield %m : i32
  } -> tensor<i32>
  %s = linalg.reduce ins(%y : tensor<?x?xi64>) outs(%g : tensor<?xi64>) dimensions = [1] (%a: i64, %o: i64) {
    %m = arith.maxsi %a, %o : i64
    linalg.yield %m : i64
  }
  return %r, %r, %s : tensor<i32>, tensor<i32>, tensor<?xi64>
}

// CHECK-LABEL: func.func @others(
// CHECK: arith.minui
// CHECK: arith.maxsi
// CHECK-NOT: arith.xori
func.func @others(%x: tensor<4x8xi32>, %f: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %r = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xi32>) outs(%f : tensor<4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.minui %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<4xi32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xi32>) outs(%f : tensor<4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.maxsi %a, %o : i32
    %n = arith.subi %m, %o : i32
    linalg.yield %n : i32
  } -> tensor<4xi32>
  return %r, %s : tensor<4xi32>, tensor<4xi32>
}
}

// -----

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
// CHECK-LABEL: func.func @cpu(
// CHECK: arith.minsi
func.func @cpu(%x: tensor<4x8xi32>, %f: tensor<4xi32>) -> tensor<4xi32> {
  %r = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xi32>) outs(%f : tensor<4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.minsi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<4xi32>
  return %r : tensor<4xi32>
}
}
