// A model that does not parse, or does not fit what is asked of it.

// RUN: rm -rf %t.verify
// RUN: echo 'func.func @f( {' > %t.bad
// RUN: not attn-verify %t.bad --device=llvm-cpu --folder=%t.verify --quiet 2>&1 | FileCheck %s --check-prefix=PARSE
// RUN: not attn-verify %s --device=llvm-cpu --folder=%t.verify --quiet --function=g 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not attn-verify %s --device=llvm-cpu --folder=%t.verify --quiet --inputs=%s 2>&1 | FileCheck %s --check-prefix=INPUTS

// PARSE: .bad:1:{{[0-9]+}}: error: expected
// FUNCTION: attn-verify: error: no function 'g' (it has: main)
// INPUTS: models.mlir: error: cannot read it as a .npz

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
