// Parts are handled one by one: a broken one does not hide the mistakes of the next, lines
// count from the top of the file, and nothing is written if one fails.

// RUN: echo before > %t
// RUN: not attn-opt %s --split-input-file -o %t > %t.messages 2>&1
// RUN: FileCheck %s < %t.messages
// RUN: FileCheck %s --check-prefix=KEPT < %t

// Blank parts are no parts: a file may end with a dividing line.
// RUN: printf 'func.func private @a()\n// -----\n\n// -----\nfunc.func private @b()\n// -----\n' | attn-opt - --split-input-file | FileCheck %s --check-prefix=BLANK

// BLANK: @a
// BLANK: // -----
// BLANK-NOT: // -----
// BLANK: @b
// BLANK-NOT: // -----

// KEPT: before
// KEPT-NOT: func.func

func.func @good() {
  return
}

// -----

// CHECK: split.mlir:[[# @LINE + 2]]:{{[0-9]+}}: error: use of undeclared SSA value name
func.func @first() -> i32 {
  return %nothing : i32
}

// -----

// CHECK: split.mlir:[[# @LINE + 3]]:{{[0-9]+}}: error: use of undeclared SSA value name
// CHECK-NOT: error
func.func @second() -> i32 {
  return %nowhere : i32
}
