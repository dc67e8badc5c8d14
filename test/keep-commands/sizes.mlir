// The commands of a call whose sizes are known only then are kept for the next one of these sizes,
// which hands its own memory over; those of known sizes are written once by IREE.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=hal --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 -o %t.vmfb
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=hal --attn-keep=false | FileCheck %s --check-prefix=OFF
// RUN: attn-compile %s %cpu --compile-to=hal | FileCheck %s --check-prefix=OFF

// CHECK: util.global private mutable @__attn_commands_0 : !hal.command_buffer
// CHECK: util.global private mutable @__attn_commands_0_size_0 : index
// CHECK-NOT: @__attn_commands_1
// CHECK-LABEL: util.func public @unknown(
// CHECK: %[[ROWS:.*]] = hal.buffer_view.dim
// CHECK: %[[LAST:.*]] = util.global.load @__attn_commands_0_size_0
// CHECK: arith.cmpi eq, %[[LAST]], %[[ROWS]] : index
// CHECK: %[[KEPT:.*]] = scf.if {{.*}} -> (!hal.command_buffer) {
// CHECK: util.global.load @__attn_commands_0 : !hal.command_buffer
// CHECK: } else {
// CHECK: %[[MADE:.*]] = hal.command_buffer.create {{.*}} mode("None") {{.*}} bindings(
// CHECK: (%c{{[0-9_]*}} : index)[
// CHECK: hal.command_buffer.finalize<%[[MADE]]
// CHECK: util.global.store %[[MADE]], @__attn_commands_0
// CHECK: util.global.store %[[ROWS]], @__attn_commands_0_size_0
// CHECK: hal.device.queue.execute.indirect<{{.*}} commands(%[[KEPT]]) bindings([
// TOLD: commands that depend on sizes of a call are kept for the next one: 1 of 1 lists
// OFF-NOT: __attn_commands

func.func @known(%x: tensor<2048xf32>) -> tensor<2048xf32> {
  %space = tensor.empty() : tensor<2048xf32>
  %made = linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } ins(%x : tensor<2048xf32>) outs(%space : tensor<2048xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<2048xf32>
  return %made : tensor<2048xf32>
}

func.func @unknown(%x: tensor<?xf32>) -> tensor<?xf32> {
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : tensor<?xf32>
  %space = tensor.empty(%rows) : tensor<?xf32>
  %made = linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } ins(%x : tensor<?xf32>) outs(%space : tensor<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<?xf32>
  return %made : tensor<?xf32>
}
