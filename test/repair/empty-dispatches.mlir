// What has no workgroup is not dispatched where their number is known only at run time.
//
// RUN: attn-compile %s -o - --compile-to=hal --iree-hal-target-device=cuda --iree-cuda-target=sm_80 | filecheck %s
// RUN: attn-compile %s -o - --compile-to=hal --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu | filecheck %s --check-prefix=CPU

// CHECK-LABEL: func public @unknown
// CHECK:      %[[NONE:.*]] = arith.cmpi ne
// CHECK-NEXT: scf.if %[[NONE]] {
// CHECK-NEXT:   hal.command_buffer.dispatch
// CHECK:      } else {
// CHECK-NEXT: }

// CPU-LABEL: func public @unknown
// CPU-NOT:   scf.if
func.func @unknown(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = math.exp %x : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// CHECK-LABEL: func private @__known
// CHECK-NOT:   scf.if
func.func @known(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = math.exp %x : tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
