// The five passes that attn-fit-tiles was, one after the other, are its parts.

// RUN: attn-opt %S/tiles.mlir --attn-cut-heads=target=sm_80 --attn-pad-heads=target=sm_80 --attn-tile-dynamic=target=sm_80 --attn-mask-dynamic-keys=target=sm_80 --attn-pad-keys=target=sm_80 > %t.0
// RUN: attn-opt %S/tiles.mlir --attn-fit-tiles=target=sm_80 > %t.1 && diff %t.0 %t.1 && FileCheck %s --input-file=%t.1
// CHECK: tensor.extract
// RUN: not attn-opt %s -p attn-pad-keys{only=heads} 2>&1 | FileCheck %s --check-prefix=ONLY
// ONLY: pass 'attn-pad-keys' is 'attn-fit-tiles{only=keys}', and runs nothing else
