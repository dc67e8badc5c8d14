// Each mistake is one line with the place or the tool's name in front, and exit code 1.

// RUN: not attn-verify --device=llvm-cpu 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not attn-verify %s 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not attn-verify %s --device=vulkan 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not attn-verify %s --device=cuda 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not attn-verify %s --device=llvm-cpu --randon=3 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not attn-verify %s --device=llvm-cpu --random=no 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not attn-verify %s --device=llvm-cpu --length=a.1=3 2>&1 | FileCheck %s --check-prefix=LENGTH
// RUN: not attn-verify %s --device=llvm-cpu --range=0=5:2 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not attn-verify %s --device=llvm-cpu --plain --attn-mode=never 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not attn-verify %s.none --device=llvm-cpu 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not attn-verify --run=%t.none 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not attn-verify --finish=%t.none 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not attn-verify --run=%t.verify --finish=%t.verify 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not attn-verify %s --run=%t.verify 2>&1 | FileCheck %s --check-prefix=EXTRA
// RUN: attn-verify --help | FileCheck %s --check-prefix=HELP

// HELP: usage: attn-verify MODEL

// MODEL: attn-verify: error: no model; give the path of an MLIR file
// DEVICE: attn-verify: error: no --device (use cuda, llvm-cpu)
// OTHER: attn-verify: error: 'vulkan' is not a value of --device (use cuda, llvm-cpu)
// ARCH: attn-verify: error: --device=cuda needs the GPU's architecture: --iree-cuda-target=sm_80
// OPTION: attn-verify: error: unknown option '--randon=3'; did you mean '--random'?
// NUMBER: attn-verify: error: 'no' is not a value of --random (use a whole number from 1 on)
// LENGTH: attn-verify: error: 'a.1=3' is not a value of --length (use N or ARGUMENT.DIM=N)
// RANGE: attn-verify: error: '0=5:2' is not a value of --range (use LOW:HIGH or ARGUMENT=LOW:HIGH)
// PLAIN: attn-verify: error: --plain verifies iree-compile, which takes no '--attn-mode=never'
// MISSING: mistakes.mlir.none: error: cannot read it: no such file or directory
// FOLDER: .none: error: no verification folder: manifest.json is missing or damaged
// STEPS: attn-verify: error: --run and --finish are two steps: give one of them
// EXTRA: attn-verify: error: --run takes no model: the folder has it

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
