"""NVIDIA GPUs: what they are like, tiles and configurations."""
