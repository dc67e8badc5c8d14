// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-propagate-layout=mode=always,operands=v --split-input-file --mlir-print-op-generic | attn-opt --split-input-file | FileCheck %s

#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>

// Each branch yields V^T.
// CHECK-LABEL: func.func @branches(
// CHECK: %[[V:.*]] = scf.if {{.*}} -> (tensor<2x16x32xf32>) {
// CHECK: linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: scf.yield %{{.*}} : tensor<2x16x32xf32>
// CHECK: else
// CHECK: linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: scf.yield %{{.*}} : tensor<2x16x32xf32>
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[V]],
func.func @branches(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x24xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %v = scf.if %c -> (tensor<2x32x16xf32>) {
    %ae = tensor.empty() : tensor<2x32x16xf32>
    %af = linalg.fill ins(%z : f32) outs(%ae : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    %a = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%af : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    scf.yield %a : tensor<2x32x16xf32>
  } else {
    %be = tensor.empty() : tensor<2x32x16xf32>
    %bf = linalg.fill ins(%z : f32) outs(%be : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    %b = linalg.batch_matmul ins(%y, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%bf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
    scf.yield %b : tensor<2x32x16xf32>
  }
  %rout = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// Two heads of dynamic length and bf16: the sizes of a branch are not those behind it.
// CHECK-LABEL: func.func @dynamic(
// CHECK: %[[D:.*]] = scf.if {{.*}} -> (tensor<2x16x?xbf16>) {
// CHECK-NOT: linalg.transpose
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[D]],
func.func @dynamic(%q: tensor<2x8x16xbf16>, %k: tensor<2x?x16xbf16>, %x: tensor<2x?x24xbf16>, %w: tensor<2x24x16xbf16>, %c: i1) -> tensor<2x8x16xbf16> {
  %one = arith.constant 1 : index
  %z = arith.constant 0.0 : bf16
  %scale = arith.constant 0.25 : bf16
  %v = scf.if %c -> (tensor<2x?x16xbf16>) {
    %n = tensor.dim %x, %one : tensor<2x?x24xbf16>
    %e = tensor.empty(%n) : tensor<2x?x16xbf16>
    %f = linalg.fill ins(%z : bf16) outs(%e : tensor<2x?x16xbf16>) -> tensor<2x?x16xbf16>
    %p = linalg.batch_matmul ins(%x, %w : tensor<2x?x24xbf16>, tensor<2x24x16xbf16>) outs(%f : tensor<2x?x16xbf16>) -> tensor<2x?x16xbf16>
    scf.yield %p : tensor<2x?x16xbf16>
  } else {
    %n = tensor.dim %k, %one : tensor<2x?x16xbf16>
    %e = tensor.empty(%n) : tensor<2x?x16xbf16>
    %f = linalg.fill ins(%z : bf16) outs(%e : tensor<2x?x16xbf16>) -> tensor<2x?x16xbf16>
    scf.yield %f : tensor<2x?x16xbf16>
  }
  %rout = tensor.empty() : tensor<2x8x16xbf16>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xbf16>, tensor<2x?x16xbf16>, tensor<2x?x16xbf16>, bf16) outs(%rout : tensor<2x8x16xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xbf16>
  return %r : tensor<2x8x16xbf16>
}

// CHECK-LABEL: func.func @select(
// CHECK: %[[S:.*]] = arith.select {{.*}} : tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[S]],
func.func @select(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x24xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %ae = tensor.empty() : tensor<2x32x16xf32>
  %af = linalg.fill ins(%z : f32) outs(%ae : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %a = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%af : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %be = tensor.empty() : tensor<2x32x16xf32>
  %bf = linalg.fill ins(%z : f32) outs(%be : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %b = linalg.batch_matmul ins(%y, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%bf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v = arith.select %c, %a, %b : tensor<2x32x16xf32>
  %rout = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// The loop carries V^T: start, argument, yield and result change together. Attention inside
// and behind the loop reads it.
// CHECK-LABEL: func.func @loop(
// CHECK: %[[START:.*]] = linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<2x16x32xf32>)
// CHECK: %[[L:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}}, %[[CACHE:.*]] = %[[START]]) -> (tensor<2x8x16xf32>, tensor<2x16x32xf32>)
// CHECK: %[[NEW:.*]] = tensor.insert_slice %{{.*}} into %[[CACHE]][0, 0, %{{.*}}] [2, 16, 4] [1, 1, 1] : tensor<2x16x4xf32> into tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[NEW]],
// CHECK: scf.yield %{{.*}}, %[[NEW]] : tensor<2x8x16xf32>, tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[L]]#1,
func.func @loop(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x4x24xf32>) -> tensor<2x8x16xf32> {
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
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
        ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
    } -> tensor<2x8x16xf32>
    scf.yield %r, %v : tensor<2x8x16xf32>, tensor<2x32x16xf32>
  }
  %tout = tensor.empty() : tensor<2x8x16xf32>
  %t = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %l#1, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%tout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %t : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @while(
// CHECK: %[[W:.*]]:2 = scf.while (%{{.*}}, %[[BEFORE:.*]] = %{{.*}}) : (index, tensor<2x16x32xf32>) -> (index, tensor<2x16x32xf32>)
// CHECK: scf.condition(%{{.*}}) %{{.*}}, %[[BEFORE]] : index, tensor<2x16x32xf32>
// CHECK: ^bb0(%{{.*}}: index, %[[AFTER:.*]]: tensor<2x16x32xf32>):
// CHECK: %[[UP:.*]] = tensor.insert_slice %{{.*}} into %[[AFTER]]
// CHECK: scf.yield %{{.*}}, %[[UP]] : index, tensor<2x16x32xf32>
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[W]]#1,
func.func @while(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x4x24xf32>) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %lo = arith.constant 0 : index
  %hi = arith.constant 28 : index
  %step = arith.constant 4 : index
  %starte = tensor.empty() : tensor<2x32x16xf32>
  %startf = linalg.fill ins(%z : f32) outs(%starte : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %start = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%startf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %l:2 = scf.while (%i = %lo, %cache = %start) : (index, tensor<2x32x16xf32>) -> (index, tensor<2x32x16xf32>) {
    %more = arith.cmpi ult, %i, %hi : index
    scf.condition(%more) %i, %cache : index, tensor<2x32x16xf32>
  } do {
  ^bb0(%i: index, %cache: tensor<2x32x16xf32>):
    %newe = tensor.empty() : tensor<2x4x16xf32>
    %newf = linalg.fill ins(%z : f32) outs(%newe : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %new = linalg.batch_matmul ins(%y, %w : tensor<2x4x24xf32>, tensor<2x24x16xf32>) outs(%newf : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %v = tensor.insert_slice %new into %cache[0, %i, 0] [2, 4, 16] [1, 1, 1] : tensor<2x4x16xf32> into tensor<2x32x16xf32>
    %j = arith.addi %i, %step : index
    scf.yield %j, %v : index, tensor<2x32x16xf32>
  }
  %tout = tensor.empty() : tensor<2x8x16xf32>
  %t = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %l#1, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%tout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %t : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @blocks(
// CHECK: cf.br ^[[END:.*]](%{{.*}} : tensor<2x16x32xf32>)
// CHECK: cf.br ^[[END]](%{{.*}} : tensor<2x16x32xf32>)
// CHECK: ^[[END]](%[[B:.*]]: tensor<2x16x32xf32>):
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %{{[^,]*}}, %[[B]],
func.func @blocks(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %y: tensor<2x32x24xf32>, %c: i1) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  cf.cond_br %c, ^one, ^two
^one:
  %ae = tensor.empty() : tensor<2x32x16xf32>
  %af = linalg.fill ins(%z : f32) outs(%ae : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %a = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%af : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  cf.br ^end(%a : tensor<2x32x16xf32>)
^two:
  %be = tensor.empty() : tensor<2x32x16xf32>
  %bf = linalg.fill ins(%z : f32) outs(%be : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %b = linalg.batch_matmul ins(%y, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%bf : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  cf.br ^end(%b : tensor<2x32x16xf32>)
^end(%v: tensor<2x32x16xf32>):
  %rout = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%rout : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}

// A barrier hands on what it waits for.
// CHECK-LABEL: func.func @waits(
// CHECK: %[[J:.*]]:2 = hal.tensor.barrier join(%{{.*}}, %{{.*}} : tensor<2x16x32xf32>, tensor<2x32x16xf32>) => %{{.*}} : !hal.fence
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{[^,]*}}, %[[J]]#1, %[[J]]#0,
func.func @waits(%q: tensor<2x8x16xf32>, %k: tensor<2x32x16xf32>, %x: tensor<2x32x24xf32>, %w: tensor<2x24x16xf32>, %fence: !hal.fence) -> tensor<2x8x16xf32> {
  %z = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %ae = tensor.empty() : tensor<2x32x16xf32>
  %af = linalg.fill ins(%z : f32) outs(%ae : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %a = linalg.batch_matmul ins(%x, %w : tensor<2x32x24xf32>, tensor<2x24x16xf32>) outs(%af : tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  %v, %kk = hal.tensor.barrier join(%a, %k : tensor<2x32x16xf32>, tensor<2x32x16xf32>) => %fence : !hal.fence
  %out = tensor.empty() : tensor<2x8x16xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %kk, %v, %scale : tensor<2x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32>, f32) outs(%out : tensor<2x8x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x8x16xf32>
  return %r : tensor<2x8x16xf32>
}
