// Each mistake is one line with the place or the tool's name in front, and exit code 1; what
// stood in the output file stays.

// RUN: echo before > %t
// RUN: not attn-compile %s.missing %cpu -o %t 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not attn-compile %S %cpu -o %t 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not attn-compile %s %cpu -o %t.no/x 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: printf "" | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: printf '\377\376\000' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=BINARY
// RUN: not attn-compile %s %cpu --attn-mod=always -o %t 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not attn-compile %s %cpu --no-such-flag -o %t 2>&1 | FileCheck %s --check-prefix=LLVM
// RUN: not attn-compile %s %cpu --attn-pipeline=attn-foo -o %t 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not attn-compile %s %cpu --attn-pipeline=cse,foo -o %t 2>&1 | FileCheck %s --check-prefix=FOREIGN
// RUN: not attn-compile %s %cpu --attn-target=z80 -o %t 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-compile %s --iree-hal-target-backends=z80 -o %t 2>&1 | FileCheck %s --check-prefix=BACKEND
// RUN: not attn-compile %s %cpu --compile-to=nowhere -o %t 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not attn-compile %s --iree-hal-target-device=cuda --iree-cuda-target=gfx942 -o %t 2>&1 | FileCheck %s --check-prefix=CRASH
// RUN: not attn-compile %s %cpu -o %t --attn-report=%t 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: echo 'module {}' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: echo 'func.func @f() { "foo.bar"() : () -> () return }' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=OP
// RUN: echo 'func.func @f(%x: !torch.vtensor<[1,1,4,4],f32>, %g: !torch.vtensor<[1,1,3,2],f32>) -> !torch.vtensor<[1,1,1,3],f32> { %2 = torch.constant.int 2 %0 = torch.constant.int 0 %no = torch.constant.bool false %r = torch.aten.grid_sampler %x, %g, %2, %0, %no : !torch.vtensor<[1,1,4,4],f32>, !torch.vtensor<[1,1,3,2],f32>, !torch.int, !torch.int, !torch.bool -> !torch.vtensor<[1,1,1,3],f32> return %r : !torch.vtensor<[1,1,1,3],f32> }' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=CUBIC
// RUN: echo 'func.func @f() { call @g() : () -> () return } func.func @g() { call @f() : () -> () return }' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=ITSELF
// RUN: echo 'func.func @f() -> tensor<2xf32> { %c = arith.constant dense_resource<__elided__> : tensor<2xf32> return %c : tensor<2xf32> }' | not attn-compile - %cpu -o %t 2>&1 | FileCheck %s --check-prefix=ELIDED
// RUN: not attn-compile %s %cpu --attn-target=sm_9 -o %t 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not attn-compile %s %cpu --attn-target=sm_90 -o %t 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: env TMPDIR=%t.no not attn-compile %s %cpu -o %t 2>&1 | FileCheck %s --check-prefix=TEMPORARY
// RUN: FileCheck %s --check-prefix=BEFORE --input-file=%t

// BEFORE: before

// MISSING-NOT: Traceback
// MISSING: mistakes.mlir.missing: error: cannot read it: no such file or directory
// FOLDER: attn-compile: error: cannot read it: is a directory
// NOWHERE: x: error: cannot write it: no folder
// EMPTY: <stdin>:1:1: error: the file is empty
// BINARY: <stdin>:1:1: error: neither MLIR text nor MLIR bytecode
// FLAG: attn-compile: error: unknown flag '--attn-mod'; did you mean '--attn-mode'?
// LLVM: attn-compile: Unknown command line argument '--no-such-flag'.
// PASS: attn-compile: error: unknown pass 'attn-foo'
// FOREIGN: attn-compile: error: pass 'foo': {{.*}}foo
// TARGET: attn-compile: error: unknown target 'z80' (known:
// BACKEND: attn-compile: error: --iree-hal-target-backends: unknown backend 'z80' (known: {{.*}}llvm-cpu
// CRASH: Unknown CUDA target 'gfx942'
// CRASH: mistakes.mlir: error: IREE's compiler crashed (segmentation fault)
// ONE: error: the output and the report cannot be one file
// NOTHING: <stdin>:1:1: error: no function is public and has a body: there is nothing to compile; make one public
// ELIDED: <stdin>:1:{{[0-9]+}}: error: the numbers of 'arith.constant' are left out of the text: print the module without
// OP: <stdin>:1:18: error: 'foo.bar' is an op of no dialect that IREE knows
// CUBIC: <stdin>:1:{{[0-9]+}}: error: 'torch.aten.grid_sampler' takes cubic samples, and IREE's import bilinear ones
// ITSELF: <stdin>:1:18: error: 'f' calls itself, which IREE does not compile
// TEMPORARY: .no: error: the environment's TMPDIR is no folder that files can be written in
// OLD: attn-compile: error: unknown target 'sm_9' (known:
// OTHER: attn-compile: error: the target 'sm_90' is none of llvm-cpu, as the module's are
// PHASE: attn-compile: error: unknown phase 'nowhere' (known: start, input

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
