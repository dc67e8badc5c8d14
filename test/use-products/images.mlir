// RUN: attn-opt %s -p "attn-conv-products,attn-use-products{target=sm_90 mode=always}" --split-input-file --remarks > %t.mlir 2> %t.txt
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt

// Convolutions whose kernel reads patches where their images lie: channels last, without a padded copy.

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
// CHECK-LABEL: func.func @padded(
// CHECK: %[[IMAGE:.*]] = linalg.transpose ins(%arg0 : tensor<2x64x28x28xf16>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: hal.dispatch.extern "product_f16_imaged_tiles"[{{.*}}]({{.*}}, %[[IMAGE]], %{{[a-z_0-9]+}}) : {{.*}}tensor<2x28x28x64xf16>, tensor<128x576xf16>) -> (tensor<1568x128xf16>,
// REMARK: product at {{.*}} is a precompiled kernel now: product_f16_imaged_tiles: about {{[0-9]+}} us instead of {{[0-9]+}}, reads patches where their images lie
module attributes {hal.device.targets = [#cuda]} {
func.func @padded(%image: tensor<2x64x28x28xf16>, %w: tensor<128x64x3x3xf16>, %s: tensor<2x128x28x28xf32>, %h: tensor<2x128x28x28xf16>) -> tensor<2x128x28x28xf16> {
  %side = arith.constant 0.0 : f16
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %side : f16
  } : tensor<2x64x28x28xf16> to tensor<2x64x30x30xf16>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<2x128x28x28xf32>) -> tensor<2x128x28x28xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%p, %w : tensor<2x64x30x30xf16>, tensor<128x64x3x3xf16>) outs(%f : tensor<2x128x28x28xf32>) -> tensor<2x128x28x28xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<2x128x28x28xf32>) outs(%h : tensor<2x128x28x28xf16>) {
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x128x28x28xf16>
  return %n : tensor<2x128x28x28xf16>
}
}

// -----

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
// Of an unknown number of images, whose tile is chosen when it runs.
// CHECK-LABEL: func.func @unknown(
// CHECK: arith.select
// CHECK: hal.dispatch.extern "product_f16_imaged_tiles"[{{.*}} tensor<?x28x28x64xf16>{%{{.*}}}, tensor<128x576xf16>) -> (tensor<?x128xf16>
// REMARK: product_f16_imaged_tiles: {{.*}} their number is known only at run time
module attributes {hal.device.targets = [#cuda]} {
func.func @unknown(%image: tensor<?x64x28x28xf16>, %w: tensor<128x64x3x3xf16>, %s: tensor<?x128x14x14xf32>, %h: tensor<?x128x14x14xf16>) -> tensor<?x128x14x14xf16> {
  %side = arith.constant 0.0 : f16
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %image low[0, 0, 2, 2] high[0, 0, 2, 2] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %side : f16
  } : tensor<?x64x28x28xf16> to tensor<?x64x32x32xf16>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<?x128x14x14xf32>) -> tensor<?x128x14x14xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<2> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%p, %w : tensor<?x64x32x32xf16>, tensor<128x64x3x3xf16>) outs(%f : tensor<?x128x14x14xf32>) -> tensor<?x128x14x14xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<?x128x14x14xf32>) outs(%h : tensor<?x128x14x14xf16>) {
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x128x14x14xf16>
  return %n : tensor<?x128x14x14xf16>
}
}

// -----

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
// Sides that are no zeros are read.
// CHECK-LABEL: func.func @ones(
// CHECK: %[[PAD:.*]] = tensor.pad {{.*}}
// CHECK: hal.dispatch.extern "product_f16_imaged_tiles"[{{.*}} tensor<2x30x30x64xf16>, tensor<128x576xf16>)
// REMARK: product_f16_imaged_tiles: {{.*}} reads patches where their images lie
module attributes {hal.device.targets = [#cuda]} {
func.func @ones(%image: tensor<2x64x28x28xf16>, %w: tensor<128x64x3x3xf16>, %s: tensor<2x128x28x28xf32>, %h: tensor<2x128x28x28xf16>) -> tensor<2x128x28x28xf16> {
  %side = arith.constant 1.0 : f16
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %side : f16
  } : tensor<2x64x28x28xf16> to tensor<2x64x30x30xf16>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<2x128x28x28xf32>) -> tensor<2x128x28x28xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%p, %w : tensor<2x64x30x30xf16>, tensor<128x64x3x3xf16>) outs(%f : tensor<2x128x28x28xf32>) -> tensor<2x128x28x28xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<2x128x28x28xf32>) outs(%h : tensor<2x128x28x28xf16>) {
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x128x28x28xf16>
  return %n : tensor<2x128x28x28xf16>
}
}

// -----

#cuda = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
#same = affine_map<(b, c, y, x) -> (b, c, y, x)>
// The memory engine reads no pixels of four channels.
// CHECK-LABEL: func.func @few_channels(
// CHECK: tensor.extract
// CHECK: hal.dispatch.extern "product_f16_{{[a-hj-z]}}
// REMARK-NOT: reads patches
module attributes {hal.device.targets = [#cuda]} {
func.func @few_channels(%image: tensor<2x4x28x28xf16>, %w: tensor<128x4x2x2xf16>, %s: tensor<2x128x27x27xf32>, %h: tensor<2x128x27x27xf16>) -> tensor<2x128x27x27xf16> {
  %side = arith.constant 0.0 : f16
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %image low[0, 0, 0, 0] high[0, 0, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %side : f16
  } : tensor<2x4x28x28xf16> to tensor<2x4x28x28xf16>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<2x128x27x27xf32>) -> tensor<2x128x27x27xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%p, %w : tensor<2x4x28x28xf16>, tensor<128x4x2x2xf16>) outs(%f : tensor<2x128x27x27xf32>) -> tensor<2x128x27x27xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<2x128x27x27xf32>) outs(%h : tensor<2x128x27x27xf16>) {
  ^bb0(%a: f32, %b: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x128x27x27xf16>
  return %n : tensor<2x128x27x27xf16>
}
}
