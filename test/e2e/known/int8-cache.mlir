// Decode over an 8-bit cache that is dequantised before attention.
module @module {
  func.func @main(%arg0: !torch.vtensor<[2,4,1,8],f32>, %arg1: !torch.vtensor<[2,4,24,8],si8>, %arg2: !torch.vtensor<[2,4,24,1],f32>, %arg3: !torch.vtensor<[2,4,24,8],si8>, %arg4: !torch.vtensor<[2,4,24,1],f32>) -> !torch.vtensor<[2,4,1,8],f32> attributes {torch.assume_strict_symbolic_shapes} {
    %none = torch.constant.none
    %none_0 = torch.constant.none
    %int1 = torch.constant.int 1
    %cpu = torch.constant.device "cpu"
    %int0 = torch.constant.int 0
    torch.aten._assert_tensor_metadata %arg3, %none, %none_0, %int1, %cpu, %int0 : !torch.vtensor<[2,4,24,8],si8>, !torch.none, !torch.none, !torch.int, !torch.Device, !torch.int
    %int6 = torch.constant.int 6
    %false = torch.constant.bool false
    %false_1 = torch.constant.bool false
    %none_2 = torch.constant.none
    %0 = torch.aten.to.dtype %arg3, %int6, %false, %false_1, %none_2 : !torch.vtensor<[2,4,24,8],si8>, !torch.int, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[2,4,24,8],f32>
    %1 = torch.aten.mul.Tensor %0, %arg4 : !torch.vtensor<[2,4,24,8],f32>, !torch.vtensor<[2,4,24,1],f32> -> !torch.vtensor<[2,4,24,8],f32>
    %none_3 = torch.constant.none
    %none_4 = torch.constant.none
    %int1_5 = torch.constant.int 1
    %cpu_6 = torch.constant.device "cpu"
    %int0_7 = torch.constant.int 0
    torch.aten._assert_tensor_metadata %arg3, %none_3, %none_4, %int1_5, %cpu_6, %int0_7 : !torch.vtensor<[2,4,24,8],si8>, !torch.none, !torch.none, !torch.int, !torch.Device, !torch.int
    %int6_8 = torch.constant.int 6
    %false_9 = torch.constant.bool false
    %false_10 = torch.constant.bool false
    %none_11 = torch.constant.none
    %2 = torch.aten.to.dtype %arg3, %int6_8, %false_9, %false_10, %none_11 : !torch.vtensor<[2,4,24,8],si8>, !torch.int, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[2,4,24,8],f32>
    %3 = torch.aten.mul.Tensor %2, %arg4 : !torch.vtensor<[2,4,24,8],f32>, !torch.vtensor<[2,4,24,1],f32> -> !torch.vtensor<[2,4,24,8],f32>
    %none_12 = torch.constant.none
    %float0.000000e00 = torch.constant.float 0.000000e+00
    %false_13 = torch.constant.bool false
    %none_14 = torch.constant.none
    %false_15 = torch.constant.bool false
    %4 = torch.aten.scaled_dot_product_attention %arg0, %1, %3, %none_12, %float0.000000e00, %false_13, %none_14, %false_15 : !torch.vtensor<[2,4,1,8],f32>, !torch.vtensor<[2,4,24,8],f32>, !torch.vtensor<[2,4,24,8],f32>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,1,8],f32>
    return %4 : !torch.vtensor<[2,4,1,8],f32>
  }
}
