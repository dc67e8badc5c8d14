// What lists of commands compute in is one allocation of the module, made when it is loaded and
// made anew by a call that needs more; what is returned has room between two ends that are held.
//
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=stream --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=TOLD < %t.json
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 -o %t.vmfb
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --compile-to=stream --attn-workspace=false | FileCheck %s --check-prefix=OFF
// RUN: attn-compile %s %cpu --compile-to=stream | FileCheck %s --check-prefix=OFF

// 16 MB of rows, the rest of their piece, two pieces for results of unknown size but their ends, and
// these. The two that fill are given back.
// CHECK: util.global private mutable @__attn_workspace : !stream.resource<transient>
// CHECK: util.global private mutable @__attn_workspace_bytes : index
// CHECK: util.global public @__attn_workspace_end_0 : !stream.resource<transient>
// CHECK: util.global public @__attn_workspace_end_1 : !stream.resource<transient>
// CHECK: util.initializer
// CHECK: stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%c16777216}
// CHECK: stream.timepoint.await sync
// CHECK: util.global.store %{{.*}}, @__attn_workspace
// CHECK: %[[TAIL:.*]] = stream.timepoint.await sync
// CHECK: stream.timepoint.await sync {{.*}}{%c2097152{{.*}}}
// CHECK: util.global.store %{{.*}}, @__attn_workspace_end_0
// CHECK: %[[ROOM:.*]] = stream.timepoint.await sync {{.*}}{%c62914560}
// CHECK: stream.timepoint.await sync {{.*}}{%c2097152{{.*}}}
// CHECK: util.global.store %{{.*}}, @__attn_workspace_end_1
// CHECK: stream.resource.dealloca {{.*}} %[[TAIL]]
// CHECK: stream.resource.dealloca {{.*}} %[[ROOM]]

// CHECK-LABEL: util.func public @known(
// CHECK-NOT: alloca{{.*}}resource<transient>
// CHECK: stream.resource.alloca{{.*}}!stream.resource<external>
// CHECK: %[[HELD:.*]] = util.global.load @__attn_workspace
// CHECK: stream.cmd.execute {{.*}}%[[HELD]] as
// CHECK-NOT: stream.resource.dealloca
// CHECK-LABEL: util.func public @unknown(
// CHECK: %[[HAS:.*]] = util.global.load @__attn_workspace_bytes : index
// CHECK: %[[ENOUGH:.*]] = arith.cmpi ule, %{{.*}}, %[[HAS]] : index
// CHECK: %[[HELD:.*]] = scf.if %[[ENOUGH]] -> (!stream.resource<transient>) {
// CHECK: util.global.load @__attn_workspace
// CHECK: } else {
// CHECK: stream.resource.alloca {{.*}}!stream.resource<transient>{%[[WHOLE:.*]]} =>
// CHECK: %[[FITS:.*]] = arith.cmpi ule, %[[WHOLE]], %c1073741824 : index
// CHECK: scf.if %[[FITS]] {
// CHECK: util.global.store %{{.*}}, @__attn_workspace
// CHECK: util.global.store %[[WHOLE]], @__attn_workspace_bytes
// CHECK: stream.cmd.execute {{.*}}%[[HELD]] as
// CHECK-NOT: stream.resource.dealloca
// TOLD: a workspace of 17 MB, and more once a call needs it; 128 MB for results
// OFF-NOT: __attn_workspace
// OFF-LABEL: util.func public @known(
// OFF: stream.resource.dealloca

func.func @known(%x: tensor<2048x2048xf32>) -> tensor<2048xf32> {
  %none = arith.constant 0.0 : f32
  %space = tensor.empty() : tensor<2048x2048xf32>
  %squares = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<2048x2048xf32>) outs(%space : tensor<2048x2048xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<2048x2048xf32>
  %stored = iree_tensor_ext.compute_barrier.start %squares : tensor<2048x2048xf32> -> tensor<2048x2048xf32>
  %line = tensor.empty() : tensor<2048xf32>
  %zeros = linalg.fill ins(%none : f32) outs(%line : tensor<2048xf32>) -> tensor<2048xf32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%stored : tensor<2048x2048xf32>) outs(%zeros : tensor<2048xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %b = arith.addf %a, %sum : f32
    linalg.yield %b : f32
  } -> tensor<2048xf32>
  return %sums : tensor<2048xf32>
}

func.func @unknown(%x: tensor<?x2048xf32>) -> tensor<?xf32> {
  %first = arith.constant 0 : index
  %rows = tensor.dim %x, %first : tensor<?x2048xf32>
  %none = arith.constant 0.0 : f32
  %space = tensor.empty(%rows) : tensor<?x2048xf32>
  %squares = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<?x2048xf32>) outs(%space : tensor<?x2048xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<?x2048xf32>
  %stored = iree_tensor_ext.compute_barrier.start %squares : tensor<?x2048xf32>{%rows} -> tensor<?x2048xf32>
  %line = tensor.empty(%rows) : tensor<?xf32>
  %zeros = linalg.fill ins(%none : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%stored : tensor<?x2048xf32>) outs(%zeros : tensor<?xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %b = arith.addf %a, %sum : f32
    linalg.yield %b : f32
  } -> tensor<?xf32>
  return %sums : tensor<?xf32>
}
