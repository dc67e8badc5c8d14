// `a & b` of two tensors becomes the op that IREE imports; with a number it has a program already.

// RUN: attn-opt %s --attn-known-ops | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:[^:]*]]: !torch.vtensor<[3],i1>, %[[B:[^:]*]]: !torch.vtensor<[2,1],i1>, %[[C:[^:]*]]: !torch.vtensor<[3],si64>
// CHECK: %[[MASK:.*]] = torch.aten.bitwise_and.Tensor %[[A]], %[[B]] : !torch.vtensor<[3],i1>, !torch.vtensor<[2,1],i1> -> !torch.vtensor<[2,3],i1>
// CHECK-NOT: __and__.Tensor
// CHECK: %[[BITS:.*]] = torch.aten.__and__.Scalar %[[C]], %{{.*}}
// CHECK: return %[[MASK]], %[[BITS]]
func.func @main(%a: !torch.vtensor<[3],i1>, %b: !torch.vtensor<[2,1],i1>, %c: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[2,3],i1>, !torch.vtensor<[3],si64>) {
  %3 = torch.constant.int 3
  %0 = torch.aten.__and__.Tensor %a, %b : !torch.vtensor<[3],i1>, !torch.vtensor<[2,1],i1> -> !torch.vtensor<[2,3],i1>
  %1 = torch.aten.__and__.Scalar %c, %3 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  return %0, %1 : !torch.vtensor<[2,3],i1>, !torch.vtensor<[3],si64>
}

// So do those of other operators, for which the dialect has no op; what it does not know stays.

// CHECK-LABEL: func.func @operators(
// CHECK-SAME: %[[A:[^:]*]]: !torch.vtensor<[3],si64>, %[[B:[^:]*]]: !torch.vtensor<[3],si64>
// CHECK: torch.aten.bitwise_xor.Tensor %[[A]], %[[B]]
// CHECK: torch.aten.bitwise_left_shift.Tensor %[[A]], %[[B]]
// CHECK: torch.aten.sub.Tensor %[[B]], %[[A]], %int1
// CHECK: torch.operator "torch.aten.foo"
// CHECK-NOT: torch.operator
func.func @operators(%a: !torch.vtensor<[3],si64>, %b: !torch.vtensor<[3],si64>) -> (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) {
  %1 = torch.constant.int 1
  %x = torch.operator "torch.aten.__xor__.Tensor"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  %y = torch.operator "torch.aten.__lshift__.Tensor"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  %z = torch.operator "torch.aten.rsub.Tensor"(%a, %b, %1) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.int) -> !torch.vtensor<[3],si64>
  %w = torch.operator "torch.aten.foo"(%a, %b) : (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>) -> !torch.vtensor<[3],si64>
  return %x, %y, %z, %w : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>
}

// With a number, `|` and `^` have no program either. Integers to a known power are products; floats
// stay, and what is to the power of 0.

// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: %[[A:[^:]*]]: !torch.vtensor<[3],si64>, %[[B:[^:]*]]: !torch.vtensor<[3],si8>, %[[C:[^:]*]]: !torch.vtensor<[3],f32>
// CHECK: %[[SIX:.*]] = torch.prim.NumToTensor.Scalar %int6
// CHECK: torch.aten.bitwise_or.Tensor %[[A]], %[[SIX]] : !torch.vtensor<[3],si64>, !torch.vtensor<[],si64>
// CHECK: %[[BYTE:.*]] = torch.prims.convert_element_type %{{.*}} -> !torch.vtensor<[],si8>
// CHECK: torch.aten.bitwise_xor.Tensor %[[B]], %[[BYTE]]
// CHECK: %[[TWO:.*]] = torch.aten.mul.Tensor %[[A]], %[[A]]
// CHECK: %[[FOUR:.*]] = torch.aten.mul.Tensor %[[TWO]], %[[TWO]]
// CHECK: torch.aten.mul.Tensor %[[TWO]], %[[FOUR]]
// CHECK: torch.aten.pow.Tensor_Scalar %[[A]], %int0
// CHECK: torch.aten.pow.Tensor_Scalar %[[C]], %int6
func.func @numbers(%a: !torch.vtensor<[3],si64>, %b: !torch.vtensor<[3],si8>, %c: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3],si64>, !torch.vtensor<[3],si8>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],f32>) {
  %0 = torch.constant.int 0
  %6 = torch.constant.int 6
  %x = torch.operator "torch.aten.__or__.Scalar"(%a, %6) : (!torch.vtensor<[3],si64>, !torch.int) -> !torch.vtensor<[3],si64>
  %y = torch.operator "torch.aten.__xor__.Scalar"(%b, %6) : (!torch.vtensor<[3],si8>, !torch.int) -> !torch.vtensor<[3],si8>
  %z = torch.aten.pow.Tensor_Scalar %a, %6 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  %v = torch.aten.pow.Tensor_Scalar %a, %0 : !torch.vtensor<[3],si64>, !torch.int -> !torch.vtensor<[3],si64>
  %w = torch.aten.pow.Tensor_Scalar %c, %6 : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],f32>
  return %x, %y, %z, %v, %w : !torch.vtensor<[3],si64>, !torch.vtensor<[3],si8>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],si64>, !torch.vtensor<[3],f32>
}

// Squeezes of several dims are one after the other, the last first; those of unknown sizes stay.
// Norms that PyTorch decomposes are whole again, where nothing reads what they would store.

// CHECK-LABEL: func.func @decomposed(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[1,3,1,4],f32>, %[[W:[^:]*]]: !torch.vtensor<[3],f32>
// CHECK: %[[LAST:.*]] = torch.aten.squeeze.dim %[[X]], %int2{{.*}} -> !torch.vtensor<[1,3,4],f32>
// CHECK: %[[NONE:.*]] = torch.aten.squeeze.dim %[[LAST]], %int0{{.*}} -> !torch.vtensor<[3,4],f32>
// CHECK: %[[NORM:.*]] = torch.aten.batch_norm %[[X]], %[[W]], %[[W]], %[[W]], %[[W]], %false
// CHECK: %[[GROUPS:.*]] = torch.aten.group_norm %[[X]], %int3{{[^,]*}}, %[[W]], %[[W]]
// CHECK: torch.aten.group_norm %[[X]], %int3{{[^,]*}}, %none, %none
// CHECK: return %[[NONE]], %[[NORM]], %[[GROUPS]]
func.func @decomposed(%x: !torch.vtensor<[1,3,1,4],f32>, %w: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[3,4],f32>, !torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[1,3,1,4],f32>) {
  %0 = torch.constant.int 0
  %-1 = torch.constant.int -1
  %-2 = torch.constant.int -2
  %none = torch.constant.none
  %true = torch.constant.bool true
  %small = torch.constant.float 1.0e-05
  %dims = torch.prim.ListConstruct %0, %-2, %-1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %s = torch.operator "torch.aten.squeeze.dims"(%x, %dims) : (!torch.vtensor<[1,3,1,4],f32>, !torch.list<int>) -> !torch.vtensor<[3,4],f32>
  %b:3 = torch.operator "torch.aten._native_batch_norm_legit_no_training"(%x, %w, %w, %w, %w, %small, %small) : (!torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.float, !torch.float) -> (!torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[0],f32>)
  %n:3 = torch.operator "torch.aten._native_batch_norm_legit.no_stats"(%x, %w, %w, %true, %small, %small) : (!torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.bool, !torch.float, !torch.float) -> (!torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>)
  %i = torch.aten.instance_norm %x, %none, %none, %none, %none, %true, %small, %small, %true : !torch.vtensor<[1,3,1,4],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[1,3,1,4],f32>
  return %s, %b#0, %n#0, %i : !torch.vtensor<[3,4],f32>, !torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[1,3,1,4],f32>, !torch.vtensor<[1,3,1,4],f32>
}

// CHECK-LABEL: func.func @stays(
// CHECK: torch.operator "torch.aten.squeeze.dims"
// CHECK: torch.operator "torch.aten._native_batch_norm_legit_no_training"
// CHECK: torch.operator "torch.aten._native_batch_norm_legit.no_stats"
// CHECK: torch.aten.instance_norm
func.func @stays(%x: !torch.vtensor<[?,3,4],f32>, %w: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[?,3,4],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[?,3,4],f32>, !torch.vtensor<[?,3,4],f32>) {
  %0 = torch.constant.int 0
  %true = torch.constant.bool true
  %none = torch.constant.none
  %small = torch.constant.float 1.0e-05
  %dims = torch.prim.ListConstruct %0 : (!torch.int) -> !torch.list<int>
  %s = torch.operator "torch.aten.squeeze.dims"(%x, %dims) : (!torch.vtensor<[?,3,4],f32>, !torch.list<int>) -> !torch.vtensor<[?,3,4],f32>
  %b:3 = torch.operator "torch.aten._native_batch_norm_legit_no_training"(%x, %w, %w, %w, %w, %small, %small) : (!torch.vtensor<[?,3,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.float, !torch.float) -> (!torch.vtensor<[?,3,4],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[0],f32>)
  %n:3 = torch.operator "torch.aten._native_batch_norm_legit.no_stats"(%x, %w, %w, %true, %small, %small) : (!torch.vtensor<[?,3,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.bool, !torch.float, !torch.float) -> (!torch.vtensor<[?,3,4],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>)
  %i = torch.aten.instance_norm %x, %w, %none, %none, %none, %true, %small, %small, %true : !torch.vtensor<[?,3,4],f32>, !torch.vtensor<[3],f32>, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[?,3,4],f32>
  return %s, %b#1, %n#0, %i : !torch.vtensor<[?,3,4],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[?,3,4],f32>, !torch.vtensor<[?,3,4],f32>
}

// Of samples of grids the import knows two ways, and takes cubic ones for others.
// CHECK-LABEL: func.func @samples(
// CHECK: torch.aten.grid_sampler %
// CHECK: torch.operator "torch.aten.grid_sampler_2d"
func.func @samples(%x: !torch.vtensor<[1,2,5,8],f32>, %g: !torch.vtensor<[1,3,4,2],f32>) -> (!torch.vtensor<[1,2,3,4],f32>, !torch.vtensor<[1,2,3,4],f32>) {
  %near = torch.constant.int 1
  %cubic = torch.constant.int 2
  %zeros = torch.constant.int 0
  %no = torch.constant.bool false
  %a = torch.operator "torch.aten.grid_sampler_2d"(%x, %g, %near, %zeros, %no) : (!torch.vtensor<[1,2,5,8],f32>, !torch.vtensor<[1,3,4,2],f32>, !torch.int, !torch.int, !torch.bool) -> !torch.vtensor<[1,2,3,4],f32>
  %b = torch.operator "torch.aten.grid_sampler_2d"(%x, %g, %cubic, %zeros, %no) : (!torch.vtensor<[1,2,5,8],f32>, !torch.vtensor<[1,3,4,2],f32>, !torch.int, !torch.int, !torch.bool) -> !torch.vtensor<[1,2,3,4],f32>
  return %a, %b : !torch.vtensor<[1,2,3,4],f32>, !torch.vtensor<[1,2,3,4],f32>
}

// Means of windows of one image are those of a batch of one; those of a batch stay.
// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[3,8],f32>, %[[Y:[^:]*]]: !torch.vtensor<[2,3,8],f32>
// CHECK: %[[ONE:.*]] = torch.aten.unsqueeze %[[X]], {{.*}} -> !torch.vtensor<[1,3,8],f32>
// CHECK: %[[MEANS:.*]] = torch.aten.avg_pool1d %[[ONE]], {{.*}} -> !torch.vtensor<[1,3,4],f32>
// CHECK: torch.aten.squeeze.dim %[[MEANS]], {{.*}} -> !torch.vtensor<[3,4],f32>
// CHECK: torch.aten.avg_pool1d %[[Y]]
func.func @windows(%x: !torch.vtensor<[3,8],f32>, %y: !torch.vtensor<[2,3,8],f32>) -> (!torch.vtensor<[3,4],f32>, !torch.vtensor<[2,3,4],f32>) {
  %0 = torch.constant.int 0
  %2 = torch.constant.int 2
  %no = torch.constant.bool false
  %twos = torch.prim.ListConstruct %2 : (!torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %0 : (!torch.int) -> !torch.list<int>
  %a = torch.aten.avg_pool1d %x, %twos, %twos, %zeros, %no, %no : !torch.vtensor<[3,8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.bool -> !torch.vtensor<[3,4],f32>
  %b = torch.aten.avg_pool1d %y, %twos, %twos, %zeros, %no, %no : !torch.vtensor<[2,3,8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.bool -> !torch.vtensor<[2,3,4],f32>
  return %a, %b : !torch.vtensor<[3,4],f32>, !torch.vtensor<[2,3,4],f32>
}

// Divergences of shares have no logarithm of 0; those of logarithms stay.
// CHECK-LABEL: func.func @divergences(
// CHECK-SAME: %[[X:[^:]*]]: !torch.vtensor<[3],f32>, %[[Y:[^:]*]]: !torch.vtensor<[3],f32>
// CHECK: %[[NONE:.*]] = torch.aten.eq.Scalar %[[Y]]
// CHECK: %[[OTHERS:.*]] = torch.aten.where.ScalarSelf %[[NONE]], %{{.*}}, %[[Y]]
// CHECK: torch.aten.log %[[OTHERS]]
// CHECK: torch.aten.sum
// CHECK: torch.aten.kl_div
// CHECK-NOT: torch.aten.kl_div
func.func @divergences(%x: !torch.vtensor<[3],f32>, %y: !torch.vtensor<[3],f32>) -> (!torch.vtensor<[],f32>, !torch.vtensor<[],f32>) {
  %sum = torch.constant.int 2
  %no = torch.constant.bool false
  %yes = torch.constant.bool true
  %a = torch.aten.kl_div %x, %y, %sum, %no : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.int, !torch.bool -> !torch.vtensor<[],f32>
  %b = torch.aten.kl_div %x, %y, %sum, %yes : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.int, !torch.bool -> !torch.vtensor<[],f32>
  return %a, %b : !torch.vtensor<[],f32>, !torch.vtensor<[],f32>
}

// CHECK-LABEL: func.func @means(
// CHECK-COUNT-2: torch.aten.scatter_reduce.two {{.*}} -> !torch.vtensor<[8],si64>
// CHECK: torch.aten.div.Tensor_mode
// CHECK: torch.aten.scatter_reduce.two {{.*}} -> !torch.vtensor<[8],f32>
// CHECK-NOT: torch.aten.scatter_reduce.two
func.func @means(%x: !torch.vtensor<[8],si64>, %at: !torch.vtensor<[8],si64>, %y: !torch.vtensor<[8],f32>) -> (!torch.vtensor<[8],si64>, !torch.vtensor<[8],f32>) {
  %0 = torch.constant.int 0
  %true = torch.constant.bool true
  %mean = torch.constant.str "mean"
  %r = torch.aten.scatter_reduce.two %x, %0, %at, %x, %mean, %true : !torch.vtensor<[8],si64>, !torch.int, !torch.vtensor<[8],si64>, !torch.vtensor<[8],si64>, !torch.str, !torch.bool -> !torch.vtensor<[8],si64>
  %s = torch.aten.scatter_reduce.two %y, %0, %at, %y, %mean, %true : !torch.vtensor<[8],f32>, !torch.int, !torch.vtensor<[8],si64>, !torch.vtensor<[8],f32>, !torch.str, !torch.bool -> !torch.vtensor<[8],f32>
  return %r, %s : !torch.vtensor<[8],si64>, !torch.vtensor<[8],f32>
}
