"""Split-K: decode attention as partial attention over chunks of the keys, then a combine."""
