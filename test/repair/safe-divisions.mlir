// Integers that are divided by what is known at run time are divided by 1 where that is 0, or -1.

// RUN: attn-opt %s --attn-safe-divisions --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt

// WHY-COUNT-3: divides by 1 where it would by 0: CPUs end the process there
// WHY-NOT: divides

module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device]} {

// CHECK-LABEL: func.func @computed(
// CHECK: ^bb0(%[[X:.*]]: i64, %[[Y:.*]]: i64, %{{.*}}: i64):
// CHECK: %[[ZERO:.*]] = arith.cmpi eq, %[[Y]], %{{.*}} : i64
// CHECK: %[[SOME:.*]] = arith.select %[[ZERO]], %{{.*}}, %[[Y]]
// CHECK: %[[MINUS:.*]] = arith.cmpi eq, %[[Y]],
// CHECK: %[[SAFE:.*]] = arith.select %[[MINUS]], %{{.*}}, %[[SOME]]
// CHECK: %[[Q:.*]] = arith.divsi %[[X]], %[[SAFE]]
// CHECK: %[[NEGATED:.*]] = arith.subi %{{.*}}, %[[X]]
// CHECK: %[[P:.*]] = arith.select %[[MINUS]], %[[NEGATED]], %[[Q]]
// CHECK: arith.select %[[ZERO]], %{{.*}}, %[[P]]
// CHECK: %[[R:.*]] = arith.remui %[[X]], %{{.*}}
// CHECK: arith.select %{{.*}}, %[[X]], %[[R]]
// A known divisor stays, and so does a quotient of sizes.
// CHECK: arith.divsi %{{.*}}, %{{.*}} : i64
// CHECK: arith.divsi %{{.*}}, %{{.*}} : index
// CHECK-NOT: arith.select
// CHECK: linalg.yield
func.func @computed(%x: tensor<8xi64>, %y: tensor<8xi64>, %e: tensor<8xi64>) -> tensor<8xi64> {
  %three = arith.constant 3 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xi64>, tensor<8xi64>) outs(%e : tensor<8xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %q = arith.divsi %a, %b : i64
    %r = arith.remui %a, %b : i64
    %s = arith.addi %q, %r : i64
    %t = arith.divsi %s, %three : i64
    %i = linalg.index 0 : index
    %j = arith.divsi %i, %i : index
    %k = arith.index_cast %j : index to i64
    %u = arith.addi %t, %k : i64
    linalg.yield %u : i64
  } -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// Tensors are divided element by element; a known divisor stays.
// CHECK-LABEL: func.func @whole(
// CHECK: linalg.generic
// CHECK: arith.select
// CHECK: arith.remsi %{{.*}}, %{{.*}} : i64
// CHECK: arith.divsi %{{.*}}, %{{.*}} : tensor<8xi64>
func.func @whole(%x: tensor<8xi64>, %y: tensor<8xi64>) -> tensor<8xi64> {
  %three = arith.constant dense<3> : tensor<8xi64>
  %r = arith.remsi %x, %y : tensor<8xi64>
  %q = arith.divsi %r, %three : tensor<8xi64>
  return %q : tensor<8xi64>
}
}
