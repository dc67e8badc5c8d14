// Few sums of many numbers are made of sums of parts; of fewer numbers, of many sums, of unknown sizes,
// and those that go on from other numbers stay.
//
// RUN: attn-opt %s --attn-split-sums --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

#both = affine_map<(i, j) -> (i, j)>
#none = affine_map<(i, j) -> ()>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
module attributes {hal.device.targets = [#cuda]} {

// All rows first: a loop that has as many parts as there are workgroups.
// CHECK-LABEL: func.func @loss
// CHECK: linalg.fill {{.*}} -> tensor<1024xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%arg0, %arg1
// CHECK: math.absf
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]}
// CHECK-NOT: math.absf
// CHECK: return
// WHY: is the sum of 1024 parts
func.func @loss(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#both, #both, #none], iterator_types = ["reduction", "reduction"]} ins(%x, %y : tensor<1024x1024xf32>, tensor<1024x1024xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.subf %a, %b : f32
    %d = math.absf %c : f32
    %t = arith.addf %d, %o : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// Columns that lie side by side: parts of the rows.
// CHECK-LABEL: func.func @columns
// CHECK: tensor.expand_shape %arg0 {{.*}} into tensor<256x256x64xf16>
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<256x64xf32>)
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<64xf32>)
// WHY: is the sum of 256 parts
func.func @columns(%x: tensor<65536x64xf16>) -> tensor<64xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#both, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<65536x64xf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f16, %o: f32):
    %c = arith.extf %a : f16 to f32
    %t = arith.maximumf %c, %o : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// A dim of one element in place of what is summed, and the place of a number: that of its part, too.
// CHECK-LABEL: func.func @place
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<64x8x1xi32>)
// CHECK: %[[P:.*]] = linalg.index 2
// CHECK: arith.muli %[[P]], %c2374
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<8x1xi32>)
// CHECK: arith.minui
// WHY: is the sum of 64 parts
func.func @place(%x: tensor<8x151936xf16>) -> tensor<8x1xi32> {
  %most = arith.constant -1 : i32
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x1xi32>
  %f = linalg.fill ins(%most : i32) outs(%e : tensor<8x1xi32>) -> tensor<8x1xi32>
  %s = linalg.generic {indexing_maps = [#both, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x151936xf16>) outs(%f : tensor<8x1xi32>) {
  ^bb0(%a: f16, %o: i32):
    %is = arith.cmpf oeq, %a, %zero : f16
    %j = linalg.index 1 : index
    %n = arith.index_cast %j : index to i32
    %c = arith.select %is, %n, %most : i32
    %t = arith.minui %c, %o : i32
    linalg.yield %t : i32
  } -> tensor<8x1xi32>
  return %s : tensor<8x1xi32>
}

// A norm of rows that a kernel can have.
// CHECK-LABEL: func.func @norm
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<16xf32>)
// CHECK-NOT: linalg.fill
// CHECK: return
func.func @norm(%x: tensor<16x40960xf32>) -> tensor<16x40960xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %s = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<16x40960xf32>) outs(%f : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<16xf32>
  %w = tensor.empty() : tensor<16x40960xf32>
  %r = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<16x40960xf32>, tensor<16xf32>) outs(%w : tensor<16x40960xf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %t = arith.subf %a, %m : f32
    linalg.yield %t : f32
  } -> tensor<16x40960xf32>
  return %r : tensor<16x40960xf32>
}

// Scores between products: raised as attention later.
// CHECK-LABEL: func.func @scores
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @scores(%q: tensor<8x128xf32>, %k: tensor<128x131072xf32>, %v: tensor<131072x128xf32>) -> tensor<8x128xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x131072xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x131072xf32>) -> tensor<8x131072xf32>
  %p = linalg.matmul ins(%q, %k : tensor<8x128xf32>, tensor<128x131072xf32>) outs(%f : tensor<8x131072xf32>) -> tensor<8x131072xf32>
  %r = tensor.empty() : tensor<8xf32>
  %n = linalg.fill ins(%low : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x131072xf32>) outs(%n : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.maximumf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]} ins(%p, %m : tensor<8x131072xf32>, tensor<8xf32>) outs(%e : tensor<8x131072xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<8x131072xf32>
  %g = tensor.empty() : tensor<8x128xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<8x128xf32>) -> tensor<8x128xf32>
  %y = linalg.matmul ins(%c, %v : tensor<8x131072xf32>, tensor<131072x128xf32>) outs(%h : tensor<8x128xf32>) -> tensor<8x128xf32>
  return %y : tensor<8x128xf32>
}

// CHECK-LABEL: func.func @left
// CHECK-COUNT-5: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: return
// WHY-NOT: parts
func.func @left(%few: tensor<512x512xf32>, %many: tensor<128x65536xf32>, %open: tensor<2x?xf32>, %x: tensor<2x500000xf32>) -> (tensor<512xf32>, tensor<128xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %0 = linalg.generic {indexing_maps = [#both, #column], iterator_types = ["reduction", "parallel"]} ins(%few : tensor<512x512xf32>) outs(%f : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  %em = tensor.empty() : tensor<128xf32>
  %fm = linalg.fill ins(%zero : f32) outs(%em : tensor<128xf32>) -> tensor<128xf32>
  %1 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%many : tensor<128x65536xf32>) outs(%fm : tensor<128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<128xf32>
  %e2 = tensor.empty() : tensor<2xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%open : tensor<2x?xf32>) outs(%f2 : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2xf32>
  %f3 = linalg.fill ins(%one : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
  %3 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x500000xf32>) outs(%f3 : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2xf32>
  %4 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x500000xf32>) outs(%f2 : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    %t = arith.maximumf %s, %o : f32
    linalg.yield %t : f32
  } -> tensor<2xf32>
  return %0, %1, %2, %3, %4 : tensor<512xf32>, tensor<128xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
}
