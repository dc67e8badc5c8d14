// Kernels write to where a copy would put what they make, and read where it would take it from.
//
// RUN: attn-opt %s --attn-merge-copies | FileCheck %s

#same = affine_map<(a, b) -> (a, b)>
!in = !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x6xf32>>
!out = !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4x6xf32>>
!part = !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x3x6xf32>>
!whole = !iree_tensor_ext.dispatch.tensor<readwrite:tensor<1x4x9xf32>>
module {
  flow.executable private @double {
    flow.executable.export public @double workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      flow.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @double(%in: !in, %out: !out) {
        %a = iree_tensor_ext.dispatch.tensor.load %in, offsets = [0, 0], sizes = [4, 6], strides = [1, 1] : !in -> tensor<4x6xf32>
        %space = tensor.empty() : tensor<4x6xf32>
        %b = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
            ins(%a : tensor<4x6xf32>) outs(%space : tensor<4x6xf32>) {
        ^bb0(%x: f32, %o: f32):
          %y = arith.addf %x, %x : f32
          linalg.yield %y : f32
        } -> tensor<4x6xf32>
        iree_tensor_ext.dispatch.tensor.store %b, %out, offsets = [0, 0], sizes = [4, 6], strides = [1, 1] : tensor<4x6xf32> -> !out
        return
      }
    }
  }
  flow.executable private @put {
    flow.executable.export public @put workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      flow.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @put(%in: !in, %out: !whole) {
        %a = iree_tensor_ext.dispatch.tensor.load %in, offsets = [0, 0], sizes = [4, 6], strides = [1, 1] : !in -> tensor<4x6xf32>
        iree_tensor_ext.dispatch.tensor.store %a, %out, offsets = [0, 0, 3], sizes = [1, 4, 6], strides = [1, 1, 1] : tensor<4x6xf32> -> !whole
        return
      }
    }
  }
  flow.executable private @put_whole {
    flow.executable.export public @put_whole workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      flow.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @put_whole(%in: !in, %out: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<1x4x6xf32>>) {
        %a = iree_tensor_ext.dispatch.tensor.load %in, offsets = [0, 0], sizes = [4, 6], strides = [1, 1] : !in -> tensor<4x6xf32>
        iree_tensor_ext.dispatch.tensor.store %a, %out, offsets = [0, 0, 0], sizes = [1, 4, 6], strides = [1, 1, 1] : tensor<4x6xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<1x4x6xf32>>
        return
      }
    }
  }
  flow.executable private @take {
    flow.executable.export public @take workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      flow.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @take(%in: !part, %out: !out) {
        %a = iree_tensor_ext.dispatch.tensor.load %in, offsets = [0, 1, 0], sizes = [4, 1, 6], strides = [1, 1, 1] : !part -> tensor<4x6xf32>
        iree_tensor_ext.dispatch.tensor.store %a, %out, offsets = [0, 0], sizes = [4, 6], strides = [1, 1] : tensor<4x6xf32> -> !out
        return
      }
    }
  }

  // CHECK: func.func @double_in_place_4(%{{.*}}: !{{.*}}<readonly:tensor<4x6xf32>>, %[[O:.*]]: !{{.*}}<readwrite:tensor<4x9xf32>>)
  // CHECK: dispatch.tensor.store %{{.*}}, %[[O]], offsets = [0, 3], sizes = [4, 6]

  // CHECK: func.func @double_in_place_5(%[[I:.*]]: !{{.*}}<readonly:tensor<4x3x6xf32>>, %{{.*}}: !{{.*}}<writeonly:tensor<4x6xf32>>)
  // CHECK: dispatch.tensor.load %[[I]], offsets = [0, 1, 0], sizes = [4, 1, 6]
  // CHECK-SAME: -> tensor<4x6xf32>

  // CHECK-LABEL: util.func public @written(
  // CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>, %[[W:.*]]: tensor<1x4x9xf32>
  // CHECK-NEXT: %[[F:.*]] = flow.tensor.reshape %[[W]] : tensor<1x4x9xf32> -> tensor<4x9xf32>
  // CHECK-NEXT: %[[R:.*]] = flow.dispatch @double_in_place_4::@double_in_place_4(%[[X]], %[[F]]) : (tensor<4x6xf32>, tensor<4x9xf32>) -> %[[F]]
  // CHECK-NEXT: %[[B:.*]] = flow.tensor.reshape %[[R]] : tensor<4x9xf32> -> tensor<1x4x9xf32>
  // CHECK-NEXT: util.return %[[B]]
  util.func public @written(%x: tensor<4x6xf32>, %whole: tensor<1x4x9xf32>) -> tensor<1x4x9xf32> {
    %a = flow.dispatch @double::@double(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %b = flow.dispatch @put::@put(%a, %whole) : (tensor<4x6xf32>, tensor<1x4x9xf32>) -> %whole
    util.return %b : tensor<1x4x9xf32>
  }

  // CHECK-LABEL: util.func public @read(
  // CHECK-SAME: %[[X:.*]]: tensor<4x3x6xf32>
  // CHECK-NEXT: %[[R:.*]] = flow.dispatch @double_in_place_5::@double_in_place_5(%[[X]]) : (tensor<4x3x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: util.return %[[R]]
  util.func public @read(%x: tensor<4x3x6xf32>) -> tensor<4x6xf32> {
    %a = flow.dispatch @take::@take(%x) : (tensor<4x3x6xf32>) -> tensor<4x6xf32>
    %b = flow.dispatch @double::@double(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    util.return %b : tensor<4x6xf32>
  }

  // Another reads what the kernel makes: it stays, and so does the copy.
  //
  // CHECK-LABEL: util.func public @shared(
  // CHECK: flow.dispatch @double::@double
  // CHECK: flow.dispatch @put::@put
  util.func public @shared(%x: tensor<4x6xf32>, %whole: tensor<1x4x9xf32>) -> (tensor<1x4x9xf32>, tensor<4x6xf32>) {
    %a = flow.dispatch @double::@double(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %b = flow.dispatch @put::@put(%a, %whole) : (tensor<4x6xf32>, tensor<1x4x9xf32>) -> %whole
    util.return %b, %a : tensor<1x4x9xf32>, tensor<4x6xf32>
  }

  // The kernel reads what it would write into.
  //
  // CHECK-LABEL: util.func public @itself(
  // CHECK: flow.dispatch @double::@double
  // CHECK: flow.dispatch @put_whole::@put_whole
  util.func public @itself(%x: tensor<1x4x6xf32>) -> tensor<1x4x6xf32> {
    %rows = flow.tensor.reshape %x : tensor<1x4x6xf32> -> tensor<4x6xf32>
    %a = flow.dispatch @double::@double(%rows) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %b = flow.dispatch @put_whole::@put_whole(%a, %x) : (tensor<4x6xf32>, tensor<1x4x6xf32>) -> %x
    util.return %b : tensor<1x4x6xf32>
  }

  // What is read is no kernel's loop alone: the copy stays.
  //
  // CHECK-LABEL: util.func public @returned(
  // CHECK: flow.dispatch @take::@take
  util.func public @returned(%x: tensor<4x3x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
    %a = flow.dispatch @take::@take(%x) : (tensor<4x3x6xf32>) -> tensor<4x6xf32>
    %b = flow.dispatch @double::@double(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    util.return %a, %b : tensor<4x6xf32>, tensor<4x6xf32>
  }
}
