// Keys of padding, hidden by a select.
module @module {
  func.func @main(%arg0: !torch.vtensor<[2,4,12,8],f32>, %arg1: !torch.vtensor<[2,4,9,8],f32>, %arg2: !torch.vtensor<[2,4,9,8],f32>, %arg3: !torch.vtensor<[2,9],i1>) -> !torch.vtensor<[2,4,12,8],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %int2 = torch.constant.int 2
    %int9 = torch.constant.int 9
    %0 = torch.prim.ListConstruct %int2, %int9 : (!torch.int, !torch.int) -> !torch.list<int>
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.zeros %0, %none, %none_0, %cpu, %false : !torch.list<int>, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[2,9],f32>
    %float-Inf = torch.constant.float 0xFFF0000000000000
    %2 = torch.aten.masked_fill.Scalar %1, %arg3, %float-Inf : !torch.vtensor<[2,9],f32>, !torch.vtensor<[2,9],i1>, !torch.float -> !torch.vtensor<[2,9],f32>
    %int1 = torch.constant.int 1
    %3 = torch.aten.unsqueeze %2, %int1 : !torch.vtensor<[2,9],f32>, !torch.int -> !torch.vtensor<[2,1,9],f32>
    %int2_1 = torch.constant.int 2
    %4 = torch.aten.unsqueeze %3, %int2_1 : !torch.vtensor<[2,1,9],f32>, !torch.int -> !torch.vtensor<[2,1,1,9],f32>
    %int2_2 = torch.constant.int 2
    %int4 = torch.constant.int 4
    %int1_3 = torch.constant.int 1
    %int9_4 = torch.constant.int 9
    %5 = torch.prim.ListConstruct %int2_2, %int4, %int1_3, %int9_4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_5 = torch.constant.bool false
    %6 = torch.aten.expand %4, %5, %false_5 : !torch.vtensor<[2,1,1,9],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,4,1,9],f32>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_6 = torch.constant.bool false
    %none_7 = torch.constant.none
    %false_8 = torch.constant.bool false
    %7 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %6, %float0.000000e00, %false_6, %none_7, %false_8 : !torch.vtensor<[2,4,12,8],f32>, !torch.vtensor<[2,4,9,8],f32>, !torch.vtensor<[2,4,9,8],f32>, !torch.vtensor<[2,4,1,9],f32>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,12,8],f32>
    return %7 : !torch.vtensor<[2,4,12,8],f32>
  }
}
