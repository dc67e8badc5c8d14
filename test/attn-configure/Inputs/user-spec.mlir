// A tuning spec as a user writes it: every f16 attention of four operand dims.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @give(%op: !transform.any_op {transform.readonly}, %info: !transform.any_param {transform.readonly}, %parts: !transform.any_param {transform.readonly}) {
    transform.annotate %op "compilation_info" = %info : !transform.any_op, !transform.any_param
    transform.annotate %op "decomposition_config" = %parts : !transform.any_op, !transform.any_param
    transform.yield
  }
  transform.named_sequence @ours(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.any_param, !transform.any_param) {
    transform.iree.match.has_no_lowering_config %op : !transform.any_op
    transform.match.operation_name %op ["iree_linalg_ext.online_attention"] : !transform.any_op
    %q = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %q = tensor<?x?x?x?xf16> : !transform.any_value
    %info = transform.param.constant #iree_codegen.compilation_info<
        lowering_config = #iree_gpu.lowering_config<{workgroup = [1, 1, 128, 0, 0, 0], reduction = [0, 0, 0, 0, 0, 64], promote_operands = [1, 2]}>,
        translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [64, 4] subgroup_size = 64>> -> !transform.any_param
    %parts = transform.param.constant {
      qk_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.virtual_mma_layout<VMFMA_F32_32x32x16_F16, col_major = true>, subgroup_basis = [[1, 1, 4, 1, 1, 1], [0, 1, 2, 4, 5]], promote_operands = [1]}>},
      pv_attrs = {lowering_config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<MFMA_F32_32x32x8_F16, col_major = true>, subgroup_basis = [[1, 1, 4, 1, 1, 1], [0, 1, 2, 3, 5]], promote_operands = [1]}>}
    } -> !transform.any_param
    transform.yield %op, %info, %parts : !transform.any_op, !transform.any_param, !transform.any_param
  }
  transform.named_sequence @__kernel_config(%variant: !transform.any_op {transform.consumed}) {
    transform.foreach_match in %variant @ours -> @give : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
