"""What the doors for torch, ONNX and JAX share: devices, arrays and programs of IREE's runtime."""
