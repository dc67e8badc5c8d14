// Norms, means and softmaxes of 16 bits are summed in f32; what is told its type, or is f32, stays.

// RUN: attn-opt %s --attn-wide-imports --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-5: is summed in f32, as in PyTorch; IREE's import sums in 16 bits
// WHY-COUNT-4: is computed in f32, as in PyTorch; IREE's import rounds its numbers to 16 bits
// WHY: is summed in f32, as in XLA; IREE sums in 16 bits
// WHY: is summed in f32, as in XLA; IREE imports none that names its algorithm
// WHY: is summed in f32, as in XLA; IREE sums in 16 bits
// WHY-NOT: is summed in f32

// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[?,64],f16>, %[[W:[^:]*]]: !torch.vtensor<[64],f16>
// CHECK: %[[WX:.*]] = torch.prims.convert_element_type %[[X]], %{{.*}} -> !torch.vtensor<[?,64],f32>
// CHECK: %[[WW:.*]] = torch.prims.convert_element_type %[[W]], %{{.*}} -> !torch.vtensor<[64],f32>
// CHECK: %[[N:.*]] = torch.aten.layer_norm %[[WX]], %{{.*}}, %[[WW]], %{{.*}} -> !torch.vtensor<[?,64],f32>
// CHECK: %[[F16:.*]] = torch.constant.int 5
// CHECK: %[[R:.*]] = torch.prims.convert_element_type %[[N]], %[[F16]] : {{.*}} -> !torch.vtensor<[?,64],f16>
// CHECK: return %[[R]]
func.func @norm(%x: !torch.vtensor<[?,64],f16>, %w: !torch.vtensor<[64],f16>) -> !torch.vtensor<[?,64],f16> {
  %64 = torch.constant.int 64
  %shape = torch.prim.ListConstruct %64 : (!torch.int) -> !torch.list<int>
  %none = torch.constant.none
  %eps = torch.constant.float 1.0e-5
  %false = torch.constant.bool false
  %r = torch.aten.layer_norm %x, %shape, %w, %none, %eps, %false : !torch.vtensor<[?,64],f16>, !torch.list<int>, !torch.vtensor<[64],f16>, !torch.none, !torch.float, !torch.bool -> !torch.vtensor<[?,64],f16>
  return %r : !torch.vtensor<[?,64],f16>
}

// CHECK-LABEL: func.func @by_index(
// CHECK-COUNT-2: torch.prims.convert_element_type %{{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.aten.scatter_reduce.two {{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.prims.convert_element_type %{{.*}} -> !torch.vtensor<[8],bf16>
// CHECK: torch.aten.scatter_reduce.two {{.*}} -> !torch.vtensor<[8],bf16>
func.func @by_index(%x: !torch.vtensor<[8],bf16>, %at: !torch.vtensor<[8],si64>) -> !torch.vtensor<[8],bf16> {
  %0 = torch.constant.int 0
  %true = torch.constant.bool true
  %mean = torch.constant.str "mean"
  %most = torch.constant.str "amax"
  %r = torch.aten.scatter_reduce.two %x, %0, %at, %x, %mean, %true : !torch.vtensor<[8],bf16>, !torch.int, !torch.vtensor<[8],si64>, !torch.vtensor<[8],bf16>, !torch.str, !torch.bool -> !torch.vtensor<[8],bf16>
  %s = torch.aten.scatter_reduce.two %r, %0, %at, %x, %most, %true : !torch.vtensor<[8],bf16>, !torch.int, !torch.vtensor<[8],si64>, !torch.vtensor<[8],bf16>, !torch.str, !torch.bool -> !torch.vtensor<[8],bf16>
  return %s : !torch.vtensor<[8],bf16>
}

// CHECK-LABEL: func.func @several(
// CHECK: torch.aten.var_mean.dim {{.*}} -> !torch.vtensor<[8],f32>, !torch.vtensor<[8],f32>
// CHECK-COUNT-2: torch.constant.int 15
func.func @several(%x: !torch.vtensor<[8,64],bf16>) -> (!torch.vtensor<[8],bf16>, !torch.vtensor<[8],bf16>) {
  %1 = torch.constant.int 1
  %dims = torch.prim.ListConstruct %1 : (!torch.int) -> !torch.list<int>
  %false = torch.constant.bool false
  %v, %m = torch.aten.var_mean.dim %x, %dims, %false, %false : !torch.vtensor<[8,64],bf16>, !torch.list<int>, !torch.bool, !torch.bool -> !torch.vtensor<[8],bf16>, !torch.vtensor<[8],bf16>
  return %v, %m : !torch.vtensor<[8],bf16>, !torch.vtensor<[8],bf16>
}

// What 16 bits hold stays: halves, a bound, and bf16's -1e9 is another number than f32's.
// CHECK-LABEL: func.func @numbers(
// CHECK: torch.aten.mul.Scalar {{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.aten.mul.Scalar {{.*}} -> !torch.vtensor<[8],f16>
// CHECK: torch.aten.add.Tensor {{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.aten.mul.Scalar {{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.aten.hardswish {{.*}} -> !torch.vtensor<[8],f32>
// CHECK: torch.aten.clamp {{.*}} -> !torch.vtensor<[8],f16>
func.func @numbers(%x: !torch.vtensor<[8],f16>, %y: !torch.vtensor<[8],bf16>) -> (!torch.vtensor<[8],f16>, !torch.vtensor<[8],f16>, !torch.vtensor<[8],f16>, !torch.vtensor<[8],bf16>, !torch.vtensor<[8],bf16>, !torch.vtensor<[8],f16>) {
  %tenth = torch.constant.float 1.0e-1
  %half = torch.constant.float 0.5
  %low = torch.constant.float -1.0e9
  %a = torch.aten.mul.Scalar %x, %tenth : !torch.vtensor<[8],f16>, !torch.float -> !torch.vtensor<[8],f16>
  %b = torch.aten.mul.Scalar %x, %half : !torch.vtensor<[8],f16>, !torch.float -> !torch.vtensor<[8],f16>
  %c = torch.aten.add.Tensor %a, %b, %tenth : !torch.vtensor<[8],f16>, !torch.vtensor<[8],f16>, !torch.float -> !torch.vtensor<[8],f16>
  %d = torch.aten.mul.Scalar %y, %low : !torch.vtensor<[8],bf16>, !torch.float -> !torch.vtensor<[8],bf16>
  %e = torch.aten.hardswish %y : !torch.vtensor<[8],bf16> -> !torch.vtensor<[8],bf16>
  %none = torch.constant.none
  %f = torch.aten.clamp %x, %none, %tenth : !torch.vtensor<[8],f16>, !torch.none, !torch.float -> !torch.vtensor<[8],f16>
  return %a, %b, %c, %d, %e, %f : !torch.vtensor<[8],f16>, !torch.vtensor<[8],f16>, !torch.vtensor<[8],f16>, !torch.vtensor<[8],bf16>, !torch.vtensor<[8],bf16>, !torch.vtensor<[8],f16>
}

// CHECK-LABEL: func.func @softmaxes(
// CHECK: torch.aten.softmax.int {{.*}} -> !torch.vtensor<[8,64],f32>
// CHECK: torch.aten.softmax.int %{{.*}} : !torch.vtensor<[8,64],f16>, !torch.int, !torch.int -> !torch.vtensor<[8,64],f32>
// CHECK: torch.aten.softmax.int %{{.*}} : !torch.vtensor<[8,64],f32>, !torch.int, !torch.none -> !torch.vtensor<[8,64],f32>
// CHECK-NOT: torch.aten.softmax
func.func @softmaxes(%x: !torch.vtensor<[8,64],f16>, %y: !torch.vtensor<[8,64],f32>) -> (!torch.vtensor<[8,64],f16>, !torch.vtensor<[8,64],f32>, !torch.vtensor<[8,64],f32>) {
  %1 = torch.constant.int 1
  %6 = torch.constant.int 6
  %none = torch.constant.none
  %a = torch.aten.softmax.int %x, %1, %none : !torch.vtensor<[8,64],f16>, !torch.int, !torch.none -> !torch.vtensor<[8,64],f16>
  %b = torch.aten.softmax.int %x, %1, %6 : !torch.vtensor<[8,64],f16>, !torch.int, !torch.int -> !torch.vtensor<[8,64],f32>
  %c = torch.aten.softmax.int %y, %1, %none : !torch.vtensor<[8,64],f32>, !torch.int, !torch.none -> !torch.vtensor<[8,64],f32>
  return %a, %b, %c : !torch.vtensor<[8,64],f16>, !torch.vtensor<[8,64],f32>, !torch.vtensor<[8,64],f32>
}

// CHECK-LABEL: func.func @onnx(
// CHECK: %[[M:.*]] = torch.operator "onnx.ReduceMean"({{.*}}) {torch.onnx.axes = [-1 : si64], torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[8,64],f32>) -> !torch.vtensor<[8,1],f32>
// CHECK: %[[R:.*]] = torch.prims.convert_element_type %[[M]]
// CHECK: %[[MAX:.*]] = torch.operator "onnx.ReduceMax"(%arg0) {{.*}} : (!torch.vtensor<[8,64],f16>) -> !torch.vtensor<[8,1],f16>
// CHECK: return %[[R]], %[[MAX]]
func.func @onnx(%x: !torch.vtensor<[8,64],f16>) -> (!torch.vtensor<[8,1],f16>, !torch.vtensor<[8,1],f16>) {
  %a = torch.operator "onnx.ReduceMean"(%x) {torch.onnx.axes = [-1 : si64], torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[8,64],f16>) -> !torch.vtensor<[8,1],f16>
  %b = torch.operator "onnx.ReduceMax"(%x) {torch.onnx.axes = [-1 : si64], torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[8,64],f16>) -> !torch.vtensor<[8,1],f16>
  return %a, %b : !torch.vtensor<[8,1],f16>, !torch.vtensor<[8,1],f16>
}

// Products of JAX, some of which say how they are to be computed.
// CHECK-LABEL: func.func @products(
// CHECK: %[[P:.*]] = stablehlo.dot_general %arg0, %arg1,
// CHECK-NOT: algorithm
// CHECK-SAME: -> tensor<8x8xf32>
// CHECK: %[[C:.*]] = stablehlo.convert %[[P]] : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK: %[[F:.*]] = stablehlo.dot_general %arg0, %arg1,
// CHECK-NOT: algorithm
// CHECK-SAME: -> tensor<8x8xf32>
// CHECK: %[[I:.*]] = stablehlo.convolution(%arg2, %arg3)
// CHECK-SAME: -> tensor<1x6x6x4xf32>
// CHECK: %[[IC:.*]] = stablehlo.convert %[[I]] : (tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf16>
// CHECK: return %[[C]], %[[F]], %[[IC]]
func.func @products(%a: tensor<8x64xbf16>, %b: tensor<64x8xbf16>, %x: tensor<1x8x8x2xf16>, %w: tensor<3x3x2x4xf16>) -> (tensor<8x8xbf16>, tensor<8x8xf32>, tensor<1x6x6x4xf16>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xbf16>, tensor<64x8xbf16>) -> tensor<8x8xbf16>
  %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<8x64xbf16>, tensor<64x8xbf16>) -> tensor<8x8xf32>
  %2 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x2xf16>, tensor<3x3x2x4xf16>) -> tensor<1x6x6x4xf16>
  return %0, %1, %2 : tensor<8x8xbf16>, tensor<8x8xf32>, tensor<1x6x6x4xf16>
}
