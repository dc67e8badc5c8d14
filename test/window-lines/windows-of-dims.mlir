// Windows along a dim are taken by lines: what they are of is turned first where their lines lie
// across it, the windows where products read them.

// RUN: attn-opt %s --attn-window-lines --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// WHY-COUNT-3: takes windows by lines
// WHY: each element is in 15 windows
// WHY: its lines have gaps
// WHY-NOT: {{windows|gaps}}

#w = affine_map<(b, i, d, j) -> (b, i * 4 + j, d)>
#r = affine_map<(b, i, d, j) -> (b, i, d, j)>
#q = affine_map<(b, i, m, n, k) -> (b, i, m, k)>
#k = affine_map<(b, i, m, n, k) -> (b, i, k, n)>
#o = affine_map<(b, i, m, n, k) -> (b, i, m, n)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {
// CHECK-LABEL: func.func @across(
// CHECK: %[[T:.*]] = linalg.transpose ins(%arg0 : tensor<2x40x16xf16>) {{.*}} permutation = [0, 2, 1]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8x16x12xf16>)
// CHECK: %[[AT:.*]] = arith.muli %{{.*}}, %{{.*}} : index
// CHECK: %[[PLACE:.*]] = arith.addi %{{.*}}, %[[AT]] : index
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %{{.*}}, %[[PLACE]]] : tensor<2x16x40xf16>
// CHECK: compute_barrier.start
// CHECK-NOT: linalg.transpose
func.func @across(%x: tensor<2x40x16xf16>) -> tensor<2x8x16x12xf16> {
  %e = tensor.empty() : tensor<2x8x16x12xf16>
  %r = linalg.generic {indexing_maps = [#w, #r], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x40x16xf16>) outs(%e : tensor<2x8x16x12xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<2x8x16x12xf16>
  return %r : tensor<2x8x16x12xf16>
}

// CHECK-LABEL: func.func @product(
// CHECK-NOT: linalg.transpose
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x?x12x16xf16>)
// CHECK: tensor.extract %{{.*}} : tensor<2x?x16xf16>
// CHECK: linalg.transpose {{.*}} permutation = [0, 1, 3, 2]
// CHECK: linalg.generic {{.*}}"reduction"]}
func.func @product(%x: tensor<2x?x16xf16>, %n: index, %q: tensor<2x?x5x16xf16>, %s: tensor<2x?x5x12xf32>) -> tensor<2x?x5x12xf32> {
  %e = tensor.empty(%n) : tensor<2x?x16x12xf16>
  %r = linalg.generic {indexing_maps = [#w, #r], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x?x16xf16>) outs(%e : tensor<2x?x16x12xf16>) {
  ^bb0(%a: f16, %b: f16):
    linalg.yield %a : f16
  } -> tensor<2x?x16x12xf16>
  %p = linalg.generic {indexing_maps = [#q, #k, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %r : tensor<2x?x5x16xf16>, tensor<2x?x16x12xf16>) outs(%s : tensor<2x?x5x12xf32>) {
  ^bb0(%a: f16, %b: f16, %c: f32):
    %f = arith.extf %a : f16 to f32
    %g = arith.extf %b : f16 to f32
    %m = arith.mulf %f, %g : f32
    %t = arith.addf %c, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x?x5x12xf32>
  return %p : tensor<2x?x5x12xf32>
}

// Frames of sound are lines as they are.
// CHECK-LABEL: func.func @frames(
// CHECK-NOT: linalg.transpose
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x9x16xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: return
func.func @frames(%x: tensor<2x80xf32>) -> tensor<2x9x16xf32> {
  %e = tensor.empty() : tensor<2x9x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i * 8 + j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x80xf32>) outs(%e : tensor<2x9x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x9x16xf32>
  return %r : tensor<2x9x16xf32>
}

// Left: windows that overlap often, and every second element.
// CHECK-LABEL: func.func @left(
// CHECK-COUNT-2: linalg.generic {{.*}} ins(
func.func @left(%x: tensor<2x80xf32>, %e: tensor<2x61x20xf32>, %f: tensor<2x9x8xf32>) -> (tensor<2x61x20xf32>, tensor<2x9x8xf32>) {
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i + j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x80xf32>) outs(%e : tensor<2x61x20xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x61x20xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i * 8 + j * 2)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x80xf32>) outs(%f : tensor<2x9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x9x8xf32>
  return %r, %s : tensor<2x61x20xf32>, tensor<2x9x8xf32>
}
}
