// The mask function of FlexAttention becomes the last step of its score function.

// RUN: attn-opt %s --attn-flex-masks --split-input-file --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY: torch.hop_flex_attention at {{.*}}: its mask hides keys behind its score function
// CHECK-LABEL: func.func private @score(
// CHECK-SAME: %[[S:[^:]*]]: !torch.vtensor<[],f32>, %{{[^:]*}}: !torch.vtensor<[],si32>, %{{[^:]*}}: !torch.vtensor<[],si32>, %[[I:[^:]*]]: !torch.vtensor<[],si32>, %[[J:[^:]*]]: !torch.vtensor<[],si32>
// CHECK: %[[T:.*]] = torch.aten.tanh %[[S]]
// CHECK: %[[SEEN:.*]] = torch.aten.ge.Tensor %[[I]], %[[J]]
// CHECK: %[[LOW:.*]] = torch.constant.float 0xFFF0000000000000
// CHECK: %[[R:.*]] = torch.aten.where.ScalarOther %[[SEEN]], %[[T]], %[[LOW]]
// CHECK: return %[[R]]
// CHECK-LABEL: func.func @main(
// CHECK: torch.hop_flex_attention {{.*}} {score_mod_fn = @score}
func.func private @score(%s: !torch.vtensor<[],f32>, %b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],f32> {
  %0 = torch.aten.tanh %s : !torch.vtensor<[],f32> -> !torch.vtensor<[],f32>
  return %0 : !torch.vtensor<[],f32>
}
func.func private @mask(%b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],i1> {
  %0 = torch.aten.ge.Tensor %i, %j : !torch.vtensor<[],si32>, !torch.vtensor<[],si32> -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}
func.func @main(%q: !torch.vtensor<[2,4,8,16],f32>, %k: !torch.vtensor<[2,4,8,16],f32>, %v: !torch.vtensor<[2,4,8,16],f32>) -> !torch.vtensor<[2,4,8,16],f32> {
  %scale = torch.constant.float 2.500000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false {mask_mod_fn = @mask, score_mod_fn = @score} : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>, !torch.none, !torch.none
  return %out : !torch.vtensor<[2,4,8,16],f32>
}

// -----

// A score function that goes with two masks, one of them none, stays as it is.
// WHY-NOT: its mask hides
// CHECK-LABEL: func.func private @shared(
// CHECK-NOT: torch.aten.where
// CHECK-LABEL: func.func @two(
// CHECK: torch.hop_flex_attention {{.*}} {mask_mod_fn = @mask, score_mod_fn = @shared}
// CHECK: torch.hop_flex_attention {{.*}} {score_mod_fn = @shared}
func.func private @shared(%s: !torch.vtensor<[],f32>, %b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],f32> {
  %0 = torch.aten.tanh %s : !torch.vtensor<[],f32> -> !torch.vtensor<[],f32>
  return %0 : !torch.vtensor<[],f32>
}
func.func private @mask(%b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],i1> {
  %0 = torch.aten.ge.Tensor %i, %j : !torch.vtensor<[],si32>, !torch.vtensor<[],si32> -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}
func.func @two(%q: !torch.vtensor<[2,4,8,16],f32>, %k: !torch.vtensor<[2,4,8,16],f32>, %v: !torch.vtensor<[2,4,8,16],f32>) -> (!torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>) {
  %scale = torch.constant.float 2.500000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false {mask_mod_fn = @mask, score_mod_fn = @shared} : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>, !torch.none, !torch.none
  %out2, %lse2, %max2 = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false {score_mod_fn = @shared} : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>, !torch.none, !torch.none
  return %out, %out2 : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>
}

// -----

// Without a score function the order does not matter.
// WHY-NOT: its mask hides
// CHECK-LABEL: func.func private @itself(
// CHECK-NEXT: return
// CHECK: torch.hop_flex_attention {{.*}} {mask_mod_fn = @mask, score_mod_fn = @itself}
func.func private @itself(%s: !torch.vtensor<[],f32>, %b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],f32> {
  return %s : !torch.vtensor<[],f32>
}
func.func private @mask(%b: !torch.vtensor<[],si32>, %h: !torch.vtensor<[],si32>, %i: !torch.vtensor<[],si32>, %j: !torch.vtensor<[],si32>) -> !torch.vtensor<[],i1> {
  %0 = torch.aten.ge.Tensor %i, %j : !torch.vtensor<[],si32>, !torch.vtensor<[],si32> -> !torch.vtensor<[],i1>
  return %0 : !torch.vtensor<[],i1>
}
func.func @plain(%q: !torch.vtensor<[2,4,8,16],f32>, %k: !torch.vtensor<[2,4,8,16],f32>, %v: !torch.vtensor<[2,4,8,16],f32>) -> !torch.vtensor<[2,4,8,16],f32> {
  %scale = torch.constant.float 2.500000e-01
  %false = torch.constant.bool false
  %out, %lse, %max = torch.hop_flex_attention %q, %k, %v, %scale, %false, %false {mask_mod_fn = @mask, score_mod_fn = @itself} : !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.vtensor<[2,4,8,16],f32>, !torch.float, !torch.bool, !torch.bool -> !torch.vtensor<[2,4,8,16],f32>, !torch.none, !torch.none
  return %out : !torch.vtensor<[2,4,8,16],f32>
}
