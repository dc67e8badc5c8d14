"""attn-verify: what a compiled model computes, held against a reference, and where it differs."""
