// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --remarks --verify-diagnostics
// RUN: attn-opt %s --split-input-file > %t.0 && attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file > %t.1 && diff %t.0 %t.1

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// One branch yields an argument, which would be transposed there.
func.func @argument(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x16xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %v = scf.if %c -> (tensor<2x32x16xf32>) {
    %ae = tensor.empty() : tensor<2x32x16xf32>
    %af = linalg.fill ins(%z : f32) outs(%ae : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    %a = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%af : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    scf.yield %a : tensor<2x32x16xf32>
  } else {
    scf.yield %y : tensor<2x32x16xf32>
  }
  %rout = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value kept: V stays as it is: V^T cannot be absorbed whole, it takes 1 more launch(es) and 8192 bytes}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// Neither branch can.
func.func @arguments(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x16xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %v = arith.select %c, %k, %y : tensor<2x32x16xf32>
  %rout = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: it is an argument of @arguments, which is public and keeps its signature}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// What the loop carries is read as it is behind it.
func.func @returned(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x4x24xf32>) -> (tensor<2x8x16xf32>, tensor<2x32x16xf32>) {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %lo = arith.constant 0 : index
  %hi = arith.constant 28 : index
  %step = arith.constant 4 : index
  %starte = tensor.empty() : tensor<2x32x16xf32>
  %startf = linalg.fill ins(%z : f32) outs(%starte : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %start = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%startf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %l:2 = scf.for %i = %lo to %hi step %step iter_args(%sum = %q, %cache = %start) -> (tensor<2x8x16xf32>, tensor<2x32x16xf32>) {
    %newe = tensor.empty() : tensor<2x4x16xf32>
    %newf = linalg.fill ins(%z : f32) outs(%newe : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %new = linalg.batch_matmul ins(%y, %w : tensor<2x4x24xf32>, tensor<2x24x16xf32>) outs(%newf : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %v = tensor.insert_slice %new into %cache[0, %i, 0] [2, 4, 16] [1, 1, 1] : tensor<2x4x16xf32> into tensor<2x32x16xf32>
    %rout = tensor.empty() : tensor<2x8x16xf32>
    // expected-remark @below {{value refused: V^T cannot be absorbed: others read scf.for at}}
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
        ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
    } -> tensor<2x8x16xf32>
    scf.yield %r, %v : tensor<2x8x16xf32>, tensor<2x32x16xf32>
  }
  return %l#0, %l#1 : tensor<2x8x16xf32>, tensor<2x32x16xf32>
}

// The body yields what it cannot have transposed.
func.func @body(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %lo = arith.constant 0 : index
  %hi = arith.constant 28 : index
  %step = arith.constant 4 : index
  %starte = tensor.empty() : tensor<2x32x16xf32>
  %startf = linalg.fill ins(%z : f32) outs(%starte : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %start = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%startf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %l = scf.for %i = %lo to %hi step %step iter_args(%cache = %start) -> (tensor<2x32x16xf32>) {
    %v = util.optimization_barrier %cache : tensor<2x32x16xf32>
    scf.yield %v : tensor<2x32x16xf32>
  }
  %rout = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: an optimization barrier is there to keep what it hides}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %l, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// Each step carries on the transpose of what it was given: whatever is carried, one of the two
// is transposed.
func.func @turns(%q: tensor<2x8x16xf32>, %k: tensor<2x16x16xf32>, %x: tensor<2x16x16xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %lo = arith.constant 0 : index
  %hi = arith.constant 28 : index
  %step = arith.constant 4 : index
  %e = tensor.empty() : tensor<2x16x16xf32>
  %start = linalg.fill ins(%z : f32) outs(%e : tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
  %l = scf.for %i = %lo to %hi step %step iter_args(%t = %start) -> (tensor<2x16x16xf32>) {
    %u = linalg.transpose ins(%t : tensor<2x16x16xf32>) outs(%e : tensor<2x16x16xf32>) permutation = [0, 2, 1]
    scf.yield %u : tensor<2x16x16xf32>
  }
  %rout = tensor.empty() : tensor<2x8x16xf32>
  // expected-remark @below {{value refused: V^T cannot be absorbed: others read scf.for at}}
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %l, %scale : tensor<2x8x16xf32>, tensor<2x16x16xf32>, tensor<2x16x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
