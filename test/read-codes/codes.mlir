// A product on a CPU stands in one dispatch with what widens its weights from codes, and with what
// is elementwise behind it; as it was where loops of ours would not multiply it.

// RUN: attn-opt %s --attn-read-codes --split-input-file --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json

// WHY-DAG: its weights are widened in registers, from codes as they lie
// WHY-DAG: 250 columns are cut into no whole vectors

#whole = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (i)>
#left = affine_map<(m, n, k) -> (m, k)>
#turned = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver3", native_vector_size = 32 : i64}>]> : !hal.device]} {
// The step between codes and weights is made again: others read it from memory.
// CHECK-LABEL: func.func @scales(
// CHECK: %[[STEP:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<256x512xi8>)
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<20x256xf32>)
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<256x512xi8>, tensor<256xf32>)
// CHECK: arith.sitofp
// CHECK: arith.mulf
// CHECK: %[[P:.*]] = linalg.matmul {{.*}} ins(%{{.*}}, %[[W]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[P]] :
// CHECK: math.tanh
// CHECK: flow.return %[[B]]
// CHECK: return %[[R]], %[[STEP]]
func.func @scales(%x: tensor<20x512xf32>, %c: tensor<256x512xi8>, %s: tensor<256xf32>, %f: tensor<20x256xf32>, %e: tensor<256x512xf32>) -> (tensor<20x256xf32>, tensor<256x512xf32>) {
  %step = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<256x512xi8>) outs(%e : tensor<256x512xf32>) {
  ^bb0(%a: i8, %o: f32):
    %y = arith.sitofp %a : i8 to f32
    linalg.yield %y : f32
  } -> tensor<256x512xf32>
  %w = linalg.generic {indexing_maps = [#whole, #first, #whole], iterator_types = ["parallel", "parallel"]} ins(%step, %s : tensor<256x512xf32>, tensor<256xf32>) outs(%e : tensor<256x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.mulf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<256x512xf32>
  %p = linalg.matmul indexing_maps = [#left, #turned, #out] ins(%x, %w : tensor<20x512xf32>, tensor<256x512xf32>) outs(%f : tensor<20x256xf32>) -> tensor<20x256xf32>
  %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<20x256xf32>) outs(%f : tensor<20x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<20x256xf32>
  return %r, %step : tensor<20x256xf32>, tensor<256x512xf32>
}

// Rows that are the weights are read from memory.
// CHECK-LABEL: func.func @square(
// CHECK: %[[X:.*]] = linalg.generic
// CHECK: flow.dispatch.region
// CHECK: %[[W:.*]] = linalg.generic
// CHECK: linalg.matmul {{.*}} ins(%[[X]], %[[W]] :
func.func @square(%c: tensor<256x512xi8>, %f: tensor<256x256xf32>, %e: tensor<256x512xf32>) -> tensor<256x256xf32> {
  %w = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<256x512xi8>) outs(%e : tensor<256x512xf32>) {
  ^bb0(%a: i8, %o: f32):
    %y = arith.sitofp %a : i8 to f32
    linalg.yield %y : f32
  } -> tensor<256x512xf32>
  %p = linalg.matmul indexing_maps = [#left, #turned, #out] ins(%w, %w : tensor<256x512xf32>, tensor<256x512xf32>) outs(%f : tensor<256x256xf32>) -> tensor<256x256xf32>
  return %p : tensor<256x256xf32>
}

// CHECK-LABEL: func.func @odd_columns(
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @odd_columns(%x: tensor<20x512xf32>, %c: tensor<250x512xi8>, %f: tensor<20x250xf32>, %e: tensor<250x512xf32>) -> tensor<20x250xf32> {
  %w = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<250x512xi8>) outs(%e : tensor<250x512xf32>) {
  ^bb0(%a: i8, %o: f32):
    %y = arith.sitofp %a : i8 to f32
    linalg.yield %y : f32
  } -> tensor<250x512xf32>
  %p = linalg.matmul indexing_maps = [#left, #turned, #out] ins(%x, %w : tensor<20x512xf32>, tensor<250x512xf32>) outs(%f : tensor<20x250xf32>) -> tensor<20x250xf32>
  return %p : tensor<20x250xf32>
}

// Loops make no tanh of vectors.
// CHECK-LABEL: func.func @table(
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @table(%x: tensor<20x512xf32>, %c: tensor<256x512xi8>, %f: tensor<20x256xf32>, %e: tensor<256x512xf32>) -> tensor<20x256xf32> {
  %w = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<256x512xi8>) outs(%e : tensor<256x512xf32>) {
  ^bb0(%a: i8, %o: f32):
    %y = arith.sitofp %a : i8 to f32
    %t = math.tanh %y : f32
    linalg.yield %t : f32
  } -> tensor<256x512xf32>
  %p = linalg.matmul indexing_maps = [#left, #turned, #out] ins(%x, %w : tensor<20x512xf32>, tensor<256x512xf32>) outs(%f : tensor<20x256xf32>) -> tensor<20x256xf32>
  return %p : tensor<20x256xf32>
}
}
