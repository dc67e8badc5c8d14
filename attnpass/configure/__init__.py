"""Kernel configurations attached to attention, and what goes with them."""
