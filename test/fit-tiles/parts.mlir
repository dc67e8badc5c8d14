// A family runs its parts, one after the other.

// RUN: attn-opt %S/tiles.mlir --attn-cut-heads=target=sm_80 --attn-pad-heads=target=sm_80 --attn-tile-dynamic=target=sm_80 --attn-mask-dynamic-keys=target=sm_80 --attn-pad-keys=target=sm_80 > %t.0
// RUN: attn-opt %S/tiles.mlir --attn-fit-tiles=target=sm_80 > %t.1 && diff %t.0 %t.1 && FileCheck %s --input-file=%t.1
// CHECK: tensor.extract
// RUN: not attn-opt %s -p attn-fit-tiles{only=heads} 2>&1 | FileCheck %s --check-prefix=ONLY
// ONLY: pass 'attn-fit-tiles': 'heads' is not a value of option 'only' (use cut-heads, pad-heads, tile-dynamic, mask-dynamic-keys, pad-keys)
