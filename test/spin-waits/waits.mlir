// A call asks whether the GPU is done before it sleeps; on other machines it does not.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=hal --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=hal --attn-spin=false | FileCheck %s --check-prefix=OFF
// RUN: attn-compile %s %cpu --compile-to=hal | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: util.func public @squares(
// CHECK: hal.device.queue.execute.indirect{{.*}} signal(%[[DONE:.*]]) commands
// CHECK: %[[PENDING:.*]] = arith.constant 17 : i32
// CHECK: scf.while
// CHECK: %[[STATUS:.*]] = hal.fence.query<%[[DONE]] : !hal.fence> : i32
// CHECK: %[[AGAIN:.*]] = arith.cmpi eq, %[[STATUS]], %[[PENDING]] : i32
// CHECK: %[[LEFT:.*]] = arith.cmpi ult
// CHECK: arith.andi %[[AGAIN]], %[[LEFT]] : i1
// CHECK: hal.fence.await until([%[[DONE]]])
// TOLD: looks whether the GPU is done before it sleeps
// OFF-NOT: hal.fence.query
// OFF: hal.fence.await

func.func @squares(%x: tensor<2048xf32>) -> tensor<2048xf32> {
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
