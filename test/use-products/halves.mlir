// A gate whose halves are one product's columns, as diffusers' GEGLU is: the kernel that does all of
// it is compared with one that adds the bias alone, of the same code of IREE's.
//
// RUN: attn-opt %s --attn-use-products="target=sm_90 mode=cost" --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

#id = affine_map<(m, n) -> (m, n)>
#columns = affine_map<(m, n) -> (n)>
// CHECK-LABEL: func.func @geglu(
// CHECK: hal.dispatch.extern "product_f16_tile256_gelu_gated_general"
// CHECK-NOT: linalg
// REMARK: product_f16_tile256_gelu_gated_general: {{.*}}, with a bias and GELU of one half of the columns times the other
func.func @geglu(%a: tensor<2048x1280xf16>, %w: tensor<10240x1280xf16>, %b: tensor<10240xf16>) -> tensor<2048x5120xf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f16
  %half = arith.constant 0.5 : f16
  %root = arith.constant 0.70710678 : f16
  %wide = tensor.empty() : tensor<2048x10240xf32>
  %all = tensor.empty() : tensor<2048x10240xf16>
  %space = tensor.empty() : tensor<2048x5120xf16>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<2048x10240xf32>) -> tensor<2048x10240xf32>
  %sums = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %w : tensor<2048x1280xf16>, tensor<10240x1280xf16>) outs(%zeros : tensor<2048x10240xf32>) -> tensor<2048x10240xf32>
  %both = linalg.generic {indexing_maps = [#id, #columns, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sums, %b : tensor<2048x10240xf32>, tensor<10240xf16>) outs(%all : tensor<2048x10240xf16>) {
  ^bb0(%s: f32, %c: f16, %out: f16):
    %t = arith.truncf %s : f32 to f16
    %u = arith.addf %t, %c : f16
    linalg.yield %u : f16
  } -> tensor<2048x10240xf16>
  %x = tensor.extract_slice %both[0, 0] [2048, 5120] [1, 1] : tensor<2048x10240xf16> to tensor<2048x5120xf16>
  %gate = tensor.extract_slice %both[0, 5120] [2048, 5120] [1, 1] : tensor<2048x10240xf16> to tensor<2048x5120xf16>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %gate : tensor<2048x5120xf16>, tensor<2048x5120xf16>) outs(%space : tensor<2048x5120xf16>) {
  ^bb0(%p: f16, %g: f16, %out: f16):
    %s = arith.mulf %g, %root : f16
    %e = math.erf %s : f16
    %y = arith.addf %e, %one : f16
    %h = arith.mulf %g, %half : f16
    %act = arith.mulf %h, %y : f16
    %t = arith.mulf %p, %act : f16
    linalg.yield %t : f16
  } -> tensor<2048x5120xf16>
  return %r : tensor<2048x5120xf16>
}
