"""CUDA kernels lowered further than by IREE: the pass and its parts."""
