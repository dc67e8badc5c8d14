"""What the configurations of all families of GPUs share."""
