// Dims that are joined and cut another way are cut first where sums are beside them, and what is
// between them has loops over the parts.

// RUN: attn-opt %s --attn-cut-groups --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

#all = affine_map<(b, g, i) -> (b, g, i)>
#one = affine_map<(b, g, i) -> (b, g, 0)>
#image = affine_map<(b, c, y, x) -> (b, c, y, x)>
#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {

// Twelve channels in four groups; the batch is unknown.
//
// CHECK-LABEL: func.func @groups(
// CHECK: %[[X:.*]] = linalg.generic
// CHECK: arith.extf
// CHECK: %[[C:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2], [3], [4]] {{.*}} into tensor<?x4x3x6x8xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%[[C]]
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[S]] : tensor<?x4x3x6x8xf32>, tensor<?x4x1xf32>)
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[D]] {{\[\[}}0], [1, 2], [3], [4]] : tensor<?x4x3x6x8xf32> into tensor<?x12x6x8xf32>
// CHECK: return %[[R]]
// WHY-COUNT-2: its dims are cut before they are joined
func.func @groups(%h: tensor<?x12x6x8xf16>) -> tensor<?x12x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %b = tensor.dim %h, %c0 : tensor<?x12x6x8xf16>
  %v = tensor.empty(%b) : tensor<?x12x6x8xf32>
  %x = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%h : tensor<?x12x6x8xf16>) outs(%v : tensor<?x12x6x8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<?x12x6x8xf32>
  %j = tensor.collapse_shape %x [[0], [1, 2, 3]] : tensor<?x12x6x8xf32> into tensor<?x576xf32>
  %g = tensor.expand_shape %j [[0], [1, 2]] output_shape [%b, 4, 144] : tensor<?x576xf32> into tensor<?x4x144xf32>
  %e = tensor.empty(%b) : tensor<?x4x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
  %s = linalg.generic {indexing_maps = [#all, #one], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g : tensor<?x4x144xf32>) outs(%f : tensor<?x4x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<?x4x1xf32>
  %w = tensor.empty(%b) : tensor<?x4x144xf32>
  %d = linalg.generic {indexing_maps = [#all, #one, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %s : tensor<?x4x144xf32>, tensor<?x4x1xf32>) outs(%w : tensor<?x4x144xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %t = arith.subf %a, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x4x144xf32>
  %k = tensor.collapse_shape %d [[0], [1, 2]] : tensor<?x4x144xf32> into tensor<?x576xf32>
  %r = tensor.expand_shape %k [[0], [1, 2, 3]] output_shape [%b, 12, 6, 8] : tensor<?x576xf32> into tensor<?x12x6x8xf32>
  return %r : tensor<?x12x6x8xf32>
}

// Five groups of twelve channels, sums of an argument, and what is not summed; no elements, of which
// no size is a multiple.
//
// CHECK-LABEL: func.func @left(
// CHECK-NOT: tensor<{{.*}}x3x{{.*}}xf32>
// CHECK: return
// WHY-NOT: its dims
func.func @left(%x: tensor<2x12x10xf32>, %y: tensor<2x12x6x8xf32>) -> (tensor<2x5xf32>, tensor<2x4x144xf32>, tensor<2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %j = tensor.collapse_shape %x [[0], [1, 2]] : tensor<2x12x10xf32> into tensor<2x120xf32>
  %g = tensor.expand_shape %j [[0], [1, 2]] output_shape [2, 5, 24] : tensor<2x120xf32> into tensor<2x5x24xf32>
  %e = tensor.empty() : tensor<2x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  %s = linalg.generic {indexing_maps = [#all, affine_map<(b, g, i) -> (b, g)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g : tensor<2x5x24xf32>) outs(%f : tensor<2x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x5xf32>
  %k = tensor.collapse_shape %y [[0], [1, 2, 3]] : tensor<2x12x6x8xf32> into tensor<2x576xf32>
  %r = tensor.expand_shape %k [[0], [1, 2]] output_shape [2, 4, 144] : tensor<2x576xf32> into tensor<2x4x144xf32>
  %n = tensor.empty() : tensor<2x4xf32>
  %q = linalg.fill ins(%zero : f32) outs(%n : tensor<2x4xf32>) -> tensor<2x4xf32>
  %u = linalg.generic {indexing_maps = [#all, affine_map<(b, g, i) -> (b, g)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%r : tensor<2x4x144xf32>) outs(%q : tensor<2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x4xf32>
  return %s, %r, %u : tensor<2x5xf32>, tensor<2x4x144xf32>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @none(
// CHECK: tensor.expand_shape {{.*}} into tensor<2x0x2xf32>
func.func @none(%x: tensor<2x0x4xf32>) -> tensor<2x0x2xf32> {
  %j = tensor.collapse_shape %x [[0, 1, 2]] : tensor<2x0x4xf32> into tensor<0xf32>
  %g = tensor.expand_shape %j [[0, 1, 2]] output_shape [2, 0, 2] : tensor<0xf32> into tensor<2x0x2xf32>
  return %g : tensor<2x0x2xf32>
}
}
