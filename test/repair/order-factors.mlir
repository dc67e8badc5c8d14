// In CUDA kernels the factor whose dim comes first in the result is the first one; f32, products
// in order and other targets stay.

// RUN: attn-opt %s --attn-order-factors --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-order-factors --split-input-file > %t.1 && attn-opt %s --attn-order-factors --attn-order-factors --split-input-file > %t.2 && diff %t.1 %t.2

#left = affine_map<(n, b, m, k) -> (b, m, k)>
#right = affine_map<(n, b, m, k) -> (b, k, n)>
#out = affine_map<(n, b, m, k) -> (n, b, m)>
#plain = affine_map<(n, b, m, k) -> (b, m, n)>
module attributes {hal.device.targets = [#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device]} {
  flow.executable private @dispatch {
    builtin.module {
      // CHECK-LABEL: func.func @transposed(
      // CHECK: linalg.generic {indexing_maps = [#[[R:map[0-9]*]], #[[L:map[0-9]*]], #{{.*}}]
      // CHECK-SAME: ins(%arg1, %arg0 : tensor<2x16x24xbf16>, tensor<2x4x16xf16>)
      // CHECK-NEXT: ^bb0(%[[V:.*]]: bf16, %[[Q:.*]]: f16, %[[SUM:.*]]: f32):
      // CHECK-NEXT: %[[X:.*]] = arith.extf %[[Q]] : f16 to f32
      // CHECK-NEXT: %[[Y:.*]] = arith.extf %[[V]] : bf16 to f32
      // CHECK-NEXT: arith.mulf %[[X]], %[[Y]]
      func.func @transposed(%q: tensor<2x4x16xf16>, %v: tensor<2x16x24xbf16>, %o: tensor<24x2x4xf32>) -> tensor<24x2x4xf32> {
        %r = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %v : tensor<2x4x16xf16>, tensor<2x16x24xbf16>) outs(%o : tensor<24x2x4xf32>) {
        ^bb0(%a: f16, %b: bf16, %c: f32):
          %x = arith.extf %a : f16 to f32
          %y = arith.extf %b : bf16 to f32
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<24x2x4xf32>
        return %r : tensor<24x2x4xf32>
      }
      // CHECK-LABEL: func.func @named(
      // CHECK: linalg.generic {indexing_maps = [#[[R]], #[[L]], #{{.*}}]
      // CHECK-SAME: ins(%arg1, %arg0 : tensor<2x16x24xf16>, tensor<2x4x16xf16>)
      func.func @named(%q: tensor<2x4x16xf16>, %v: tensor<2x16x24xf16>, %o: tensor<24x2x4xf16>) -> tensor<24x2x4xf16> {
        %r = linalg.contract indexing_maps = [#left, #right, #out] ins(%q, %v : tensor<2x4x16xf16>, tensor<2x16x24xf16>) outs(%o : tensor<24x2x4xf16>) -> tensor<24x2x4xf16>
        return %r : tensor<24x2x4xf16>
      }
      // CHECK-LABEL: func.func @named_in_order(
      // CHECK: linalg.batch_matmul ins(%arg0, %arg1 :
      func.func @named_in_order(%q: tensor<2x4x16xf16>, %v: tensor<2x16x24xf16>, %o: tensor<2x4x24xf16>) -> tensor<2x4x24xf16> {
        %r = linalg.batch_matmul ins(%q, %v : tensor<2x4x16xf16>, tensor<2x16x24xf16>) outs(%o : tensor<2x4x24xf16>) -> tensor<2x4x24xf16>
        return %r : tensor<2x4x24xf16>
      }
      // CHECK-LABEL: func.func @wide(
      // CHECK: ins(%arg0, %arg1 : tensor<2x4x16xf32>, tensor<2x16x24xf32>)
      func.func @wide(%q: tensor<2x4x16xf32>, %v: tensor<2x16x24xf32>, %o: tensor<24x2x4xf32>) -> tensor<24x2x4xf32> {
        %r = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %v : tensor<2x4x16xf32>, tensor<2x16x24xf32>) outs(%o : tensor<24x2x4xf32>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %p = arith.mulf %a, %b : f32
          %s = arith.addf %p, %c : f32
          linalg.yield %s : f32
        } -> tensor<24x2x4xf32>
        return %r : tensor<24x2x4xf32>
      }
      // CHECK-LABEL: func.func @in_order(
      // CHECK: ins(%arg0, %arg1 : tensor<2x4x16xf16>, tensor<2x16x24xf16>)
      func.func @in_order(%q: tensor<2x4x16xf16>, %v: tensor<2x16x24xf16>, %o: tensor<2x4x24xf16>) -> tensor<2x4x24xf16> {
        %r = linalg.generic {indexing_maps = [#left, #right, #plain], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %v : tensor<2x4x16xf16>, tensor<2x16x24xf16>) outs(%o : tensor<2x4x24xf16>) {
        ^bb0(%a: f16, %b: f16, %c: f16):
          %p = arith.mulf %a, %b : f16
          %s = arith.addf %p, %c : f16
          linalg.yield %s : f16
        } -> tensor<2x4x24xf16>
        return %r : tensor<2x4x24xf16>
      }
    }
  }
}
