"""A report as one HTML file for a browser: no network, no other file."""

from .document import page

__all__ = ["page"]
