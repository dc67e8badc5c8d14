// Products of 8-bit integers are those of f16 whose sums f32 holds, added up in 32 bits. What has few rows,
// unsigned numbers or depths without such parts is left, and so are CPUs.

// RUN: attn-opt %s --attn-integer-products --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY: is 4 products of f16, added up in 32 bits
// WHY: is a product of f16
// WHY: so few rows (16) take as long as its operands do in memory
// WHY: its depth (2049) has no parts of up to 1024, multiples of 8
// WHY-NOT: {{of f16|so few|its depth}}

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {
// CHECK-LABEL: func.func @deep(
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<32x4096xi8>)
// CHECK: arith.sitofp
// CHECK: %[[ROWS:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [32, 4, 1024]
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<64x4096xi8>)
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[COLUMNS:.*]] = tensor.expand_shape %[[T]] {{\[\[}}0, 1], [2]] output_shape [4, 1024, 64]
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[ROWS]], %[[COLUMNS]] : tensor<32x4x1024xf16>, tensor<4x1024x64xf16>) outs(%{{.*}} : tensor<4x32x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : tensor<4x32x64xf32>) outs(%arg2 : tensor<32x64xi32>)
// CHECK: arith.fptosi
// CHECK: arith.addi
func.func @deep(%x: tensor<32x4096xi8>, %w: tensor<64x4096xi8>, %s: tensor<32x64xi32>) -> tensor<32x64xi32> {
  %e = tensor.empty() : tensor<4096x64xi8>
  %t = linalg.transpose ins(%w : tensor<64x4096xi8>) outs(%e : tensor<4096x64xi8>) permutation = [1, 0]
  %p = linalg.matmul ins(%x, %t : tensor<32x4096xi8>, tensor<4096x64xi8>) outs(%s : tensor<32x64xi32>) -> tensor<32x64xi32>
  return %p : tensor<32x64xi32>
}

// Rows of an unknown number.
// CHECK-LABEL: func.func @shallow(
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?x1024xf16>, tensor<1024x64xf16>) outs(%{{.*}} : tensor<?x64xf32>)
func.func @shallow(%x: tensor<?x1024xi8>, %w: tensor<1024x64xi8>, %s: tensor<?x64xi32>) -> tensor<?x64xi32> {
  %p = linalg.matmul ins(%x, %w : tensor<?x1024xi8>, tensor<1024x64xi8>) outs(%s : tensor<?x64xi32>) -> tensor<?x64xi32>
  return %p : tensor<?x64xi32>
}

// CHECK-LABEL: func.func @few(
// CHECK: linalg.matmul ins(%arg0, %arg1 : tensor<16x64xi8>, tensor<64x64xi8>)
func.func @few(%x: tensor<16x64xi8>, %w: tensor<64x64xi8>, %s: tensor<16x64xi32>) -> tensor<16x64xi32> {
  %p = linalg.matmul ins(%x, %w : tensor<16x64xi8>, tensor<64x64xi8>) outs(%s : tensor<16x64xi32>) -> tensor<16x64xi32>
  return %p : tensor<16x64xi32>
}

// CHECK-LABEL: func.func @odd(
// CHECK: linalg.matmul ins(%arg0, %arg1 : tensor<32x2049xi8>, tensor<2049x64xi8>)
func.func @odd(%x: tensor<32x2049xi8>, %w: tensor<2049x64xi8>, %s: tensor<32x64xi32>) -> tensor<32x64xi32> {
  %p = linalg.matmul ins(%x, %w : tensor<32x2049xi8>, tensor<2049x64xi8>) outs(%s : tensor<32x64xi32>) -> tensor<32x64xi32>
  return %p : tensor<32x64xi32>
}

// CHECK-LABEL: func.func @unsigned(
// CHECK: arith.extui
// CHECK-NOT: sitofp
func.func @unsigned(%x: tensor<32x64xi8>, %w: tensor<64x64xi8>, %s: tensor<32x64xi32>) -> tensor<32x64xi32> {
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x64xi8>, tensor<64x64xi8>) outs(%s : tensor<32x64xi32>) {
  ^bb0(%a: i8, %b: i8, %c: i32):
    %i = arith.extui %a : i8 to i32
    %j = arith.extsi %b : i8 to i32
    %m = arith.muli %i, %j : i32
    %r = arith.addi %c, %m : i32
    linalg.yield %r : i32
  } -> tensor<32x64xi32>
  return %p : tensor<32x64xi32>
}
}

// -----

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
// CHECK-LABEL: func.func @cpu(
// CHECK: linalg.matmul ins(%arg0, %arg1 : tensor<32x64xi8>, tensor<64x64xi8>)
func.func @cpu(%x: tensor<32x64xi8>, %w: tensor<64x64xi8>, %s: tensor<32x64xi32>) -> tensor<32x64xi32> {
  %p = linalg.matmul ins(%x, %w : tensor<32x64xi8>, tensor<64x64xi8>) outs(%s : tensor<32x64xi32>) -> tensor<32x64xi32>
  return %p : tensor<32x64xi32>
}
}
