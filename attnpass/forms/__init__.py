"""Attention in another form of the same meaning: normal, with joined dims, written out."""
