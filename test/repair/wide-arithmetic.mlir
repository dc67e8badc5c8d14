// Steps of 16 bits that read another's result are computed in f32, and rounded where they are
// stored, read by index or carried; casts to f32 read what is not rounded. What a cast rounds stays
// rounded. One step alone, exact ones, and what a reduction carries stay in 16 bits.

// RUN: attn-opt %s --attn-wide-arithmetic --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-wide-arithmetic > %t.1 && attn-opt %s --attn-wide-arithmetic --attn-wide-arithmetic > %t.2 && diff %t.1 %t.2

// WHY-COUNT-3: what it makes of 16 bits is rounded once, not after each step
// WHY-NOT: is rounded once

#d = affine_map<(d0) -> (d0)>
#n = affine_map<(d0, d1) -> (d0, d1)>
#r = affine_map<(d0, d1) -> (d0)>
flow.executable private @dispatch {
  builtin.module {
    // CHECK-LABEL: func.func @silu(
    // CHECK: ^bb0(%[[X:.*]]: f16, %{{.*}}: f16):
    // CHECK: %[[WX:.*]] = arith.extf %[[X]] : f16 to f32
    // CHECK: %[[N:.*]] = arith.negf %[[WX]] : f32
    // CHECK: %[[E:.*]] = math.exp %[[N]] fastmath<nnan> : f32
    // CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
    // CHECK: %[[S:.*]] = arith.addf %[[E]], %[[ONE]] : f32
    // CHECK: %[[Q:.*]] = arith.divf %[[ONE]], %[[S]] : f32
    // CHECK: %[[R:.*]] = arith.mulf %[[Q]], %[[WX]] : f32
    // CHECK: %[[F:.*]] = arith.truncf %[[R]] : f32 to f16
    // CHECK: linalg.yield %[[F]]
    func.func @silu(%x: tensor<?xf16>, %e: tensor<?xf16>) -> tensor<?xf16> {
      %one = arith.constant 1.0 : f16
      %r = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]} ins(%x : tensor<?xf16>) outs(%e : tensor<?xf16>) {
      ^bb0(%a: f16, %b: f16):
        %0 = arith.negf %a : f16
        %1 = math.exp %0 fastmath<nnan> : f16
        %2 = arith.addf %1, %one : f16
        %3 = arith.divf %one, %2 : f16
        %4 = arith.mulf %3, %a : f16
        linalg.yield %4 : f16
      } -> tensor<?xf16>
      return %r : tensor<?xf16>
    }

    // CHECK-LABEL: func.func @sum(
    // CHECK: %[[M:.*]] = arith.mulf %{{.*}} : f32
    // CHECK: %[[A:.*]] = arith.addf %[[M]], %{{.*}} : f32
    // CHECK: %[[L:.*]] = arith.cmpf olt, %[[A]], %[[M]] : f32
    // CHECK: %[[S:.*]] = arith.select %[[L]], %{{.*}}, %[[A]] : f32
    // CHECK-NEXT: arith.addf %out, %[[S]] : f32
    func.func @sum(%x: tensor<?x?xbf16>, %e: tensor<?xf32>) -> tensor<?xf32> {
      %r = linalg.generic {indexing_maps = [#n, #r], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xbf16>) outs(%e : tensor<?xf32>) {
      ^bb0(%a: bf16, %b: f32):
        %0 = arith.mulf %a, %a : bf16
        %1 = arith.addf %0, %a : bf16
        %p = arith.cmpf olt, %1, %0 : bf16
        %s = arith.select %p, %a, %1 : bf16
        %2 = arith.extf %s : bf16 to f32
        %3 = arith.addf %b, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<?xf32>
      return %r : tensor<?xf32>
    }

    // Both results are rounded, once; the cast of one number of f32 to f16 stays.
    // CHECK-LABEL: func.func @two(
    // CHECK: %[[F:.*]] = arith.truncf %{{.*}} : f32 to f16
    // CHECK: arith.extf %[[F]] : f16 to f32
    // CHECK: %[[P:.*]] = arith.mulf %{{.*}} : f32
    // CHECK: %[[PF:.*]] = arith.truncf %[[P]] : f32 to f16
    // CHECK: %[[S:.*]] = arith.addf %[[P]], %{{.*}} : f32
    // CHECK: %[[SF:.*]] = arith.truncf %[[S]] : f32 to f16
    // CHECK: linalg.yield %[[PF]], %[[SF]]
    func.func @two(%x: tensor<?xf32>, %e: tensor<?xf16>) -> (tensor<?xf16>, tensor<?xf16>) {
      %r:2 = linalg.generic {indexing_maps = [#d, #d, #d], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e, %e : tensor<?xf16>, tensor<?xf16>) {
      ^bb0(%a: f32, %b: f16, %c: f16):
        %0 = arith.truncf %a : f32 to f16
        %1 = arith.mulf %0, %0 : f16
        %2 = arith.addf %1, %0 : f16
        linalg.yield %1, %2 : f16, f16
      } -> (tensor<?xf16>, tensor<?xf16>)
      return %r#0, %r#1 : tensor<?xf16>, tensor<?xf16>
    }

    // CHECK-LABEL: func.func @stays(
    // CHECK-NOT: f32
    func.func @stays(%x: tensor<?x?xf16>, %e: tensor<?x?xf16>, %f: tensor<?xf16>) -> (tensor<?x?xf16>, tensor<?x?xf16>, tensor<?xf16>) {
      %one = arith.constant 1.0 : f16
      %u = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf16>) outs(%e : tensor<?x?xf16>) {
      ^bb0(%a: f16, %b: f16):
        %0 = math.exp %a : f16
        linalg.yield %0 : f16
      } -> tensor<?x?xf16>
      %v = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf16>) outs(%e : tensor<?x?xf16>) {
      ^bb0(%a: f16, %b: f16):
        %0 = arith.maximumf %a, %one : f16
        %1 = arith.negf %0 : f16
        %2 = arith.addf %1, %one : f16
        linalg.yield %2 : f16
      } -> tensor<?x?xf16>
      %w = linalg.generic {indexing_maps = [#n, #r], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf16>) outs(%f : tensor<?xf16>) {
      ^bb0(%a: f16, %b: f16):
        %0 = arith.mulf %a, %a : f16
        %1 = arith.addf %0, %b : f16
        linalg.yield %1 : f16
      } -> tensor<?xf16>
      return %u, %v, %w : tensor<?x?xf16>, tensor<?x?xf16>, tensor<?xf16>
    }
  }
}

// Outside of kernels nobody knows yet what IREE will fuse.
// CHECK-LABEL: func.func @tensors(
// CHECK-NOT: f32
func.func @tensors(%x: tensor<?xf16>, %e: tensor<?xf16>) -> tensor<?xf16> {
  %r = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]} ins(%x : tensor<?xf16>) outs(%e : tensor<?xf16>) {
  ^bb0(%a: f16, %b: f16):
    %0 = arith.mulf %a, %a : f16
    %1 = arith.addf %0, %a : f16
    linalg.yield %1 : f16
  } -> tensor<?xf16>
  return %r : tensor<?xf16>
}
