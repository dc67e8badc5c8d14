// A file that is no table, or a damaged one: one line with its place, and exit code 1.

// RUN: echo '{"format": "attnpass-attention-table", "version": 1,' > %t.half
// RUN: echo '{"format": "something else"}' > %t.other
// RUN: echo '{"format": "attnpass-attention-table", "version": 9, "entries": []}' > %t.newer
// RUN: echo '{"format": "attnpass-attention-table", "version": 1, "entries": [{"target": 1}]}' > %t.entry
// RUN: sed 's/distribution = .1, 16, 32, 0, 0./distribution = [1, 16, 32, 0]/' %S/Inputs/tuned.json > %t.rank
// RUN: sed 's/#iree_cpu.pipeline/#iree_cpu.nothing/' %S/Inputs/tuned.json > %t.attribute
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.none}" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.half}" 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.other}" 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.newer}" 2>&1 | FileCheck %s --check-prefix=NEWER
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.entry}" 2>&1 | FileCheck %s --check-prefix=ENTRY
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.rank}" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.attribute}" 2>&1 | FileCheck %s --check-prefix=ATTRIBUTE
// RUN: not attn-compile %s %cpu --attn-table=%t.half -o %t 2>&1 | FileCheck %s --check-prefix=HALF

// NONE: {{.*}}.none: error: cannot read the table: no such file or directory
// HALF: {{.*}}.half:2:1: error: no table: Expecting property name
// FORMAT: {{.*}}.other: error: no table: it has no "format": "attnpass-attention-table"
// NEWER: {{.*}}.newer: error: a table of version 9; this reads 1
// ENTRY: {{.*}}.entry: error: entry 1: "target" is missing or not text
// RANK: {{.*}}.rank: error: entry 1: distribution has 4 numbers for 5 dims
// ATTRIBUTE: error: {{.*}}nothing
// ATTRIBUTE: {{.*}}.attribute: error: entry 1: "compilation_info":

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
