// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=always" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Products of the same rows are computed by one launch: Q, K and V, of which the second has a bias.
// The constants are rows, columns, depth, the other columns, and bits that say who has a bias; in the
// place of a bias that there is not stand the rows.
// CHECK-LABEL: func.func @three(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<300x64xf16>, %[[A:[a-z0-9]+]]: tensor<520x64xf16>, %[[B:[a-z0-9]+]]: tensor<72x64xf16>, %[[C:[a-z0-9]+]]: tensor<72x64xf16>, %[[BIAS:[a-z0-9]+]]:
// CHECK: arith.index_cast %c300{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c520{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c64{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c72{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c72{{[_0-9]*}} : index to i32
// CHECK: arith.index_cast %c2{{[_0-9]*}} : index to i32
// CHECK: hal.dispatch.extern "product_f16_joined3_{{[a-z0-9]+}}_bias"[{{.*}}%[[X]], %[[A]], %[[B]], %[[C]], %[[X]], %[[BIAS]], %[[X]])
// CHECK-NOT: hal.dispatch.extern
// CHECK-NOT: linalg.matmul
// REMARK-COUNT-3: product_f16_joined3_{{[a-z0-9]+}}_bias: about {{[0-9]+}} us instead of {{[0-9]+}} ({{[0-9]+}} by a launch for each), with 2 more of the products of its rows
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
func.func @three(%x: tensor<300x64xf16>, %a: tensor<520x64xf16>, %b: tensor<72x64xf16>, %c: tensor<72x64xf16>, %bias: tensor<72xf16>) -> (tensor<300x520xf16>, tensor<300x72xf16>, tensor<300x72xf16>) {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<300x520xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<300x520xf16>) -> tensor<300x520xf16>
  %q = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %a : tensor<300x64xf16>, tensor<520x64xf16>) outs(%f : tensor<300x520xf16>) -> tensor<300x520xf16>
  %e2 = tensor.empty() : tensor<300x72xf16>
  %f2 = linalg.fill ins(%z : f16) outs(%e2 : tensor<300x72xf16>) -> tensor<300x72xf16>
  %k = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %b : tensor<300x64xf16>, tensor<72x64xf16>) outs(%f2 : tensor<300x72xf16>) -> tensor<300x72xf16>
  %kb = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%k, %bias : tensor<300x72xf16>, tensor<72xf16>) outs(%e2 : tensor<300x72xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %s = arith.addf %i, %j : f16
    linalg.yield %s : f16
  } -> tensor<300x72xf16>
  %v = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %c : tensor<300x64xf16>, tensor<72x64xf16>) outs(%f2 : tensor<300x72xf16>) -> tensor<300x72xf16>
  return %q, %kb, %v : tensor<300x520xf16>, tensor<300x72xf16>, tensor<300x72xf16>
}

// -----

// Of an unknown number of few or many rows; of four products three are joined.
// CHECK-LABEL: func.func @unknown(
// CHECK: hal.dispatch.extern "product_bf16_{{[a-z0-9]+}}_kn"
// CHECK: hal.dispatch.extern "product_bf16_joined3_{{[a-z0-9]+}}_kn_bias"
// CHECK-NOT: hal.dispatch.extern
// CHECK-NOT: linalg.matmul
func.func @unknown(%x: tensor<?x64xbf16>, %a: tensor<64x72xbf16>, %b: tensor<64x72xbf16>, %c: tensor<64x72xbf16>, %d: tensor<64x72xbf16>) -> (tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<?x72xbf16>) {
  %z = arith.constant 0.0 : bf16
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %e = tensor.empty(%m) : tensor<?x72xbf16>
  %f = linalg.fill ins(%z : bf16) outs(%e : tensor<?x72xbf16>) -> tensor<?x72xbf16>
  %q = linalg.matmul ins(%x, %a : tensor<?x64xbf16>, tensor<64x72xbf16>) outs(%f : tensor<?x72xbf16>) -> tensor<?x72xbf16>
  %k = linalg.matmul ins(%x, %b : tensor<?x64xbf16>, tensor<64x72xbf16>) outs(%f : tensor<?x72xbf16>) -> tensor<?x72xbf16>
  %v = linalg.matmul ins(%x, %c : tensor<?x64xbf16>, tensor<64x72xbf16>) outs(%f : tensor<?x72xbf16>) -> tensor<?x72xbf16>
  %g = linalg.matmul ins(%x, %d : tensor<?x64xbf16>, tensor<64x72xbf16>) outs(%f : tensor<?x72xbf16>) -> tensor<?x72xbf16>
  return %q, %k, %v, %g : tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<?x72xbf16>, tensor<?x72xbf16>
}

// -----

// Few rows read their weights at memory's speed: the depth may be divided.
// CHECK-LABEL: func.func @few(
// CHECK: hal.dispatch.extern "product_f16_joined2_few16_4x2_kn_clamp_general"
// CHECK-NOT: hal.dispatch.extern
func.func @few(%x: tensor<5x64xf16>, %a: tensor<64x72xf16>, %b: tensor<64x520xf16>) -> (tensor<5x72xf16>, tensor<5x520xf16>) {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<5x72xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<5x72xf16>) -> tensor<5x72xf16>
  %q = linalg.matmul ins(%x, %a : tensor<5x64xf16>, tensor<64x72xf16>) outs(%f : tensor<5x72xf16>) -> tensor<5x72xf16>
  %e2 = tensor.empty() : tensor<5x520xf16>
  %f2 = linalg.fill ins(%z : f16) outs(%e2 : tensor<5x520xf16>) -> tensor<5x520xf16>
  %k = linalg.matmul ins(%x, %b : tensor<5x64xf16>, tensor<64x520xf16>) outs(%f2 : tensor<5x520xf16>) -> tensor<5x520xf16>
  return %q, %k : tensor<5x72xf16>, tensor<5x520xf16>
}

// -----

// The second product's bias is made of the first one's result: each has its own launch.
// CHECK-LABEL: func.func @behind(
// CHECK-COUNT-2: hal.dispatch.extern "product_f16_tile
// CHECK-NOT: joined
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
func.func @behind(%x: tensor<300x64xf16>, %a: tensor<64x72xf16>, %b: tensor<64x72xf16>) -> tensor<300x72xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<300x72xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<300x72xf16>) -> tensor<300x72xf16>
  %q = linalg.matmul ins(%x, %a : tensor<300x64xf16>, tensor<64x72xf16>) outs(%f : tensor<300x72xf16>) -> tensor<300x72xf16>
  %row = tensor.extract_slice %q[0, 0] [1, 72] [1, 1] : tensor<300x72xf16> to tensor<72xf16>
  %k = linalg.matmul ins(%x, %b : tensor<300x64xf16>, tensor<64x72xf16>) outs(%f : tensor<300x72xf16>) -> tensor<300x72xf16>
  %kb = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%k, %row : tensor<300x72xf16>, tensor<72xf16>) outs(%e : tensor<300x72xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %s = arith.addf %i, %j : f16
    linalg.yield %s : f16
  } -> tensor<300x72xf16>
  return %kb : tensor<300x72xf16>
}

// -----

// Weights that lie in different orders have different kernels.
// CHECK-LABEL: func.func @orders(
// CHECK-NOT: joined
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @orders(%x: tensor<300x64xf16>, %a: tensor<64x72xf16>, %b: tensor<72x64xf16>) -> (tensor<300x72xf16>, tensor<300x72xf16>) {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<300x72xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<300x72xf16>) -> tensor<300x72xf16>
  %q = linalg.matmul ins(%x, %a : tensor<300x64xf16>, tensor<64x72xf16>) outs(%f : tensor<300x72xf16>) -> tensor<300x72xf16>
  %k = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %b : tensor<300x64xf16>, tensor<72x64xf16>) outs(%f : tensor<300x72xf16>) -> tensor<300x72xf16>
  return %q, %k : tensor<300x72xf16>, tensor<300x72xf16>
}
