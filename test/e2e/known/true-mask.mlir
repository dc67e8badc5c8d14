// A mask that is true everywhere, as transformers writes every encoder with a dynamic batch.
module @module {
  func.func @main(%arg0: !torch.vtensor<[?,4,20,8],f32>, %arg1: !torch.vtensor<[?,4,20,8],f32>, %arg2: !torch.vtensor<[?,4,20,8],f32>) -> !torch.vtensor<[?,4,20,8],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %int0 = torch.constant.int 0
    %0 = torch.aten.size.int %arg0, %int0 : !torch.vtensor<[?,4,20,8],f32>, !torch.int -> !torch.int
    %int20 = torch.constant.int 20
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %cpu = torch.constant.device "cpu"
    %false = torch.constant.bool false
    %1 = torch.aten.arange %int20, %none, %none_0, %cpu, %false : !torch.int, !torch.none, !torch.none, !torch.Device, !torch.bool -> !torch.vtensor<[20],si64>
    %int0_1 = torch.constant.int 0
    %2 = torch.aten.unsqueeze %1, %int0_1 : !torch.vtensor<[20],si64>, !torch.int -> !torch.vtensor<[1,20],si64>
    %int1 = torch.constant.int 1
    %3 = torch.aten.unsqueeze %2, %int1 : !torch.vtensor<[1,20],si64>, !torch.int -> !torch.vtensor<[1,1,20],si64>
    %int3 = torch.constant.int 3
    %4 = torch.aten.unsqueeze %3, %int3 : !torch.vtensor<[1,1,20],si64>, !torch.int -> !torch.vtensor<[1,1,20,1],si64>
    %int0_2 = torch.constant.int 0
    %5 = torch.aten.ge.Scalar %4, %int0_2 : !torch.vtensor<[1,1,20,1],si64>, !torch.int -> !torch.vtensor<[1,1,20,1],i1>
    %int1_3 = torch.constant.int 1
    %int20_4 = torch.constant.int 20
    %int20_5 = torch.constant.int 20
    %6 = torch.prim.ListConstruct %0, %int1_3, %int20_4, %int20_5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %false_6 = torch.constant.bool false
    %7 = torch.aten.expand %5, %6, %false_6 : !torch.vtensor<[1,1,20,1],i1>, !torch.list<int>, !torch.bool -> !torch.vtensor<[?,1,20,20],i1>
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_7 = torch.constant.bool false
    %none_8 = torch.constant.none
    %false_9 = torch.constant.bool false
    %8 = torch.aten.scaled_dot_product_attention %arg2, %arg2, %arg2, %7, %float0.000000e00, %false_7, %none_8, %false_9 : !torch.vtensor<[?,4,20,8],f32>, !torch.vtensor<[?,4,20,8],f32>, !torch.vtensor<[?,4,20,8],f32>, !torch.vtensor<[?,1,20,20],i1>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[?,4,20,8],f32>
    return %8 : !torch.vtensor<[?,4,20,8],f32>
  }
}
