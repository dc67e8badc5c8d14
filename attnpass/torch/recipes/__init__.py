"""What ops of torch are made of, where IREE 3.13's import lacks them or fails on them.

Each file has a table of its subject: an op, and a function of its arguments that writes it in other
ops. A recipe may leave what it is not for (NotImplemented).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    arithmetic,
    complexes,
    functions,
    images,
    indices,
    matrices,
    products,
    scans,
    shapes,
    sorts,
    special,
    sums,
    windows,
)
from .by_torch import COMPOSED, DECOMPOSED
from .products import library_recipes

__all__ = ["COMPOSED", "DECOMPOSED", "RECIPES", "library_recipes"]

# What neither IREE nor torch takes apart.
RECIPES: dict[Any, Callable[..., Any]] = {
    **arithmetic.RECIPES,
    **complexes.RECIPES,
    **functions.RECIPES,
    **images.RECIPES,
    **indices.RECIPES,
    **matrices.RECIPES,
    **products.RECIPES,
    **scans.RECIPES,
    **shapes.RECIPES,
    **sorts.RECIPES,
    **special.RECIPES,
    **sums.RECIPES,
    **windows.RECIPES,
}
