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
// RUN: sed 's/"target": "llvm-cpu generic"/"target": "cuda sm_80"/' %S/Inputs/tuned.json > %t.cpu
// RUN: sed 's/llvm-cpu [a-z0-9]*"/cuda sm_80"/; s/"compilation_info": .*/"compilation_info": "#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{}>, translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [2048, 1, 1] subgroup_size = 32>>"/' %S/Inputs/tuned.json > %t.threads
// RUN: sed 's/2048, 1/80, 1/' %t.threads > %t.lanes
// RUN: sed 's/cuda sm_80/llvm-cpu generic/' %t.lanes > %t.gpu
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.cpu}" 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.gpu}" 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.threads}" 2>&1 | FileCheck %s --check-prefix=THREADS
// RUN: not attn-opt %s --attn-configure="target=llvm-cpu source={%t.lanes}" 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=sm_80 --attn-table=%S/Inputs/tuned.json --compile-to=flow -o %t 2>&1 | FileCheck %s --check-prefix=NONE-FOR-IT
// RUN: not attn-compile %s %cpu --attn-table=%t.half -o %t 2>&1 | FileCheck %s --check-prefix=HALF

// NONE: {{.*}}.none: error: cannot read the table: no such file or directory
// HALF: {{.*}}.half:2:1: error: no table: Expecting property name
// FORMAT: {{.*}}.other: error: no table: it has no "format": "attnpass-attention-table"
// NEWER: {{.*}}.newer: error: a table of version 9; this reads 1
// ENTRY: {{.*}}.entry: error: entry 1: "target" is missing or not text
// RANK: {{.*}}.rank: error: entry 1: distribution has 4 numbers for 5 dims
// ATTRIBUTE: error: {{.*}}nothing
// ATTRIBUTE: {{.*}}.attribute: error: entry 1: "compilation_info":
// CPU: {{.*}}.cpu: error: entry 1: a configuration for CPUs, but the target is 'cuda sm_80'
// GPU: {{.*}}.gpu: error: entry 1: a configuration for GPUs, but the target is 'llvm-cpu generic'
// THREADS: {{.*}}.threads: error: entry 1: 2048 threads a workgroup, of which GPUs run at most 1024
// LANES: {{.*}}.lanes: error: entry 1: 80 threads are no whole number of subgroups of 32
// NONE-FOR-IT: warning: ignored: {{.*}}tuned.json has no entry for cuda sm_80, but for llvm-cpu generic, llvm-cpu znver4

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
