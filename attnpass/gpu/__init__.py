"""Attention fitted to the tiles of GPUs, and kernels rewritten below IREE's lowering."""
