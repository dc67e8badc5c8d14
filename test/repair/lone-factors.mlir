// In kernels for GPUs a factor without summed dims multiplies the sum; not where what is added to
// is no zero, where numbers are integers, or where both factors have a summed dim: where one of them
// has others, too, -0 is added to each product.

// RUN: attn-opt %s --attn-lone-factors | FileCheck %s
// RUN: attn-opt %s --attn-lone-factors > %t.1 && attn-opt %s --attn-lone-factors --attn-lone-factors > %t.2 && diff %t.1 %t.2

#x = affine_map<(b, d, n) -> (b, n, d)>
#g = affine_map<(b, d, n) -> (d)>
#out = affine_map<(b, d, n) -> (d, b)>
#own = affine_map<(m, c, k) -> (c)>
#left = affine_map<(m, c, k) -> (m, k)>
#outer = affine_map<(m, c, k) -> (c, m)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  flow.executable private @dispatch {
    builtin.module {
      // CHECK-LABEL: func.func @norm(
      // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
      // CHECK: %[[INIT:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<48x2xf32>)
      // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<2x64x48xf16>) outs(%[[INIT]] : tensor<48x2xf32>)
      // CHECK: arith.extf
      // CHECK-NEXT: arith.addf
      // CHECK: linalg.generic {{.*}} ins(%[[SUM]], %arg0 : tensor<48x2xf32>, tensor<48xf16>) outs(%{{.*}} : tensor<48x2xf16>)
      // CHECK: arith.mulf
      // CHECK-NEXT: arith.truncf
      func.func @norm(%g: tensor<48xf16>, %x: tensor<2x64x48xf16>) -> tensor<48x2xf16> {
        %zero = arith.constant 0.0 : f16
        %e = tensor.empty() : tensor<48x2xf16>
        %f = linalg.fill ins(%zero : f16) outs(%e : tensor<48x2xf16>) -> tensor<48x2xf16>
        %r = linalg.generic {indexing_maps = [#g, #x, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g, %x : tensor<48xf16>, tensor<2x64x48xf16>) outs(%f : tensor<48x2xf16>) {
        ^bb0(%a: f16, %b: f16, %c: f16):
          %p = arith.mulf %a, %b : f16
          %s = arith.addf %p, %c : f16
          linalg.yield %s : f16
        } -> tensor<48x2xf16>
        return %r : tensor<48x2xf16>
      }
      // A product with a matrix of one number: no column is other than the others.
      // CHECK-LABEL: func.func @one_number(
      // CHECK: %[[INIT:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<4xf32>)
      // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xbf16>) outs(%[[INIT]] : tensor<4xf32>)
      // CHECK: arith.extf
      // CHECK-NEXT: arith.addf
      // CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<4xf32>) outs(%{{.*}} : tensor<4x6xf32>)
      // CHECK: arith.mulf
      func.func @one_number(%x: tensor<4x8xbf16>) -> tensor<4x6xf32> {
        %zero = arith.constant 0.0 : f32
        %number = arith.constant 0.5 : f32
        %e = tensor.empty() : tensor<4x6xf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
        %r = linalg.generic {indexing_maps = [#left, affine_map<(m, c, k) -> (m, c)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<4x8xbf16>) outs(%f : tensor<4x6xf32>) {
        ^bb0(%a: bf16, %c: f32):
          %w = arith.extf %a : bf16 to f32
          %p = arith.mulf %w, %number : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<4x6xf32>
        return %r : tensor<4x6xf32>
      }
      // A factor that is a tensor of one number.
      // CHECK-LABEL: func.func @no_dims(
      // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<3x40xf32>)
      // CHECK: linalg.generic {{.*}} ins(%[[SUM]], %arg0 : tensor<3xf32>, tensor<f32>) outs(%{{.*}} : tensor<3xf32>)
      // CHECK: arith.mulf
      func.func @no_dims(%y: tensor<f32>, %x: tensor<3x40xf32>) -> tensor<3xf32> {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<3xf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
        %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> ()>, affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%y, %x : tensor<f32>, tensor<3x40xf32>) outs(%f : tensor<3xf32>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %c, %p : f32
          linalg.yield %s : f32
        } -> tensor<3xf32>
        return %r : tensor<3xf32>
      }
      // A sum from another number on.
      // CHECK-LABEL: func.func @from_one(
      // CHECK: linalg.generic
      // CHECK: arith.mulf
      // CHECK-NEXT: arith.addf
      // CHECK-NOT: linalg.generic
      func.func @from_one(%x: tensor<4x8xf32>) -> tensor<4xf32> {
        %one = arith.constant 1.0 : f32
        %number = arith.constant 0.5 : f32
        %e = tensor.empty() : tensor<4xf32>
        %f = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
        %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
        ^bb0(%a: f32, %c: f32):
          %p = arith.mulf %a, %number : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
      // CHECK-LABEL: func.func @own_dims(
      // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x?xf32>) outs(%{{.*}} : tensor<4xf32>)
      // CHECK: linalg.generic {{.*}} ins(%[[SUM]], %arg1 : tensor<4xf32>, tensor<5xf32>) outs(%{{.*}} : tensor<5x4xf32>)
      func.func @own_dims(%x: tensor<4x?xf32>, %g: tensor<5xf32>) -> tensor<5x4xf32> {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<5x4xf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x4xf32>) -> tensor<5x4xf32>
        %r = linalg.generic {indexing_maps = [#left, #own, #outer], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<4x?xf32>, tensor<5xf32>) outs(%f : tensor<5x4xf32>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<5x4xf32>
        return %r : tensor<5x4xf32>
      }
      // Both have a summed dim, and one has another.
      // CHECK-LABEL: func.func @one_alone(
      // CHECK-DAG: %[[A:.*]] = arith.extf %in :
      // CHECK-DAG: %[[NOTHING:.*]] = arith.constant -0.000000e+00 : f32
      // CHECK: %[[P:.*]] = math.fma %[[A]], %{{.*}}, %[[NOTHING]] : f32
      // CHECK-NEXT: arith.addf %[[P]], %out : f32
      func.func @one_alone(%x: tensor<4x8x3xf16>, %y: tensor<8x5xf16>, %o: tensor<4x5xf32>) -> tensor<4x5xf32> {
        %r = linalg.generic {indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, n)>, affine_map<(m, n, k, l) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %y : tensor<4x8x3xf16>, tensor<8x5xf16>) outs(%o : tensor<4x5xf32>) {
        ^bb0(%in: f16, %b: f16, %out: f32):
          %a = arith.extf %in : f16 to f32
          %c = arith.extf %b : f16 to f32
          %p = arith.mulf %a, %c : f32
          %s = arith.addf %p, %out : f32
          linalg.yield %s : f32
        } -> tensor<4x5xf32>
        return %r : tensor<4x5xf32>
      }
      // CHECK-LABEL: func.func @added_to(
      // CHECK: ins(%arg0, %arg1 : tensor<4x8xf32>, tensor<5xf32>) outs(%arg2 :
      func.func @added_to(%x: tensor<4x8xf32>, %g: tensor<5xf32>, %o: tensor<5x4xf32>) -> tensor<5x4xf32> {
        %r = linalg.generic {indexing_maps = [#left, #own, #outer], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<4x8xf32>, tensor<5xf32>) outs(%o : tensor<5x4xf32>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<5x4xf32>
        return %r : tensor<5x4xf32>
      }
      // CHECK-LABEL: func.func @integers(
      // CHECK: ins(%arg0, %arg1 : tensor<4x8xi32>, tensor<5xi32>)
      func.func @integers(%x: tensor<4x8xi32>, %g: tensor<5xi32>) -> tensor<5x4xi32> {
        %zero = arith.constant 0 : i32
        %e = tensor.empty() : tensor<5x4xi32>
        %f = linalg.fill ins(%zero : i32) outs(%e : tensor<5x4xi32>) -> tensor<5x4xi32>
        %r = linalg.generic {indexing_maps = [#left, #own, #outer], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<4x8xi32>, tensor<5xi32>) outs(%f : tensor<5x4xi32>) {
        ^bb0(%a: i32, %b: i32, %c: i32):
          %p = arith.muli %a, %b : i32
          %s = arith.addi %p, %c : i32
          linalg.yield %s : i32
        } -> tensor<5x4xi32>
        return %r : tensor<5x4xi32>
      }
      // CHECK-LABEL: func.func @shared(
      // CHECK: ins(%arg0, %arg1 : tensor<4x8xf32>, tensor<8x5xf32>)
      func.func @shared(%x: tensor<4x8xf32>, %g: tensor<8x5xf32>) -> tensor<4x5xf32> {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<4x5xf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5xf32>) -> tensor<4x5xf32>
        %r = linalg.matmul ins(%x, %g : tensor<4x8xf32>, tensor<8x5xf32>) outs(%f : tensor<4x5xf32>) -> tensor<4x5xf32>
        return %r : tensor<4x5xf32>
      }
    }
  }
}
