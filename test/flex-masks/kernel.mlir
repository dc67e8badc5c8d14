// FlexAttention with a soft-cap and a causal mask comes to a Hopper kernel that has both.

// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_90 --attn-kernels=cost --compile-to=preprocessing --attn-report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json

// CHECK-NOT: linalg_ext
// CHECK: hal.dispatch.extern "attention_f16_d64_window_cap"
// WHY: its mask hides keys behind its score function
// WHY: the division by its sum of weights is part of it now
// WHY: what positions do to its scores is a mask now

!scalar = !torch.vtensor<[],f32>
!index = !torch.vtensor<[],si32>
!heads = !torch.vtensor<[2,4,1024,64],f16>

func.func private @score(%s: !scalar, %b: !index, %h: !index, %i: !index, %j: !index) -> !scalar {
  %cap = torch.constant.float 5.000000e+01
  %0 = torch.aten.div.Scalar %s, %cap : !scalar, !torch.float -> !scalar
  %1 = torch.aten.tanh %0 : !scalar -> !scalar
  %2 = torch.aten.mul.Scalar %1, %cap : !scalar, !torch.float -> !scalar
  return %2 : !scalar
}
func.func private @mask(%b: !index, %h: !index, %i: !index, %j: !index) -> !torch.vtensor<[],i1> {
  %0 = torch.aten.ge.Tensor %i, %j : !index, !index -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}
func.func @main(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %scale = torch.constant.float 1.250000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false {mask_mod_fn = @mask, score_mod_fn = @score} : !heads, !heads, !heads, !torch.float, !torch.bool, !torch.bool -> !heads, !torch.none, !torch.none
  return %out : !heads
}
