"""Kernels at IREE's code generation: found, lowered in parts, marked; PTX and codes of fp8."""
