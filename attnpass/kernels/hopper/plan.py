"""How an attention is given to a kernel: what offers.py decides, and replace.py writes."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from ...attention.visible_keys import Mask
from ...ir import ranked_shape
from .. import Offer
from .latent import LatentPlace
from .manifest import Kernel
from .places import HeadPlace


@dataclass(frozen=True)
class MaskPlace:
    """Which mask a head reads, of those that a mask operand holds one after the other.

    `order` is the order of the operand's dims that the kernel reads; `heads` are the iteration
    dims among its dims that number masks, `inner` those of the query's heads behind them;
    `by_row` says whether each row has its own, and `row_size` to how many elements rows are filled
    up, so that each starts at a multiple of 16 bytes; None where they are read as they are.
    """

    order: tuple[int, ...]
    heads: tuple[int, ...]
    inner: tuple[int, ...]
    by_row: bool
    row_size: int | None = None


@dataclass(frozen=True)
class SinkPlace:
    """Which sink a row has, of those that a tensor with the iteration dims `dims` holds one after
    the other: rows that differ by `inner`, the dims behind these, have the same."""

    dims: tuple[int, ...]
    inner: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class KernelPlan(Offer):
    """A kernel and how an attention is given to it; `programs` of it run at once.

    `row`, `heads` and `group` are iteration dims: the query rows, the batch dims that K and V
    have, and those they lack. `orders[operand]` is the order of dims the kernel reads: dim i
    of what it gets is dim orders[operand][i] of the operand. `sources` are K and V without the
    repeat of each head for `repeats` query heads, where they come from one. `mask_place` is
    for masks that are operands. `reader` is the transpose that alone reads the result, if the
    kernel could write what that makes, rows at `at_reader`; `at_result` is where they are in the
    result itself, None if the kernel cannot write it. `sink` is for attention with one.
    `latent` is where a kernel for latents finds K and V.
    """

    kernel: Kernel
    row: int
    mask: Mask
    mask_place: MaskPlace | None
    heads: tuple[int, ...]
    group: tuple[int, ...]
    orders: dict[str, tuple[int, ...]]
    sources: dict[str, ir.Value]
    repeats: int
    programs: int
    reader: ir.Operation | None
    at_reader: HeadPlace | None
    at_result: HeadPlace | None
    sink: SinkPlace | None
    latent: LatentPlace | None

    def order_of(self, name: str, value: ir.Value) -> tuple[int, ...]:
        """The order in which the kernel wants the dims of `value`, an operand."""
        if name in self.sources:
            return tuple(range(len(ranked_shape(value))))
        return self.orders[name]
