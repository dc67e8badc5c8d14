"""Shapes of attention that fit the tiles of GPU kernels: the pass and its parts."""
