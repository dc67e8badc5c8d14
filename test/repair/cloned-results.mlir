// A kernel without tensors is handed one wherever it runs, if what it makes is written into, beside
// another result or another reader. What is read alone stays, and so does a kernel that reads a
// tensor.

// RUN: attn-opt %s --attn-cloned-results --remarks 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: attn-opt %s --attn-cloned-results > %t.1 && attn-opt %t.1 --attn-cloned-results > %t.2 && diff %t.1 %t.2
// WHY-COUNT-2: is handed a tensor: IREE 3.13 copies no results of kernels that read none
// WHY-NOT: is handed

!in = !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>
!out = !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>
// CHECK: flow.executable private @two
// CHECK: func.func @two(%[[N:.*]]: index, %{{.*}}: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2xi8>>, %[[A:.*]]: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>, %[[B:.*]]: !iree
// CHECK: dispatch.tensor.store %{{.*}}, %[[A]], offsets = [0], sizes = [%[[N]]]
// CHECK: dispatch.tensor.store %{{.*}}, %[[B]], offsets = [0], sizes = [%[[N]]]
flow.executable private @two {
  flow.executable.export public @two
  builtin.module {
    func.func @two(%n: index, %a: !out, %b: !out) {
      %e = tensor.empty(%n) : tensor<?xf32>
      iree_tensor_ext.dispatch.tensor.store %e, %a, offsets = [0], sizes = [%n], strides = [1] : tensor<?xf32> -> !out{%n}
      iree_tensor_ext.dispatch.tensor.store %e, %b, offsets = [0], sizes = [%n], strides = [1] : tensor<?xf32> -> !out{%n}
      return
    }
  }
}
// CHECK: func.func @one(%{{.*}}: index, %{{.*}}: !iree_tensor_ext.dispatch.tensor<readonly:tensor<2xi8>>, %{{.*}}: !iree
flow.executable private @one {
  flow.executable.export public @one
  builtin.module {
    func.func @one(%n: index, %a: !out) {
      %e = tensor.empty(%n) : tensor<?xf32>
      iree_tensor_ext.dispatch.tensor.store %e, %a, offsets = [0], sizes = [%n], strides = [1] : tensor<?xf32> -> !out{%n}
      return
    }
  }
}
// CHECK: func.func @reads(%{{[a-z0-9]*}}: index, %{{[a-z0-9]*}}: !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>, %{{[a-z0-9]*}}: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>) {
flow.executable private @reads {
  flow.executable.export public @reads
  builtin.module {
    func.func @reads(%n: index, %x: !in, %a: !out) {
      %e = tensor.empty(%n) : tensor<?xf32>
      iree_tensor_ext.dispatch.tensor.store %e, %a, offsets = [0], sizes = [%n], strides = [1] : tensor<?xf32> -> !out{%n}
      return
    }
  }
}

// CHECK: util.global private @__attn_unread = dense<[0, 1]> : tensor<2xi8>
// CHECK-LABEL: util.func public @written(
// CHECK: %[[UNREAD:.*]] = util.global.load @__attn_unread : tensor<2xi8>
// CHECK: flow.dispatch @two::@two[%arg0](%arg0, %[[UNREAD]]) : (index, tensor<2xi8>) -> (tensor<?xf32>{%arg0}, tensor<?xf32>{%arg0})
util.func public @written(%n: index, %u: tensor<1xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c1 = arith.constant 1 : index
  %r:2 = flow.dispatch @two::@two[%n](%n) : (index) -> (tensor<?xf32>{%n}, tensor<?xf32>{%n})
  %s = flow.tensor.update %u, %r#1[%c1] : tensor<1xf32> -> %r#1 as tensor<?xf32>{%n}
  util.return %r#0, %s : tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: util.func public @read_twice(
// CHECK: flow.dispatch @one::@one[%arg0](%arg0, %{{.*}}) : (index, tensor<2xi8>) -> tensor<?xf32>{%arg0}
util.func public @read_twice(%n: index, %u: tensor<1xf32>) -> (!hal.buffer_view, !hal.buffer_view) {
  %c1 = arith.constant 1 : index
  %r = flow.dispatch @one::@one[%n](%n) : (index) -> tensor<?xf32>{%n}
  %s = flow.tensor.update %u, %r[%c1] : tensor<1xf32> -> %r as tensor<?xf32>{%n}
  %a = hal.tensor.export %r : tensor<?xf32>{%n} -> !hal.buffer_view
  %b = hal.tensor.export %s : tensor<?xf32>{%n} -> !hal.buffer_view
  util.return %a, %b : !hal.buffer_view, !hal.buffer_view
}

// The kernel has the argument everywhere.
// CHECK-LABEL: util.func public @read_alone(
// CHECK: flow.dispatch @one::@one[%arg0](%arg0, %{{.*}}) : (index, tensor<2xi8>) -> tensor<?xf32>{%arg0}
// CHECK: flow.dispatch @reads::@reads[%arg0](%arg0, %{{.*}}) : (index, tensor<?xf32>{%arg0}) -> tensor<?xf32>{%arg0}
util.func public @read_alone(%n: index) -> (!hal.buffer_view, !hal.buffer_view) {
  %r = flow.dispatch @one::@one[%n](%n) : (index) -> tensor<?xf32>{%n}
  %s = flow.dispatch @reads::@reads[%n](%n, %r) : (index, tensor<?xf32>{%n}) -> tensor<?xf32>{%n}
  %a = hal.tensor.export %r : tensor<?xf32>{%n} -> !hal.buffer_view
  %b = hal.tensor.export %s : tensor<?xf32>{%n} -> !hal.buffer_view
  util.return %a, %b : !hal.buffer_view, !hal.buffer_view
}
