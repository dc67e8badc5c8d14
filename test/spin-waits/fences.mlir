// Each of several fences is asked; a wait that ends after a time stays as it is.
//
// RUN: attn-opt %s --pass-pipeline=attn-spin-waits | FileCheck %s

// CHECK-LABEL: util.func public @waits(%arg0: !hal.fence, %arg1: !hal.fence)
// CHECK: scf.while
// CHECK: hal.fence.query<%arg0
// CHECK: scf.while
// CHECK: hal.fence.query<%arg1
// CHECK: hal.fence.await until([%arg0, %arg1])
// CHECK-NOT: scf.while
// CHECK: hal.fence.await until([%arg0]) timeout_millis(%c5_i32)

hal.executable private @kernel {
  hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<1xi8>>
}
util.func public @waits(%a: !hal.fence, %b: !hal.fence) -> (i32, i32) {
  %always = arith.constant -1 : i32
  %some = arith.constant 5 : i32
  %s = hal.fence.await until([%a, %b]) timeout_millis(%always) flags("None") : i32
  %t = hal.fence.await until([%a]) timeout_millis(%some) flags("None") : i32
  util.return %s, %t : i32, i32
}
