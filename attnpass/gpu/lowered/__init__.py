"""Rewrites of GPU kernels between IREE's lowering to vectors and its conversion to LLVM."""
