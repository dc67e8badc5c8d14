// What one tries first: help and version tell of both tools, the small model of the docs compiles.

// RUN: attn-compile --help > %t.help
// RUN: FileCheck %s --check-prefix=HELP --input-file=%t.help
// RUN: attn-compile --version | FileCheck %s --check-prefix=VERSION
// RUN: attn-tune --version | FileCheck %s --check-prefix=TUNE
// RUN: attn-compile %S/../../docs/layer.mlir %cpu --attn-mode=always --attn-summary -o %t 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: attn-compile %S/../../docs/layer.mlir %cpu --attn-disable --attn-summary -o %t 2>&1 | FileCheck %s --check-prefix=OFF

// HELP: usage: attn-compile
// HELP: --attn-mode=cost|always|never
// HELP: USAGE: iree-compile
// VERSION: attnpass {{[0-9.]+}} (iree-base-compiler 3.13.{{[0-9]+}})
// VERSION: IREE compiler version 3.13
// TUNE: attnpass {{[0-9.]+}} (iree-base-compiler 3.13.{{[0-9]+}})
// LAYER: @main: attention at {{.*}}layer.mlir:29:13
// LAYER: value absorbed: k2 innermost in V, absorbed by linalg.matmul
// OFF: note: not run: iree-compile was called as it is, without the passes
