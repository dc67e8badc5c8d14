"""Programs in another form of the same meaning: attention in one order of dims, with joined dims,
with shared masks, written out; convolutions as products, sorts as comparisons, reshapes and writes
by index as IREE folds them."""
