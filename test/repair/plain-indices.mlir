// Positions of PyTorch's writes count from the end where they are negative, have 64 bits, and stand for
// the dims between indexed ones, too; those of its reads have 64 bits. Run twice the pass adds nothing.

// RUN: attn-opt %s --attn-plain-indices --report=%t.json | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.json
// RUN: attn-opt %s --attn-plain-indices > %t.1 && attn-opt %s --attn-plain-indices --attn-plain-indices > %t.2 && diff %t.1 %t.2
// WHY: its negative positions count from the end
// WHY: its negative positions count from the end; it has indices for the dims between, too
// WHY: its indices have 64 bits now; its negative positions count from the end
// WHY: its indices have 64 bits now
// WHY-NOT: have 64 bits now
// WHY: its place counts from the start

// CHECK-LABEL: func.func @rows(
// CHECK-DAG: %[[SIZE:.*]] = torch.aten.size.int %arg0
// CHECK-DAG: %[[BELOW:.*]] = torch.aten.lt.Scalar %arg2, %int0
// CHECK: %[[MOVED:.*]] = torch.aten.add.Scalar %arg2, %[[SIZE]], %int1
// CHECK: %[[AT:.*]] = torch.aten.where.self %[[BELOW]], %[[MOVED]], %arg2
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %none, %[[AT]]
// CHECK: torch.aten.index_put %arg0, %[[LIST]], %arg1
func.func @rows(%cache: !torch.vtensor<[2,?,8],f32>, %new: !torch.vtensor<[2,3,8],f32>, %at: !torch.vtensor<[3],si64>) -> !torch.vtensor<[2,?,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %list = torch.prim.ListConstruct %none, %at : (!torch.none, !torch.vtensor<[3],si64>) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %cache, %list, %new, %false : !torch.vtensor<[2,?,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[2,3,8],f32>, !torch.bool -> !torch.vtensor<[2,?,8],f32>
  return %r : !torch.vtensor<[2,?,8],f32>
}

// CHECK-LABEL: func.func @between(
// CHECK: %[[B:.*]] = torch.aten.unsqueeze %{{[0-9]+}}, {{.*}} -> !torch.vtensor<[2,1],si64>
// CHECK: %[[HEADS:.*]] = torch.aten.arange %int4
// CHECK: %[[H:.*]] = torch.aten.unsqueeze %[[HEADS]], {{.*}} -> !torch.vtensor<[1,4],si64>
// CHECK: %[[T:.*]] = torch.aten.unsqueeze %{{[0-9]+}}, {{.*}} -> !torch.vtensor<[2,1],si64>
// CHECK: torch.prim.ListConstruct %[[B]], %[[H]], %[[T]]
func.func @between(%cache: !torch.vtensor<[2,4,16,8],f32>, %new: !torch.vtensor<[2,4,8],f32>, %b: !torch.vtensor<[2],si64>, %at: !torch.vtensor<[2],si64>) -> !torch.vtensor<[2,4,16,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %list = torch.prim.ListConstruct %b, %none, %at : (!torch.vtensor<[2],si64>, !torch.none, !torch.vtensor<[2],si64>) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %cache, %list, %new, %false : !torch.vtensor<[2,4,16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[2,4,8],f32>, !torch.bool -> !torch.vtensor<[2,4,16,8],f32>
  return %r : !torch.vtensor<[2,4,16,8],f32>
}

// CHECK-LABEL: func.func @narrow(
// CHECK: torch.prims.convert_element_type %arg1, %int4 {{.*}} -> !torch.vtensor<[3],si64>
// CHECK: torch.aten.index_put
// CHECK: %[[AT:.*]] = torch.prims.convert_element_type %arg1, %int4
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %[[AT]]
// CHECK: torch.aten.index.Tensor %{{.*}}, %[[LIST]]
func.func @narrow(%cache: !torch.vtensor<[16,8],f32>, %at: !torch.vtensor<[3],si32>, %new: !torch.vtensor<[3,8],f32>) -> !torch.vtensor<[3,8],f32> {
  %false = torch.constant.bool false
  %list = torch.prim.ListConstruct %at : (!torch.vtensor<[3],si32>) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %cache, %list, %new, %false : !torch.vtensor<[16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[3,8],f32>, !torch.bool -> !torch.vtensor<[16,8],f32>
  %s = torch.aten.index.Tensor %r, %list : !torch.vtensor<[16,8],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[3,8],f32>
  return %s : !torch.vtensor<[3,8],f32>
}

// Places that are counted from 0 or that stand in order, and masks, stay as they are.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: torch.aten.where
func.func @others(%cache: !torch.vtensor<[16,8],f32>, %mask: !torch.vtensor<[16],i1>, %new: !torch.vtensor<[],f32>, %rows: !torch.vtensor<[3,8],f32>, %keys: !torch.vtensor<[3],f32>) -> !torch.vtensor<[16,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %int0 = torch.constant.int 0
  %int3 = torch.constant.int 3
  %masks = torch.prim.ListConstruct %mask : (!torch.vtensor<[16],i1>) -> !torch.list<optional<vtensor>>
  %q = torch.aten.index_put %cache, %masks, %new, %false : !torch.vtensor<[16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[16,8],f32>
  %at = torch.aten.arange %int3, %none, %none, %none, %none : !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3],si64>
  %list = torch.prim.ListConstruct %at : (!torch.vtensor<[3],si64>) -> !torch.list<optional<vtensor>>
  %r = torch.aten.index_put %q, %list, %rows, %false : !torch.vtensor<[16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[3,8],f32>, !torch.bool -> !torch.vtensor<[16,8],f32>
  %v, %i = torch.aten.sort %keys, %int0, %false : !torch.vtensor<[3],f32>, !torch.int, !torch.bool -> !torch.vtensor<[3],f32>, !torch.vtensor<[3],si64>
  %sorted = torch.prim.ListConstruct %i : (!torch.vtensor<[3],si64>) -> !torch.list<optional<vtensor>>
  %s = torch.aten.index_put %r, %sorted, %rows, %false : !torch.vtensor<[16,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[3,8],f32>, !torch.bool -> !torch.vtensor<[16,8],f32>
  return %s : !torch.vtensor<[16,8],f32>
}

// The last place of a dim is one from its start; places from the start on stay.
// CHECK-LABEL: func.func @last(
// CHECK: torch.aten.select_scatter %arg0, %arg1, %int-1, %int3 :
// CHECK: %[[SIZE:.*]] = torch.aten.size.int %{{.*}}, %int0
// CHECK: %[[LAST:.*]] = torch.aten.add.int %[[SIZE]], %int-1
// CHECK: torch.aten.select_scatter %{{.*}}, %arg2, %int0, %[[LAST]] :
// CHECK: torch.aten.select_scatter %{{.*}}, %arg2, %int0, %int1 :
func.func @last(%x: !torch.vtensor<[?,4],f32>, %new: !torch.vtensor<[?],f32>, %row: !torch.vtensor<[4],f32>) -> !torch.vtensor<[?,4],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %last = torch.constant.int -1
  %0 = torch.aten.select_scatter %x, %new, %last, %last : !torch.vtensor<[?,4],f32>, !torch.vtensor<[?],f32>, !torch.int, !torch.int -> !torch.vtensor<[?,4],f32>
  %1 = torch.aten.select_scatter %0, %row, %int0, %last : !torch.vtensor<[?,4],f32>, !torch.vtensor<[4],f32>, !torch.int, !torch.int -> !torch.vtensor<[?,4],f32>
  %2 = torch.aten.select_scatter %1, %row, %int0, %int1 : !torch.vtensor<[?,4],f32>, !torch.vtensor<[4],f32>, !torch.int, !torch.int -> !torch.vtensor<[?,4],f32>
  return %2 : !torch.vtensor<[?,4],f32>
}

// A static cache, as transformers write it, and rows that are added. A number has no rows.
// CHECK-LABEL: func.func @by_name(
// CHECK: %[[AT:.*]] = torch.aten.where.self
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %none{{.*}}, %none{{.*}}, %[[AT]]
// CHECK: torch.aten.index_put %arg0, %[[LIST]], %arg1, %false
// CHECK: torch.aten.index_put %arg0, %{{.*}}, %arg1, %true
// CHECK: %[[TWICE:.*]] = torch.aten.mul.Scalar %arg1, %int2
// CHECK: torch.aten.index_put %arg0, %{{.*}}, %[[TWICE]], %true
// CHECK: torch.aten.unsqueeze %{{.*}} -> !torch.vtensor<[1],si64>
// CHECK: torch.aten.index_put %arg0, %{{.*}}, %arg3, %false
// CHECK: torch.operator "torch.aten.index_add"{{.*}} -> !torch.vtensor<[],f32>
// CHECK: torch.operator "torch.aten.other"
func.func @by_name(%cache: !torch.vtensor<[2,4,?,8],f32>, %new: !torch.vtensor<[2,4,3,8],f32>, %at: !torch.vtensor<[3],si32>, %row: !torch.vtensor<[2,4,1,8],f32>, %place: !torch.vtensor<[],si64>, %x: !torch.vtensor<[],f32>) -> (!torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[],f32>, !torch.vtensor<[3],si32>) {
  %1 = torch.constant.int 1
  %2 = torch.constant.int 2
  %dim = torch.constant.int -2
  %0 = torch.operator "torch.aten.index_copy"(%cache, %2, %at, %new) : (!torch.vtensor<[2,4,?,8],f32>, !torch.int, !torch.vtensor<[3],si32>, !torch.vtensor<[2,4,3,8],f32>) -> !torch.vtensor<[2,4,?,8],f32>
  %3 = torch.operator "torch.aten.index_add"(%cache, %dim, %at, %new, %1) : (!torch.vtensor<[2,4,?,8],f32>, !torch.int, !torch.vtensor<[3],si32>, !torch.vtensor<[2,4,3,8],f32>, !torch.int) -> !torch.vtensor<[2,4,?,8],f32>
  %4 = torch.operator "torch.aten.index_add"(%cache, %dim, %at, %new, %2) : (!torch.vtensor<[2,4,?,8],f32>, !torch.int, !torch.vtensor<[3],si32>, !torch.vtensor<[2,4,3,8],f32>, !torch.int) -> !torch.vtensor<[2,4,?,8],f32>
  %5 = torch.operator "torch.aten.index_copy"(%cache, %2, %place, %row) : (!torch.vtensor<[2,4,?,8],f32>, !torch.int, !torch.vtensor<[],si64>, !torch.vtensor<[2,4,1,8],f32>) -> !torch.vtensor<[2,4,?,8],f32>
  %zero = torch.constant.int 0
  %6 = torch.operator "torch.aten.index_add"(%x, %zero, %at, %x, %1) : (!torch.vtensor<[],f32>, !torch.int, !torch.vtensor<[3],si32>, !torch.vtensor<[],f32>, !torch.int) -> !torch.vtensor<[],f32>
  %7 = torch.operator "torch.aten.other"(%at) : (!torch.vtensor<[3],si32>) -> !torch.vtensor<[3],si32>
  return %0, %3, %4, %5, %6, %7 : !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[2,4,?,8],f32>, !torch.vtensor<[],f32>, !torch.vtensor<[3],si32>
}

// Tensors of no known rank stay.
// CHECK-LABEL: func.func @unranked(
// CHECK-NOT: torch.aten.where.self
// CHECK: torch.operator "torch.aten.index_copy"(%arg0,
// CHECK: torch.operator "torch.aten.index_copy"(%arg1,
// CHECK: torch.aten.index_put %arg0, %{{.*}}, %arg1,
func.func @unranked(%x: !torch.vtensor<*,f32>, %y: !torch.vtensor<[2,3,4],f32>, %at: !torch.vtensor<[3],si64>, %other: !torch.vtensor<*,si64>) -> (!torch.vtensor<*,f32>, !torch.vtensor<[2,3,4],f32>, !torch.vtensor<*,f32>) {
  %1 = torch.constant.int 1
  %none = torch.constant.none
  %no = torch.constant.bool false
  %0 = torch.operator "torch.aten.index_copy"(%x, %1, %at, %y) : (!torch.vtensor<*,f32>, !torch.int, !torch.vtensor<[3],si64>, !torch.vtensor<[2,3,4],f32>) -> !torch.vtensor<*,f32>
  %2 = torch.operator "torch.aten.index_copy"(%y, %1, %other, %y) : (!torch.vtensor<[2,3,4],f32>, !torch.int, !torch.vtensor<*,si64>, !torch.vtensor<[2,3,4],f32>) -> !torch.vtensor<[2,3,4],f32>
  %list = torch.prim.ListConstruct %none, %at : (!torch.none, !torch.vtensor<[3],si64>) -> !torch.list<optional<vtensor>>
  %3 = torch.aten.index_put %x, %list, %y, %no : !torch.vtensor<*,f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[2,3,4],f32>, !torch.bool -> !torch.vtensor<*,f32>
  return %0, %2, %3 : !torch.vtensor<*,f32>, !torch.vtensor<[2,3,4],f32>, !torch.vtensor<*,f32>
}

// A write without an index is what it writes to.
// CHECK-LABEL: func.func @no_index(
// CHECK-NOT: index_put
// CHECK: %[[SOME:.*]] = torch.aten.scatter.src
// CHECK-NOT: torch.aten.scatter
// CHECK: return %arg0, %arg0, %arg0, %[[SOME]]
func.func @no_index(%x: !torch.vtensor<[3,8],f32>, %none: !torch.vtensor<[0],si64>, %rows: !torch.vtensor<[0,8],f32>, %places: !torch.vtensor<[0,8],si64>, %found: !torch.vtensor<[?,8],si64>) -> (!torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>) {
  %no = torch.constant.bool false
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %list = torch.prim.ListConstruct %none : (!torch.vtensor<[0],si64>) -> !torch.list<optional<vtensor>>
  %2 = torch.aten.index_put %x, %list, %rows, %no : !torch.vtensor<[3,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[0,8],f32>, !torch.bool -> !torch.vtensor<[3,8],f32>
  %3 = torch.operator "torch.aten.index_add"(%x, %0, %none, %rows, %1) : (!torch.vtensor<[3,8],f32>, !torch.int, !torch.vtensor<[0],si64>, !torch.vtensor<[0,8],f32>, !torch.int) -> !torch.vtensor<[3,8],f32>
  %4 = torch.aten.scatter.src %x, %0, %places, %x : !torch.vtensor<[3,8],f32>, !torch.int, !torch.vtensor<[0,8],si64>, !torch.vtensor<[3,8],f32> -> !torch.vtensor<[3,8],f32>
  %5 = torch.aten.scatter.src %x, %0, %found, %x : !torch.vtensor<[3,8],f32>, !torch.int, !torch.vtensor<[?,8],si64>, !torch.vtensor<[3,8],f32> -> !torch.vtensor<[3,8],f32>
  return %2, %3, %4, %5 : !torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>, !torch.vtensor<[3,8],f32>
}

// Reads by several indices that share an unknown size are by one; where none is shared, by several.
// CHECK-LABEL: func.func @together(
// CHECK: %[[B:.*]] = torch.aten.where.self {{.*}} -> !torch.vtensor<[?,1],si64>
// CHECK: %[[K:.*]] = torch.aten.where.self {{.*}} -> !torch.vtensor<[?,7],si64>
// CHECK: %[[ROW:.*]] = torch.aten.mul.Scalar %[[B]], %int6
// CHECK: %[[AT:.*]] = torch.aten.add.Tensor %[[ROW]], %[[K]], {{.*}} -> !torch.vtensor<[?,7],si64>
// CHECK: %[[FRONT:.*]] = torch.aten.permute %arg0, {{.*}} -> !torch.vtensor<[?,6,4],f32>
// CHECK: %[[X:.*]] = torch.aten.flatten.using_ints %[[FRONT]], {{.*}} -> !torch.vtensor<[?,4],f32>
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %[[AT]]
// CHECK: torch.aten.index.Tensor %[[X]], %[[LIST]]
// CHECK: %[[Y:.*]] = torch.aten.flatten.using_ints %arg3, {{.*}} -> !torch.vtensor<[3,20],f32>
// CHECK: %[[HERE:.*]] = torch.prim.ListConstruct %none{{.*}}, %{{.*}}
// CHECK: torch.aten.index.Tensor %[[Y]], %[[HERE]]
// CHECK: torch.aten.index.Tensor %arg3
func.func @together(%x: !torch.vtensor<[?,4,6],f32>, %b: !torch.vtensor<[?,1],si64>, %k: !torch.vtensor<[?,7],si64>, %y: !torch.vtensor<[3,4,5],f32>, %one: !torch.vtensor<[1,7],si64>) -> (!torch.vtensor<[?,7,4],f32>, !torch.vtensor<[3,?,7],f32>, !torch.vtensor<[3,?,7],f32>) {
  %none = torch.constant.none
  %0 = torch.prim.ListConstruct %b, %none, %k : (!torch.vtensor<[?,1],si64>, !torch.none, !torch.vtensor<[?,7],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[?,4,6],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[?,7,4],f32>
  %2 = torch.prim.ListConstruct %none, %b, %k : (!torch.none, !torch.vtensor<[?,1],si64>, !torch.vtensor<[?,7],si64>) -> !torch.list<optional<vtensor>>
  %3 = torch.aten.index.Tensor %y, %2 : !torch.vtensor<[3,4,5],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[3,?,7],f32>
  %4 = torch.prim.ListConstruct %none, %b, %one : (!torch.none, !torch.vtensor<[?,1],si64>, !torch.vtensor<[1,7],si64>) -> !torch.list<optional<vtensor>>
  %5 = torch.aten.index.Tensor %y, %4 : !torch.vtensor<[3,4,5],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[3,?,7],f32>
  return %1, %3, %5 : !torch.vtensor<[?,7,4],f32>, !torch.vtensor<[3,?,7],f32>, !torch.vtensor<[3,?,7],f32>
}

// Indices of several unknown sizes, and what they write, have one dim for these; of one they stay.
// CHECK-LABEL: func.func @pages(
// CHECK: %[[P:.*]] = torch.aten.flatten.using_ints %{{.*}} : !torch.vtensor<[?,?],si64>, {{.*}} -> !torch.vtensor<[?],si64>
// CHECK: %[[WIDE:.*]] = torch.aten.expand %{{.*}} -> !torch.vtensor<[?,?],si64>
// CHECK: %[[O:.*]] = torch.aten.flatten.using_ints %[[WIDE]], {{.*}} -> !torch.vtensor<[?],si64>
// CHECK: %[[NEW:.*]] = torch.aten.flatten.using_ints %arg1, {{.*}} -> !torch.vtensor<[?,8],f32>
// CHECK: %[[LIST:.*]] = torch.prim.ListConstruct %[[P]], %[[O]]
// CHECK: torch.aten.index_put %arg0, %[[LIST]], %[[NEW]]
// CHECK-NOT: torch.aten.flatten.using_ints
// CHECK: torch.aten.index_put %arg0, %{{.*}}, %arg4
func.func @pages(%pages: !torch.vtensor<[24,4,8],f32>, %new: !torch.vtensor<[?,?,8],f32>, %page: !torch.vtensor<[?,?],si64>, %place: !torch.vtensor<[1,?],si64>, %few: !torch.vtensor<[?,3,4,8],f32>, %at: !torch.vtensor<[?,3],si64>) -> (!torch.vtensor<[24,4,8],f32>, !torch.vtensor<[24,4,8],f32>) {
  %no = torch.constant.bool false
  %0 = torch.prim.ListConstruct %page, %place : (!torch.vtensor<[?,?],si64>, !torch.vtensor<[1,?],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index_put %pages, %0, %new, %no : !torch.vtensor<[24,4,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[?,?,8],f32>, !torch.bool -> !torch.vtensor<[24,4,8],f32>
  %2 = torch.prim.ListConstruct %at : (!torch.vtensor<[?,3],si64>) -> !torch.list<optional<vtensor>>
  %3 = torch.aten.index_put %pages, %2, %few, %no : !torch.vtensor<[24,4,8],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[?,3,4,8],f32>, !torch.bool -> !torch.vtensor<[24,4,8],f32>
  return %1, %3 : !torch.vtensor<[24,4,8],f32>, !torch.vtensor<[24,4,8],f32>
}
