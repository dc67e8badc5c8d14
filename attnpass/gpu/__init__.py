"""Attention and products fitted to the tiles of GPUs, copies, sums and writes by index as many
threads do them, kernels rewritten below IREE's lowering, and what a call costs beside its
kernels."""
