// Weights that are made 0 where a condition hides keys in the scores, as NeMo has them: hidden keys
// have no weight, in rows that see none, too. Relative positions are a product's numbers, moved to
// their rows by a pad and reshapes, and hide no key: the mask has their 16 bits. Another condition
// leaves weights that do not add up to 1.

// RUN: attn-opt %s --attn-raise --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-DAG: are an attention op now
// WHY-DAG: stay as they are: a condition makes some weights 0 that their sum counts

#s = affine_map<(b, m, k) -> (b, m, k)>
#key = affine_map<(b, m, k) -> (k)>

// CHECK-LABEL: func.func @hidden(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x6x6xf16>)
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: %[[R:.*]] = iree_linalg_ext.attention
// CHECK: return %[[R]]

// CHECK-LABEL: func.func @other(
// CHECK-NOT: iree_linalg_ext.attention

func.func @hidden(%q: tensor<2x6x8xf16>, %k: tensor<2x8x6xf16>, %v: tensor<2x6x8xf16>, %p: tensor<2x8x6xf16>, %hide: tensor<6xi1>, %more: tensor<6xi1>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f16
  %low = arith.constant -1.0e4 : f16
  %e = tensor.empty() : tensor<2x6x6xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x6xf16>) outs(%s0 : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %places = linalg.batch_matmul ins(%q, %p : tensor<2x6x8xf16>, tensor<2x8x6xf16>) outs(%s0 : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %padded = tensor.pad %places low[0, 0, 1] high[0, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f16
  } : tensor<2x6x6xf16> to tensor<2x6x7xf16>
  %flat = tensor.collapse_shape %padded [[0], [1, 2]] : tensor<2x6x7xf16> into tensor<2x42xf16>
  %turned = tensor.expand_shape %flat [[0], [1, 2]] output_shape [2, 7, 6] : tensor<2x42xf16> into tensor<2x7x6xf16>
  %moved = tensor.extract_slice %turned[0, 1, 0] [2, 6, 6] [1, 1, 1] : tensor<2x7x6xf16> to tensor<2x6x6xf16>
  %x = linalg.generic {indexing_maps = [#s, #s, #key, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %moved, %hide : tensor<2x6x6xf16>, tensor<2x6x6xf16>, tensor<6xi1>) outs(%e : tensor<2x6x6xf16>) {
  ^bb0(%a: f16, %b: f16, %h: i1, %o: f16):
    %y = arith.addf %a, %b : f16
    %z = arith.select %h, %low, %y : f16
    linalg.yield %z : f16
  } -> tensor<2x6x6xf16>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x6xf16>) outs(%e : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %g = linalg.generic {indexing_maps = [#s, #key, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %hide : tensor<2x6x6xf16>, tensor<6xi1>) outs(%e : tensor<2x6x6xf16>) {
  ^bb0(%a: f16, %h: i1, %o: f16):
    %y = arith.select %h, %zero, %a : f16
    linalg.yield %y : f16
  } -> tensor<2x6x6xf16>
  %eo = tensor.empty() : tensor<2x6x8xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  %r = linalg.batch_matmul ins(%g, %v : tensor<2x6x6xf16>, tensor<2x6x8xf16>) outs(%o0 : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  return %r : tensor<2x6x8xf16>
}

func.func @other(%q: tensor<2x6x8xf16>, %k: tensor<2x8x6xf16>, %v: tensor<2x6x8xf16>, %p: tensor<2x8x6xf16>, %hide: tensor<6xi1>, %more: tensor<6xi1>) -> tensor<2x6x8xf16> {
  %zero = arith.constant 0.0 : f16
  %low = arith.constant -1.0e4 : f16
  %e = tensor.empty() : tensor<2x6x6xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x6x8xf16>, tensor<2x8x6xf16>) outs(%s0 : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %places = linalg.batch_matmul ins(%q, %p : tensor<2x6x8xf16>, tensor<2x8x6xf16>) outs(%s0 : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %padded = tensor.pad %places low[0, 0, 1] high[0, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f16
  } : tensor<2x6x6xf16> to tensor<2x6x7xf16>
  %flat = tensor.collapse_shape %padded [[0], [1, 2]] : tensor<2x6x7xf16> into tensor<2x42xf16>
  %turned = tensor.expand_shape %flat [[0], [1, 2]] output_shape [2, 7, 6] : tensor<2x42xf16> into tensor<2x7x6xf16>
  %moved = tensor.extract_slice %turned[0, 1, 0] [2, 6, 6] [1, 1, 1] : tensor<2x7x6xf16> to tensor<2x6x6xf16>
  %x = linalg.generic {indexing_maps = [#s, #s, #key, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %moved, %hide : tensor<2x6x6xf16>, tensor<2x6x6xf16>, tensor<6xi1>) outs(%e : tensor<2x6x6xf16>) {
  ^bb0(%a: f16, %b: f16, %h: i1, %o: f16):
    %y = arith.addf %a, %b : f16
    %z = arith.select %h, %low, %y : f16
    linalg.yield %z : f16
  } -> tensor<2x6x6xf16>
  %w = linalg.softmax dimension(2) ins(%x : tensor<2x6x6xf16>) outs(%e : tensor<2x6x6xf16>) -> tensor<2x6x6xf16>
  %g = linalg.generic {indexing_maps = [#s, #key, #s], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %more : tensor<2x6x6xf16>, tensor<6xi1>) outs(%e : tensor<2x6x6xf16>) {
  ^bb0(%a: f16, %h: i1, %o: f16):
    %y = arith.select %h, %zero, %a : f16
    linalg.yield %y : f16
  } -> tensor<2x6x6xf16>
  %eo = tensor.empty() : tensor<2x6x8xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%eo : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  %r = linalg.batch_matmul ins(%g, %v : tensor<2x6x6xf16>, tensor<2x6x8xf16>) outs(%o0 : tensor<2x6x8xf16>) -> tensor<2x6x8xf16>
  return %r : tensor<2x6x8xf16>
}
