// Each mistake is one line with the place or the tool's name in front, and exit code 1; what
// stood in the output file stays.

// RUN: rm -rf %t.tuning && echo before > %t
// RUN: not attn-tune %s --device=llvm-cpu --folder=%t.tuning 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not attn-tune --device=llvm-cpu -o %t 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not attn-tune %s -o %t 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not attn-tune %s --device=vulkan -o %t 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not attn-tune %s --device=cuda -o %t 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not attn-tune %s --device=llvm-cpu -o %t --tabel=x 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not attn-tune %s --device=llvm-cpu -o %t --jobs=none 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not attn-tune %s --device=llvm-cpu -o %t --table=%t 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not attn-tune %t --device=llvm-cpu -o %t 2>&1 | FileCheck %s --check-prefix=OVER
// RUN: not attn-tune %s --device=llvm-cpu -o %t.no/x 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not attn-tune %s.none --device=llvm-cpu -o %t 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not attn-tune %s --device=llvm-cpu -o %t --folder=%t.tuning 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: echo 'func.func @f( {' > %t.bad
// RUN: not attn-tune %t.bad --device=llvm-cpu -o %t --folder=%t.tuning 2>&1 | FileCheck %s --check-prefix=PARSE
// RUN: not attn-tune --run=%t.none 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not attn-tune --finish=%t.none -o %t 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not attn-tune --run=%t.tuning --finish=%t.tuning 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not attn-tune %s --run=%t.tuning 2>&1 | FileCheck %s --check-prefix=EXTRA
// RUN: FileCheck %s --check-prefix=BEFORE --input-file=%t
// RUN: attn-tune --help | FileCheck %s --check-prefix=HELP

// BEFORE: before
// HELP: usage: attn-tune MODEL

// NOTHING: attn-tune: error: nothing to write: give -o SPEC, --table=FILE or both
// MODEL: attn-tune: error: no model; give the path of an MLIR file
// DEVICE: attn-tune: error: no --device (use cuda, llvm-cpu)
// OTHER: attn-tune: error: 'vulkan' is not a value of --device (use cuda, llvm-cpu)
// ARCH: attn-tune: error: --device=cuda needs the GPU's architecture: --iree-cuda-target=sm_80
// OPTION: attn-tune: error: unknown option '--tabel=x'; did you mean '--table'?
// NUMBER: attn-tune: error: 'none' is not a value of --jobs (use a whole number from 1 on)
// ONE: error: the spec and the table cannot be one file
// OVER: error: the spec would overwrite the input
// NOWHERE: x: error: cannot write it: no folder
// MISSING: mistakes.mlir.none: error: cannot read it: no such file or directory
// NONE: mistakes.mlir: error: it has no attention to tune
// PARSE: .bad:1:{{[0-9]+}}: error: expected
// FOLDER: .none: error: no tuning folder: manifest.json is missing or damaged
// STEPS: attn-tune: error: --run and --finish are two steps: give one of them
// EXTRA: attn-tune: error: --run takes no model: the folder has it

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
