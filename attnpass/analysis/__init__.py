"""Elements of tensors as expressions of their indices: masks and index tables, understood."""
