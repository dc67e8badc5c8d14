// What would run for these flags, in order, with the reasons; no input is needed.
//
// RUN: attn-compile --attn-show-pipeline --attn-kernels=cost --iree-hal-target-device=cuda | filecheck %s --check-prefix=CUDA
// RUN: attn-compile --attn-show-pipeline --attn-configure=false --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu | filecheck %s --check-prefix=CPU
// RUN: attn-compile --attn-show-pipeline --attn-pipeline=attn-raise,cse --attn-phase=input | filecheck %s --check-prefix=GIVEN
// RUN: attn-compile --attn-show-pipeline --attn-disable | filecheck %s --check-prefix=NONE
// RUN: not attn-compile --attn-show-pipeline --attn-pipeline=attn-foo 2>&1 | filecheck %s --check-prefix=FOO
// RUN: attn-opt --show-passes | filecheck %s --check-prefix=PASSES

// CUDA:      start
// CUDA-NEXT:   attn-repair-imports
// CUDA-NEXT:       ops of PyTorch, ONNX and JAX
// CUDA-NEXT:       because IREE's importers get ops of front ends wrong, or make them slow
// CUDA-NEXT:     attn-flex-masks
// CUDA-NEXT:         FlexAttention's masks hide keys behind its score function
// CUDA-NEXT:         because keys that FlexAttention hides get the score
// CUDA:      preprocessing
// CUDA:        attn-raise
// CUDA-NEXT:       products and a softmax between them as an attention op
// CUDA-NEXT:       because all that follows works on attention ops
// CUDA-NEXT:       off by --attn-configure=false or --attn-raise=false
// CUDA:        attn-use-kernels{mode=cost}
// CUDA:            off by --attn-kernels=never
// CUDA:        attn-fit-tiles{only=cut-heads,pad-heads,tile-dynamic,mask-dynamic-keys}
// CUDA:          attn-tile-dynamic
// CUDA-NEXT:         GPUs: keys and rows known only at run time are viewed as tiles
// CUDA-NEXT:         because IREE's kernels for keys known only at run time multiply one by one
// CUDA-NEXT:         off by --attn-configure=false
// CUDA-NEXT:     attn-mask-dynamic-keys
// CUDA-NEXT:         GPUs: keys known only at run time have a mask
// CUDA-NEXT:         because IREE's kernels for GPUs count keys that are not there
// CUDA-NEXT:   attn-fit-products
// CUDA-NOT:    attn-store-operands
// CUDA:      flow
// CUDA:        attn-configure
// CUDA-NOT:    attn-vectorize
// CUDA:      hal
// CUDA-NEXT:   attn-repair-calls
// CUDA:          attn-empty-dispatches
// CUDA:          attn-assemble-kernels
// CUDA:            off by --attn-ptxas=never

// CPU-NOT:   attn-raise
// CPU:       attn-propagate-layout{mode=cost operands=v,k,q}
// CPU-NOT:   attn-fit-tiles
// CPU:       attn-fuse-copies{only=scatter-rows,slice-heads,place-pieces}
// CPU:         attn-slice-heads
// CPU-NEXT:        parts of a packed tensor
// CPU-NEXT:        because IREE copies slices that are reshaped
// CPU-NEXT:    attn-place-pieces
// CPU:       attn-decompose{only=wrong configured=false}
// CPU-NOT:   attn-configure
// CPU-NOT:   attn-repair-calls

// PASSES:      At the end of IREE's phase 'start':
// PASSES-NEXT:   attn-repair-imports{only=}  ops of PyTorch, ONNX and JAX
// PASSES-NEXT:     attn-flex-masks  FlexAttention's masks hide keys behind its score function; keys that
// PASSES:      At the end of IREE's phase 'hal':
// PASSES-NEXT:   attn-repair-calls{ptxas=auto only=}
// PASSES-NEXT:     attn-empty-dispatches
// PASSES-NEXT:     attn-spin-waits
// PASSES-NEXT:     attn-assemble-kernels{ptxas=auto}
// PASSES-NEXT: Not in the default pipeline:
// PASSES-NEXT:   attn-bubble-transpose-v

// GIVEN:      input
// GIVEN-NEXT:   attn-raise
// GIVEN-NEXT:       products and a softmax between them as an attention op
// GIVEN-NEXT:   cse
// GIVEN-NOT:  {{.}}

// NONE: nothing: --attn-disable is plain iree-compile
// FOO: attn-compile: error: unknown pass 'attn-foo'
