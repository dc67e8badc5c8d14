"""attn-tune: problems, candidates, measurements, and the files made from them."""
