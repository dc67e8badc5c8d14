"""The compile hook: IREE's compiler with our passes between its phases."""
