// Sums of truths, and whether all or any are true, are of 0 and 1 in 32 bits. Run twice the pass adds
// nothing.

// RUN: attn-opt %s --target=sm_90 --attn-integer-sums --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --target=sm_90 --attn-integer-sums > %t.1 && attn-opt %s --target=sm_90 --attn-integer-sums --attn-integer-sums > %t.2 && diff %t.1 %t.2
// WHY-COUNT-3: its truths are numbers of 32 bits
// WHY: what it sums is widened first
// WHY-NOT: {{its truths|widened first}}

module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]>]} {

// CHECK-LABEL: func.func @sum(
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: %[[START:.*]] = linalg.fill ins(%[[ZERO]] : i32)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"]} ins(%{{.*}} : tensor<4x?xi1>) outs(%[[START]] : tensor<4xi32>)
// CHECK: arith.extui %{{.*}} : i1 to i32
// CHECK: arith.addi {{.*}} : i32
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<4xi32>)
// CHECK: arith.extui %{{.*}} : i32 to i64
func.func @sum(%x: tensor<4x?xi1>) -> tensor<4xi64> {
  %s = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xi64>
  %f = linalg.fill ins(%s : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi64>) {
  ^bb0(%a: i1, %o: i64):
    %w = arith.extui %a : i1 to i64
    %t = arith.addi %w, %o : i64
    linalg.yield %t : i64
  } -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// CHECK-LABEL: func.func @all(
// CHECK: arith.constant 1 : i32
// CHECK: arith.minui {{.*}} : i32
// CHECK: arith.cmpi ne
func.func @all(%x: tensor<4x?xi1>) -> tensor<4xi1> {
  %s = arith.constant true
  %e = tensor.empty() : tensor<4xi1>
  %f = linalg.fill ins(%s : i1) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi1>) {
  ^bb0(%a: i1, %o: i1):
    %t = arith.andi %a, %o : i1
    linalg.yield %t : i1
  } -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// CHECK-LABEL: func.func @any(
// CHECK: arith.constant 0 : i32
// CHECK: arith.maxui {{.*}} : i32
// CHECK: arith.cmpi ne
func.func @any(%x: tensor<4x?xi1>) -> tensor<4xi1> {
  %s = arith.constant false
  %e = tensor.empty() : tensor<4xi1>
  %f = linalg.fill ins(%s : i1) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi1>) {
  ^bb0(%a: i1, %o: i1):
    %t = arith.ori %a, %o : i1
    linalg.yield %t : i1
  } -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// Counted in 32 bits already; what starts at another number, and is false whatever is read.
// CHECK-LABEL: func.func @narrow(
// CHECK: arith.extui %{{.*}} : i1 to i32
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @narrow(%x: tensor<4x?xi1>) -> tensor<4xi32> {
  %s = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xi32>
  %f = linalg.fill ins(%s : i32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi32>) {
  ^bb0(%a: i1, %o: i32):
    %w = arith.extui %a : i1 to i32
    %t = arith.addi %w, %o : i32
    linalg.yield %t : i32
  } -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// CHECK-LABEL: func.func @from_one(
// CHECK: arith.extui %{{.*}} : i1 to i64
func.func @from_one(%x: tensor<4x?xi1>) -> tensor<4xi64> {
  %s = arith.constant 1 : i64
  %e = tensor.empty() : tensor<4xi64>
  %f = linalg.fill ins(%s : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi64>) {
  ^bb0(%a: i1, %o: i64):
    %w = arith.extui %a : i1 to i64
    %t = arith.addi %w, %o : i64
    linalg.yield %t : i64
  } -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// CHECK-LABEL: func.func @never(
// CHECK: arith.andi
func.func @never(%x: tensor<4x?xi1>) -> tensor<4xi1> {
  %s = arith.constant false
  %e = tensor.empty() : tensor<4xi1>
  %f = linalg.fill ins(%s : i1) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi1>) outs(%f : tensor<4xi1>) {
  ^bb0(%a: i1, %o: i1):
    %t = arith.andi %a, %o : i1
    linalg.yield %t : i1
  } -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// An unknown number of others is widened first; a known number is summed as it is.
// CHECK-LABEL: func.func @numbers(
// CHECK: arith.extsi %{{.*}} : i8 to i64
// CHECK: %[[WIDE:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: linalg.generic {{.*}}"reduction"]} ins(%[[WIDE]] : tensor<4x?xi64>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addi {{.*}} : i64
func.func @numbers(%x: tensor<4x?xi8>) -> tensor<4xi64> {
  %s = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xi64>
  %f = linalg.fill ins(%s : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xi8>) outs(%f : tensor<4xi64>) {
  ^bb0(%a: i8, %o: i64):
    %w = arith.extsi %a : i8 to i64
    %t = arith.addi %w, %o : i64
    linalg.yield %t : i64
  } -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// CHECK-LABEL: func.func @known(
// CHECK-NOT: compute_barrier
func.func @known(%x: tensor<4x33xi8>) -> tensor<4xi64> {
  %s = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xi64>
  %f = linalg.fill ins(%s : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x33xi8>) outs(%f : tensor<4xi64>) {
  ^bb0(%a: i8, %o: i64):
    %w = arith.extsi %a : i8 to i64
    %t = arith.addi %w, %o : i64
    linalg.yield %t : i64
  } -> tensor<4xi64>
  return %r : tensor<4xi64>
}

}
