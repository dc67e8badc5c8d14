// Attention ops that share a location, as the layers of an imported loop do and self- and
// cross-attention of one class, have a record each; the number stays with the op to the end.

// RUN: attn-opt %s --attn-propagate-layout=mode=never,operands=v --report=%t.json -o %t.mlir --mlir-print-debuginfo
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: FileCheck %s < %t.mlir
// RUN: attn-opt %t.mlir --attn-propagate-layout=mode=never,operands=v --report=%t.again.json -o %t.again
// RUN: FileCheck %s --check-prefix=JSON < %t.again.json
// RUN: attn-compile %s -o %t.vmfb --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=generic --attn-summary 2> %t.txt
// RUN: FileCheck %s --check-prefix=TEXT < %t.txt

// JSON: "location": "layer.py:7:0"
// JSON: "key": [
// JSON-NEXT: 16,
// JSON: "number": 1
// JSON: "location": "layer.py:7:0"
// JSON: "key": [
// JSON-NEXT: 32,
// JSON: "number": 2
// JSON: "location": "other.py:9:0"
// JSON: "number": 1
// JSON: "location": "layer.py:7:0"
// JSON: "function": "another",
// JSON: "number": 1
// JSON-NOT: "location"

// CHECK: [[PLACE:#loc[0-9]*]] = loc("layer.py":7:0)
// CHECK: loc("attnpass 2"([[PLACE]]))

// TEXT: 4 attention ops
// TEXT: @self_and_cross{{.*}}: attention at layer.py:7:0
// TEXT-NEXT: key 16x8xf32
// TEXT: @self_and_cross: attention ops 1 to 2, 2 times: attention at layer.py:7:0 (number 2 there)
// TEXT-NEXT: key 32x8xf32
// TEXT: @another{{.*}}: attention at layer.py:7:0
// TEXT: attention at layer.py:7:0 is configured
// TEXT: attention at layer.py:7:0 (number 2 there) is configured

#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
func.func @self_and_cross(%q: tensor<16x8xf32>, %x: tensor<16x8xf32>, %y: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %x, %x, %scale : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32> loc("layer.py":7:0)
  %b = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%a, %y, %y, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32> loc("layer.py":7:0)
  %c = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%b, %y, %y, %scale : tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32> loc("other.py":9:0)
  return %c : tensor<16x8xf32>
}

func.func @another(%q: tensor<16x8xf32>, %x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<16x8xf32>
  %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %x, %x, %scale : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, f32) outs(%out : tensor<16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<16x8xf32> loc("layer.py":7:0)
  return %a : tensor<16x8xf32>
}
