// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Rows that lie group by group, each group with weights of its own, as experts have: of each row one
// product is kept, and one kernel computes no others.

// CHECK-LABEL: @experts
// CHECK-NOT: linalg.
// CHECK: hal.dispatch.extern "product_f16_grouped_tile256"[{{.*}}](%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %arg0, %arg1, %arg2)
// REMARK: product_f16_grouped_tile256: about {{[0-9]+}} us instead of {{[0-9]+}}, each row with the weights of its own of 8 groups
func.func @experts(%a: tensor<4096x512xf16>, %w: tensor<8x1024x512xf16>, %ends: tensor<8xi32>) -> tensor<4096x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0.0 : f16
  %none = arith.constant 0 : i32
  %e0 = tensor.empty() : tensor<4096xi32>
  %f0 = linalg.fill ins(%none : i32) outs(%e0 : tensor<4096xi32>) -> tensor<4096xi32>
  %group = linalg.generic {indexing_maps = [affine_map<(m, g) -> (g)>, affine_map<(m, g) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%ends : tensor<8xi32>) outs(%f0 : tensor<4096xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = linalg.index 0 : index
    %p = arith.index_cast %r : index to i32
    %b = arith.cmpi sle, %i, %p : i32
    %x = arith.extui %b : i1 to i32
    %s = arith.addi %x, %o : i32
    linalg.yield %s : i32
  } -> tensor<4096xi32>
  %ea = tensor.empty() : tensor<8x4096x512xf16>
  %all = linalg.generic {indexing_maps = [affine_map<(g, m, k) -> (m, k)>, affine_map<(g, m, k) -> (g, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<4096x512xf16>) outs(%ea : tensor<8x4096x512xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<8x4096x512xf16>
  %et = tensor.empty() : tensor<8x512x1024xf16>
  %wt = linalg.transpose ins(%w : tensor<8x1024x512xf16>) outs(%et : tensor<8x512x1024xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<8x4096x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4096x1024xf32>) -> tensor<8x4096x1024xf32>
  %made = linalg.batch_matmul ins(%all, %wt : tensor<8x4096x512xf16>, tensor<8x512x1024xf16>) outs(%f : tensor<8x4096x1024xf32>) -> tensor<8x4096x1024xf32>
  %h = tensor.empty() : tensor<8x4096x1024xf16>
  %own = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (m)>, affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%group, %made : tensor<4096xi32>, tensor<8x4096x1024xf32>) outs(%h : tensor<8x4096x1024xf16>) {
  ^bb0(%i: i32, %j: f32, %o: f16):
    %g = linalg.index 0 : index
    %c = arith.index_cast %g : index to i32
    %b = arith.cmpi eq, %c, %i : i32
    %t = arith.truncf %j : f32 to f16
    %s = arith.select %b, %t, %low : f16
    linalg.yield %s : f16
  } -> tensor<8x4096x1024xf16>
  %er = tensor.empty() : tensor<4096x1024xf16>
  %fr = linalg.fill ins(%low : f16) outs(%er : tensor<4096x1024xf16>) -> tensor<4096x1024xf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%own : tensor<8x4096x1024xf16>) outs(%fr : tensor<4096x1024xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<4096x1024xf16>
  return %sum : tensor<4096x1024xf16>
}

// -----

// CHECK-LABEL: @many
// CHECK: hal.dispatch.extern "product_f16_batched_
// REMARK: stays IREE's own code: its rows lie in 300 groups, and kernels take 256
func.func @many(%a: tensor<4096x512xf16>, %w: tensor<300x1024x512xf16>, %ends: tensor<300xi32>) -> tensor<4096x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0.0 : f16
  %none = arith.constant 0 : i32
  %e0 = tensor.empty() : tensor<4096xi32>
  %f0 = linalg.fill ins(%none : i32) outs(%e0 : tensor<4096xi32>) -> tensor<4096xi32>
  %group = linalg.generic {indexing_maps = [affine_map<(m, g) -> (g)>, affine_map<(m, g) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%ends : tensor<300xi32>) outs(%f0 : tensor<4096xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = linalg.index 0 : index
    %p = arith.index_cast %r : index to i32
    %b = arith.cmpi sle, %i, %p : i32
    %x = arith.extui %b : i1 to i32
    %s = arith.addi %x, %o : i32
    linalg.yield %s : i32
  } -> tensor<4096xi32>
  %ea = tensor.empty() : tensor<300x4096x512xf16>
  %all = linalg.generic {indexing_maps = [affine_map<(g, m, k) -> (m, k)>, affine_map<(g, m, k) -> (g, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<4096x512xf16>) outs(%ea : tensor<300x4096x512xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<300x4096x512xf16>
  %et = tensor.empty() : tensor<300x512x1024xf16>
  %wt = linalg.transpose ins(%w : tensor<300x1024x512xf16>) outs(%et : tensor<300x512x1024xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<300x4096x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<300x4096x1024xf32>) -> tensor<300x4096x1024xf32>
  %made = linalg.batch_matmul ins(%all, %wt : tensor<300x4096x512xf16>, tensor<300x512x1024xf16>) outs(%f : tensor<300x4096x1024xf32>) -> tensor<300x4096x1024xf32>
  %h = tensor.empty() : tensor<300x4096x1024xf16>
  %own = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (m)>, affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%group, %made : tensor<4096xi32>, tensor<300x4096x1024xf32>) outs(%h : tensor<300x4096x1024xf16>) {
  ^bb0(%i: i32, %j: f32, %o: f16):
    %g = linalg.index 0 : index
    %c = arith.index_cast %g : index to i32
    %b = arith.cmpi eq, %c, %i : i32
    %t = arith.truncf %j : f32 to f16
    %s = arith.select %b, %t, %low : f16
    linalg.yield %s : f16
  } -> tensor<300x4096x1024xf16>
  %er = tensor.empty() : tensor<4096x1024xf16>
  %fr = linalg.fill ins(%low : f16) outs(%er : tensor<4096x1024xf16>) -> tensor<4096x1024xf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%own : tensor<300x4096x1024xf16>) outs(%fr : tensor<4096x1024xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<4096x1024xf16>
  return %sum : tensor<4096x1024xf16>
}

// -----

// A row that an end stands at is of the group before: none that a kernel knows.
// CHECK-LABEL: @last
// CHECK: hal.dispatch.extern "product_f16_batched_
// CHECK: iterator_types = ["reduction", "parallel", "parallel"]
func.func @last(%a: tensor<4096x512xf16>, %w: tensor<8x1024x512xf16>, %ends: tensor<8xi32>) -> tensor<4096x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0.0 : f16
  %none = arith.constant 0 : i32
  %e0 = tensor.empty() : tensor<4096xi32>
  %f0 = linalg.fill ins(%none : i32) outs(%e0 : tensor<4096xi32>) -> tensor<4096xi32>
  %group = linalg.generic {indexing_maps = [affine_map<(m, g) -> (g)>, affine_map<(m, g) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%ends : tensor<8xi32>) outs(%f0 : tensor<4096xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = linalg.index 0 : index
    %p = arith.index_cast %r : index to i32
    %b = arith.cmpi slt, %i, %p : i32
    %x = arith.extui %b : i1 to i32
    %s = arith.addi %x, %o : i32
    linalg.yield %s : i32
  } -> tensor<4096xi32>
  %ea = tensor.empty() : tensor<8x4096x512xf16>
  %all = linalg.generic {indexing_maps = [affine_map<(g, m, k) -> (m, k)>, affine_map<(g, m, k) -> (g, m, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<4096x512xf16>) outs(%ea : tensor<8x4096x512xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<8x4096x512xf16>
  %et = tensor.empty() : tensor<8x512x1024xf16>
  %wt = linalg.transpose ins(%w : tensor<8x1024x512xf16>) outs(%et : tensor<8x512x1024xf16>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<8x4096x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4096x1024xf32>) -> tensor<8x4096x1024xf32>
  %made = linalg.batch_matmul ins(%all, %wt : tensor<8x4096x512xf16>, tensor<8x512x1024xf16>) outs(%f : tensor<8x4096x1024xf32>) -> tensor<8x4096x1024xf32>
  %h = tensor.empty() : tensor<8x4096x1024xf16>
  %own = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (m)>, affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%group, %made : tensor<4096xi32>, tensor<8x4096x1024xf32>) outs(%h : tensor<8x4096x1024xf16>) {
  ^bb0(%i: i32, %j: f32, %o: f16):
    %g = linalg.index 0 : index
    %c = arith.index_cast %g : index to i32
    %b = arith.cmpi eq, %c, %i : i32
    %t = arith.truncf %j : f32 to f16
    %s = arith.select %b, %t, %low : f16
    linalg.yield %s : f16
  } -> tensor<8x4096x1024xf16>
  %er = tensor.empty() : tensor<4096x1024xf16>
  %fr = linalg.fill ins(%low : f16) outs(%er : tensor<4096x1024xf16>) -> tensor<4096x1024xf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(g, m, n) -> (g, m, n)>, affine_map<(g, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%own : tensor<8x4096x1024xf16>) outs(%fr : tensor<4096x1024xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<4096x1024xf16>
  return %sum : tensor<4096x1024xf16>
}
