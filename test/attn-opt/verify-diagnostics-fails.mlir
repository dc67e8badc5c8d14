// What does not fit is told with its line, and the exit code is 1.

// RUN: not attn-opt %s --split-input-file --verify-diagnostics --attn-bubble-transpose-v -o %t 2>&1 | FileCheck %s

// CHECK: fails.mlir:[[# @LINE + 3]]:{{[0-9]+}}: error: unexpected error: use of undeclared SSA value name
// CHECK: fails.mlir:[[# @LINE + 1]]:1: error: expected error "some other text" was not produced
func.func @other_text() -> i32 { // expected-error @+1 {{some other text}}
  return %nothing : i32
}

// -----

// CHECK: fails.mlir:[[# @LINE + 3]]:{{[0-9]+}}: error: unexpected error: use of undeclared SSA value name
// CHECK: fails.mlir:[[# @LINE + 1]]:1: error: expected error "use of undeclared" was not produced
func.func @other_line() -> i32 { // expected-error {{use of undeclared}}
  return %nothing : i32
}

// -----

// CHECK: fails.mlir:[[# @LINE + 1]]:1: error: expected remark "value kept" was not produced
func.func @silent() { // expected-remark {{value kept}}
  return
}

// -----

// A comment that only looks like an expectation is a mistake of the test.
// CHECK: fails.mlir:[[# @LINE + 1]]:1: error: malformed expectation
func.func @malformed() { // expected-error {text in single braces}
  return
}

// -----

// An expectation is met once.
// CHECK: fails.mlir:[[# @LINE + 3]]:1: error: expected error "use of undeclared" was not produced
// CHECK-NOT: error
// expected-error @+3 {{use of undeclared}}
// expected-error @+2 {{use of undeclared}}
func.func @once() -> i32 {
  return %nothing : i32
}
