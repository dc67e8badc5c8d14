"""Attention ops: facts, masks, score functions, and the one way to make an op again."""
