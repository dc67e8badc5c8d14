"""A norm of rows of 16 bits in f32, whose width fills no subgroups: two sums in one kernel."""

from __future__ import annotations

ODD_NORM = """
#whole = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
func.func @main(%x: tensor<?x65xf16>) -> tensor<?x65xf16> {
  %zero = arith.constant 0.0 : f32
  %width = arith.constant 65.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x65xf16>
  %wide_e = tensor.empty(%n) : tensor<?x65xf32>
  %e = tensor.empty(%n) : tensor<?x65xf16>
  %row_e = tensor.empty(%n) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row_e : tensor<?xf32>) -> tensor<?xf32>
  %wide = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x65xf16>) outs(%wide_e : tensor<?x65xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    linalg.yield %w : f32
  } -> tensor<?x65xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]}
      ins(%wide : tensor<?x65xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %centred = linalg.generic {indexing_maps = [#whole, #row, #whole],
      iterator_types = ["parallel", "parallel"]}
      ins(%wide, %sum : tensor<?x65xf32>, tensor<?xf32>) outs(%wide_e : tensor<?x65xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %m = arith.divf %s, %width : f32
    %d = arith.subf %a, %m : f32
    linalg.yield %d : f32
  } -> tensor<?x65xf32>
  %squares = linalg.generic {indexing_maps = [#whole, #row],
      iterator_types = ["parallel", "reduction"]}
      ins(%centred : tensor<?x65xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#whole, #row, #whole],
      iterator_types = ["parallel", "parallel"]}
      ins(%centred, %squares : tensor<?x65xf32>, tensor<?xf32>) outs(%e : tensor<?x65xf16>) {
  ^bb0(%a: f32, %s: f32, %o: f16):
    %v = arith.divf %s, %width : f32
    %f = math.rsqrt %v : f32
    %y = arith.mulf %a, %f : f32
    %h = arith.truncf %y : f32 to f16
    linalg.yield %h : f16
  } -> tensor<?x65xf16>
  return %r : tensor<?x65xf16>
}
"""
