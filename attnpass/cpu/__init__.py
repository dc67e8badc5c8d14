"""Attention on CPUs as vector loops of our own, from IREE's tiles to LLVM."""
