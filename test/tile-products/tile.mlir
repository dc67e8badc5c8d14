// On NVIDIA GPUs an unknown number of rows of a product of floats, or one that fills no tile, becomes
// whole tiles, with the elementwise ops behind it that read nothing else with rows. Few rows or
// whole tiles of them, odd depths in 16 bits, sums that go on, products of 16 bits without attention and other targets
// stay; so do an odd, known number of columns, except beside an unknown one of rows.

// RUN: attn-opt %s --attn-tile-products=target=sm_80 --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-tile-products=target=gfx942 > %t.0 && attn-opt %s --attn-tile-products=target=llvm-cpu > %t.1 && attn-opt %s > %t.2 && diff %t.0 %t.2 && diff %t.1 %t.2
// RUN: attn-opt %s "--attn-use-kernels=target=sm_90 mode=always" --attn-tile-products=target=sm_90 | FileCheck %s --check-prefix=KERNEL
// RUN: sed -e "/func.func @attend/,/^}/d" %s > %t.mlir
// RUN: attn-opt %t.mlir --attn-tile-products=target=sm_80 | FileCheck %s --check-prefix=PLAIN

// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: its 1576 rows are viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY: contraction at {{.*}}: the unknown number of its rows is viewed as tiles of 128
// WHY-NOT: contraction

// A kernel in attention's place is attention, too.
// KERNEL-LABEL: func.func @layer
// KERNEL: linalg.contract
// KERNEL-LABEL: func.func @attend
// KERNEL: hal.dispatch.extern

#all = affine_map<(b, s, n) -> (b, s, n)>
#columns = affine_map<(b, s, n) -> (n)>

// CHECK-DAG: #[[X:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[W:.+]] = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// CHECK-DAG: #[[P:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[WT:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d1)>
// CHECK-DAG: #[[XT:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d3, d4)>
// CHECK-DAG: #[[VT:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>

// The weight is read in front of its repeat, without the batch of one.
// CHECK-LABEL: func.func @layer
// CHECK: %[[COUNT:.+]] = arith.ceildivui %{{.+}}, %c128
// CHECK: %[[ROWS:.+]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]]
// CHECK: tensor.insert_slice %[[ROWS]] into %{{.+}}[0, 0] [%{{.+}}, 256] [1, 1]
// CHECK: tensor.expand_shape %{{.+}} output_shape [%[[COUNT]], 128, 256]
// CHECK: linalg.contract indexing_maps = [#[[X]], #[[W]], #[[P]]] ins(%{{.+}}, %arg1 : tensor<?x128x256xf16>, tensor<256x512xf16>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: arith.truncf
// CHECK: } -> tensor<?x128x512xf16>
// CHECK: arith.addf
// CHECK: } -> tensor<?x128x512xf16>
// CHECK: %[[CUT:.+]] = tensor.extract_slice %{{.+}}[0, 0] [%{{.+}}, 512] [1, 1]
// CHECK: %[[RESULT:.+]] = tensor.expand_shape %[[CUT]] {{.*}} into tensor<1x?x512xf16>
// What has rows of its own is behind the cut.
// CHECK: linalg.generic {{.*}} ins(%[[RESULT]], %arg3 :
func.func @layer(%x: tensor<1x?x256xf16>, %w: tensor<256x512xf16>, %bias: tensor<512xf16>, %rest: tensor<1x?x512xf16>) -> tensor<1x?x512xf16> {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c1 : tensor<1x?x256xf16>
  %we = tensor.empty() : tensor<1x256x512xf16>
  %repeated = linalg.generic {indexing_maps = [affine_map<(b, k, n) -> (k, n)>, affine_map<(b, k, n) -> (b, k, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<256x512xf16>) outs(%we : tensor<1x256x512xf16>) {
  ^bb0(%a: f16, %o: f16):
    linalg.yield %a : f16
  } -> tensor<1x256x512xf16>
  %pe = tensor.empty(%rows) : tensor<1x?x512xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x?x512xf32>) -> tensor<1x?x512xf32>
  %p = linalg.batch_matmul ins(%x, %repeated : tensor<1x?x256xf16>, tensor<1x256x512xf16>) outs(%pz : tensor<1x?x512xf32>) -> tensor<1x?x512xf32>
  %e = tensor.empty(%rows) : tensor<1x?x512xf16>
  %h = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<1x?x512xf32>) outs(%e : tensor<1x?x512xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<1x?x512xf16>
  %g = linalg.generic {indexing_maps = [#all, #columns, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %bias : tensor<1x?x512xf16>, tensor<512xf16>) outs(%e : tensor<1x?x512xf16>) {
  ^bb0(%a: f16, %c: f16, %o: f16):
    %t = arith.addf %a, %c : f16
    linalg.yield %t : f16
  } -> tensor<1x?x512xf16>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %rest : tensor<1x?x512xf16>, tensor<1x?x512xf16>) outs(%e : tensor<1x?x512xf16>) {
  ^bb0(%a: f16, %c: f16, %o: f16):
    %t = arith.addf %a, %c : f16
    linalg.yield %t : f16
  } -> tensor<1x?x512xf16>
  return %r : tensor<1x?x512xf16>
}

// As V^T is written: the rows are the second factor's.
// CHECK-LABEL: func.func @transposed
// CHECK: linalg.contract indexing_maps = [#[[WT]], #[[XT]], #[[VT]]] ins(%arg1, %{{.+}} : tensor<256x512xf16>, tensor<3x?x128x256xf16>)
// CHECK: tensor.extract_slice %{{.+}}[0, 0, 0] [3, 512, %{{.+}}] [1, 1, 1]
func.func @transposed(%x: tensor<3x?x256xf16>, %w: tensor<256x512xf16>) -> tensor<3x512x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c1 : tensor<3x?x256xf16>
  %pe = tensor.empty(%rows) : tensor<3x512x?xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<3x512x?xf32>) -> tensor<3x512x?xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, i, j, k) -> (k, i)>, affine_map<(b, i, j, k) -> (b, j, k)>, affine_map<(b, i, j, k) -> (b, i, j)>] ins(%w, %x : tensor<256x512xf16>, tensor<3x?x256xf16>) outs(%pz : tensor<3x512x?xf32>) -> tensor<3x512x?xf32>
  return %p : tensor<3x512x?xf32>
}

// IREE is right where the second factor has the last dim: they change places.
// CHECK-LABEL: func.func @order
// CHECK: linalg.contract {{.*}} ins(%arg1, %{{.+}} : tensor<512x256xbf16>, tensor<?x128x256xbf16>)
func.func @order(%x: tensor<?x256xbf16>, %w: tensor<512x256xbf16>) -> tensor<512x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x256xbf16>
  %pe = tensor.empty(%rows) : tensor<512x?xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<512x?xf32>) -> tensor<512x?xf32>
  %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<?x256xbf16>, tensor<512x256xbf16>) outs(%pz : tensor<512x?xf32>) -> tensor<512x?xf32>
  return %p : tensor<512x?xf32>
}

// torch's sizes are i64.
// CHECK-LABEL: func.func @sizes
// CHECK: arith.ceildivui %arg1, %c128
// CHECK: linalg.contract
func.func @sizes(%flat: tensor<?xf16>, %rows: index, %w: tensor<256x512xf16>) -> tensor<?x512xf32> {
  %zero = arith.constant 0.0 : f32
  %depth = arith.constant 256 : i64
  %number = arith.index_cast %rows : index to i64
  %shape = tensor.from_elements %number, %depth : tensor<2xi64>
  %x = tensor.reshape %flat(%shape) : (tensor<?xf16>, tensor<2xi64>) -> tensor<?x256xf16>
  %e = tensor.empty(%rows) : tensor<?x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x512xf32>) -> tensor<?x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x256xf16>, tensor<256x512xf16>) outs(%z : tensor<?x512xf32>) -> tensor<?x512xf32>
  return %p : tensor<?x512xf32>
}

// Sequences whose rows lie one behind the other are filled up once, known or not.
// CHECK-LABEL: func.func @sequences
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %arg1 : tensor<13x128x256xf16>, tensor<256x512xf16>)
// CHECK: tensor.extract_slice {{.*}} : tensor<1664x512xf32> to tensor<1576x512xf32>
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %arg1 : tensor<?x128x256xf16>, tensor<256x512xf16>)
func.func @sequences(%x: tensor<8x197x256xf16>, %w: tensor<256x512xf16>, %y: tensor<?x?x256xf16>) -> (tensor<8x197x512xf32>, tensor<?x?x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<8x197x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x197x512xf32>) -> tensor<8x197x512xf32>
  %p = linalg.contract indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>, affine_map<(b, s, n, k) -> (k, n)>, affine_map<(b, s, n, k) -> (b, s, n)>] ins(%x, %w : tensor<8x197x256xf16>, tensor<256x512xf16>) outs(%z : tensor<8x197x512xf32>) -> tensor<8x197x512xf32>
  %count = tensor.dim %y, %c0 : tensor<?x?x256xf16>
  %rows = tensor.dim %y, %c1 : tensor<?x?x256xf16>
  %ye = tensor.empty(%count, %rows) : tensor<?x?x512xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<?x?x512xf32>) -> tensor<?x?x512xf32>
  %yp = linalg.contract indexing_maps = [affine_map<(b, s, n, k) -> (b, s, k)>, affine_map<(b, s, n, k) -> (k, n)>, affine_map<(b, s, n, k) -> (b, s, n)>] ins(%y, %w : tensor<?x?x256xf16>, tensor<256x512xf16>) outs(%yz : tensor<?x?x512xf32>) -> tensor<?x?x512xf32>
  return %p, %yp : tensor<8x197x512xf32>, tensor<?x?x512xf32>
}

// The columns, of the bias, too, are filled up beside rows of an unknown number.
// CHECK-LABEL: func.func @vocabulary
// CHECK: tensor.insert_slice %arg1 into %{{.+}}[0, 0] [256, 500] [1, 1] : tensor<256x500xf16> into tensor<256x512xf16>
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : tensor<?x128x256xf16>, tensor<256x512xf16>)
// CHECK: tensor.insert_slice %arg2 into %{{.+}}[0] [500] [1] : tensor<500xf32> into tensor<512xf32>
// CHECK: arith.addf
// CHECK: tensor.extract_slice %{{.+}}[0, 0] [%{{.+}}, 500] [1, 1] : tensor<?x512xf32> to tensor<?x500xf32>
func.func @vocabulary(%x: tensor<?x256xf16>, %w: tensor<256x500xf16>, %bias: tensor<500xf32>) -> tensor<?x500xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x256xf16>
  %e = tensor.empty(%rows) : tensor<?x500xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x500xf32>) -> tensor<?x500xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x256xf16>, tensor<256x500xf16>) outs(%z : tensor<?x500xf32>) -> tensor<?x500xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<?x500xf32>, tensor<500xf32>) outs(%e : tensor<?x500xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<?x500xf32>
  return %r : tensor<?x500xf32>
}

// PLAIN-NOT: x128x
// PLAIN-LABEL: func.func @wide
// PLAIN: linalg.contract {{.*}} outs({{.*}} : tensor<?x128x512xf32>)
// PLAIN-NOT: x128x{{.*}}f16
// CHECK-LABEL: func.func @wide
// CHECK: linalg.contract {{.*}} : tensor<?x128x256xf32>, tensor<256x512xf32>
func.func @wide(%x: tensor<?x256xf32>, %w: tensor<256x512xf32>) -> tensor<?x512xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x256xf32>
  %e = tensor.empty(%rows) : tensor<?x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x512xf32>) -> tensor<?x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x256xf32>, tensor<256x512xf32>) outs(%z : tensor<?x512xf32>) -> tensor<?x512xf32>
  return %p : tensor<?x512xf32>
}

// An odd depth in f32: zeros behind both factors, 4 at a time or in larger steps. 15 stay.
// CHECK-LABEL: func.func @odd_depths
// CHECK: linalg.contract {{.*}} : tensor<96x160xf32>, tensor<160x512xf32>
// CHECK: linalg.matmul {{.*}} : tensor<96x15xf32>, tensor<15x512xf32>
func.func @odd_depths(%x: tensor<96x157xf32>, %w: tensor<157x512xf32>, %y: tensor<96x15xf32>, %v: tensor<15x512xf32>) -> (tensor<96x512xf32>, tensor<96x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<96x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<96x512xf32>) -> tensor<96x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<96x157xf32>, tensor<157x512xf32>) outs(%z : tensor<96x512xf32>) -> tensor<96x512xf32>
  %r = linalg.matmul ins(%y, %v : tensor<96x15xf32>, tensor<15x512xf32>) outs(%z : tensor<96x512xf32>) -> tensor<96x512xf32>
  return %p, %r : tensor<96x512xf32>, tensor<96x512xf32>
}

// CHECK-LABEL: func.func @left
// CHECK-NOT: linalg.contract
func.func @left(%known: tensor<77x256xf16>, %whole: tensor<192x256xf16>, %deep: tensor<?x250xf16>, %x: tensor<?x256xf16>, %w: tensor<256x512xf16>, %wd: tensor<250x512xf16>, %wc: tensor<256x500xf16>, %sum: tensor<?x512xf32>) -> (tensor<77x512xf32>, tensor<192x512xf32>, tensor<?x512xf32>, tensor<192x500xf32>, tensor<?x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x256xf16>
  %ke = tensor.empty() : tensor<77x512xf32>
  %kz = linalg.fill ins(%zero : f32) outs(%ke : tensor<77x512xf32>) -> tensor<77x512xf32>
  %e = tensor.empty(%rows) : tensor<?x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x512xf32>) -> tensor<?x512xf32>
  %ce = tensor.empty() : tensor<192x500xf32>
  %cz = linalg.fill ins(%zero : f32) outs(%ce : tensor<192x500xf32>) -> tensor<192x500xf32>
  %0 = linalg.matmul ins(%known, %w : tensor<77x256xf16>, tensor<256x512xf16>) outs(%kz : tensor<77x512xf32>) -> tensor<77x512xf32>
  %2 = linalg.matmul ins(%deep, %wd : tensor<?x250xf16>, tensor<250x512xf16>) outs(%z : tensor<?x512xf32>) -> tensor<?x512xf32>
  %3 = linalg.matmul ins(%whole, %wc : tensor<192x256xf16>, tensor<256x500xf16>) outs(%cz : tensor<192x500xf32>) -> tensor<192x500xf32>
  %4 = linalg.matmul ins(%x, %w : tensor<?x256xf16>, tensor<256x512xf16>) outs(%sum : tensor<?x512xf32>) -> tensor<?x512xf32>
  %we = tensor.empty() : tensor<192x512xf32>
  %wz = linalg.fill ins(%zero : f32) outs(%we : tensor<192x512xf32>) -> tensor<192x512xf32>
  %5 = linalg.matmul ins(%whole, %w : tensor<192x256xf16>, tensor<256x512xf16>) outs(%wz : tensor<192x512xf32>) -> tensor<192x512xf32>
  return %0, %5, %2, %3, %4 : tensor<77x512xf32>, tensor<192x512xf32>, tensor<?x512xf32>, tensor<192x500xf32>, tensor<?x512xf32>
}

func.func @attend(%q: tensor<2x64x64xf16>) -> tensor<2x64x64xf16> {
  %scale = arith.constant 0.25 : f32
  %out = tensor.empty() : tensor<2x64x64xf16>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]>
      ins(%q, %q, %q, %scale : tensor<2x64x64xf16>, tensor<2x64x64xf16>, tensor<2x64x64xf16>, f32) outs(%out : tensor<2x64x64xf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x64x64xf16>
  return %r : tensor<2x64x64xf16>
}
