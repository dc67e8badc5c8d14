// Each distinct attention comes alone, with its own arguments; what cannot be tuned is named.

// RUN: rm -rf %t && mkdir -p %t
// RUN: attn-opt %s --attn-extract="folder={%t} target=llvm-cpu assume=48" -o %t/same
// RUN: cat %t/*.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/problems.json
// RUN: FileCheck %s --check-prefix=SAME --input-file=%t/same
// RUN: not attn-opt %s --attn-extract 2>&1 | FileCheck %s --check-prefix=NEEDED
// RUN: not attn-opt %s --attn-extract="folder={%t/none} target=llvm-cpu" 2>&1 | FileCheck %s --check-prefix=WHERE

// NEEDED: error: pass 'attn-extract': option 'folder' is needed
// WHERE: none: error: cannot write there: no such file or directory

// One module for the two functions.
// CHECK: func.func @one(%{{.*}}: tensor<2x?x32xf16>, %{{.*}}: tensor<2x40x32xf16>, %{{.*}}: tensor<2x40x64xf16>) -> tensor<2x?x64xf16>
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-01 : f16
// CHECK: tensor.dim %{{.*}}, %{{.*}} : tensor<2x?x32xf16>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %[[SCALE]] : {{.*}}
// CHECK: return %{{.*}} : tensor<2x?x64xf16>
// CHECK: func.func @short(
// CHECK-COUNT-1: iree_linalg_ext.attention
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0] [1, 1, 8] [1, 1, 1]
// CHECK: func.func @long(
// CHECK-COUNT-65: iree_linalg_ext.attention
// CHECK-NOT: iree_linalg_ext.attention

// LIST: "target": "llvm-cpu generic"
// LIST: "type": "tensor<2x?x32xf16>",
// LIST: "sizes": [
// LIST-NEXT: 2,
// LIST-NEXT: 48,
// LIST: "assumed": true
// LIST: "attention at {{.*}}:54:
// LIST-NEXT: "attention at {{.*}}:67:
// LIST: "choice": "built-in",
// LIST: "IREE refuses vectors of 512 registers":
// LIST: "passed": [
// LIST-NEXT: "attention at {{.*}}: nothing was measured for f64"
// LIST-NEXT: "attention at {{.*}}: its region changes the scores"

// SAME: func.func @prefill(

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @prefill(%q: tensor<2x?x32xf16>, %k: tensor<2x40x32xf16>, %v: tensor<2x40x64xf16>) -> tensor<2x?x64xf16> {
  %scale = arith.constant 0.25 : f16
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<2x?x32xf16>
  %out = tensor.empty(%m) : tensor<2x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x?x32xf16>, tensor<2x40x32xf16>, tensor<2x40x64xf16>, f16) outs(%out : tensor<2x?x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x?x64xf16>
  return %r : tensor<2x?x64xf16>
}

func.func @again(%q: tensor<2x?x32xf16>, %k: tensor<2x40x32xf16>, %v: tensor<2x40x64xf16>) -> tensor<2x?x64xf16> {
  %scale = arith.constant 0.25 : f16
  %c1 = arith.constant 1 : index
  %m = tensor.dim %q, %c1 : tensor<2x?x32xf16>
  %out = tensor.empty(%m) : tensor<2x?x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x?x32xf16>, tensor<2x40x32xf16>, tensor<2x40x64xf16>, f16) outs(%out : tensor<2x?x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x?x64xf16>
  return %r : tensor<2x?x64xf16>
}

func.func @unmeasured(%q: tensor<2x8x32xf64>, %k: tensor<2x40x32xf64>, %v: tensor<2x40x64xf64>) -> tensor<2x8x64xf64> {
  %scale = arith.constant 0.25 : f64
  %out = tensor.empty() : tensor<2x8x64xf64>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x32xf64>, tensor<2x40x32xf64>, tensor<2x40x64xf64>, f64) outs(%out : tensor<2x8x64xf64>) {
    ^bb0(%score: f64):
      iree_linalg_ext.yield %score : f64
  } -> tensor<2x8x64xf64>
  return %r : tensor<2x8x64xf64>
}

func.func @capped(%q: tensor<2x8x32xf32>, %k: tensor<2x40x32xf32>, %v: tensor<2x40x64xf32>) -> tensor<2x8x64xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x8x64xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x32xf32>, tensor<2x40x32xf32>, tensor<2x40x64xf32>, f32) outs(%out : tensor<2x8x64xf32>) {
    ^bb0(%score: f32):
      %capped = math.tanh %score : f32
      iree_linalg_ext.yield %capped : f32
  } -> tensor<2x8x64xf32>
  return %r : tensor<2x8x64xf32>
}
