"""Precompiled kernels for Hopper GPUs: their sources, machine code and manifest."""
