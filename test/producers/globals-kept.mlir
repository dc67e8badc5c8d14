// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

util.global private @w = #stream.parameter.named<"model"::"layer.0.v"> : tensor<1x2x3xf32>
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @w : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is loaded from @w: the parameter "model"::"layer.0.v" would have to be stored in the order (d2, d1)}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

util.global @w = dense<1.0> : tensor<1x2x3xf32>
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @w : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is loaded from @w, which is public}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// What is stored is an argument.
util.global private mutable @w = dense<1.0> : tensor<1x2x3xf32>
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @w : tensor<1x2x3xf32>
  util.global.store %k, @w : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is loaded from @w: it is an argument of @main, which is public and keeps its signature}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// The address of a global shows how its bytes lie.
util.global private @w = dense<1.0> : tensor<1x2x3xf32>
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %a = util.global.address @w : !util.ptr<tensor<1x2x3xf32>>
  %v = util.global.load @w : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is loaded from @w, which is named by util.global.address}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

func.func @indirect(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>, %p: !util.ptr<tensor<1x2x3xf32>>) -> tensor<1x4x3xf32> {
  %v = util.global.load.indirect %p : !util.ptr<tensor<1x2x3xf32>> -> tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: no rule moves the change through util.global.load.indirect}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Another function reads it as it is.
util.global private @w = dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>
func.func @main(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %v = util.global.load @w : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: others read util.global.load at}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}

func.func @other() -> tensor<1x2x3xf32> {
  %v = util.global.load @w : tensor<1x2x3xf32>
  return %v : tensor<1x2x3xf32>
}

// -----

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Walls: a caller's buffer, and barriers.
func.func @import(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>, %b: !hal.buffer_view) -> tensor<1x4x3xf32> {
  %v = hal.tensor.import %b : !hal.buffer_view -> tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is a function argument, and its caller's buffer has the layout}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}
func.func @barrier(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>) -> tensor<1x4x3xf32> {
  %c = arith.constant dense<1.0> : tensor<1x2x3xf32>
  %v = util.optimization_barrier %c : tensor<1x2x3xf32>
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: an optimization barrier is there to keep what it hides}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}
func.func @alias(%q: tensor<1x4x3xf32>, %k: tensor<1x2x3xf32>, %b: !hal.buffer) -> tensor<1x4x3xf32> {
  %c = arith.constant dense<1.0> : tensor<1x2x3xf32>
  %v = hal.tensor.alias %c : tensor<1x2x3xf32> to %b : !hal.buffer
  %rscale = arith.constant 0.25 : f32
  %rout = tensor.empty() : tensor<1x4x3xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it lies in a buffer of the caller, which has the layout}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %rscale : tensor<1x4x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, f32) outs(%rout : tensor<1x4x3xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<1x4x3xf32>
  return %r : tensor<1x4x3xf32>
}
