"""What kernels read instead of K and V: what these repeat, or widen from 8 bits."""

from __future__ import annotations

from iree.compiler import ir

from ...attention.facts import AttentionFacts
from ...attention.widening import widened_from
from ...ir import defining_op, element_bytes, element_type_name, ranked_shape
from ...ir.views import IN_PLACE, SLICE, below_views, repeat_of, view_of


def find_sources(facts: AttentionFacts, narrow: bool) -> tuple[dict[str, ir.Value], int]:
    """K and V below a grouped-query repeat that both have, and how often it repeats a head;
    with `narrow` before they were widened, too. Empty if a kernel cannot read them there."""
    found: dict[str, ir.Value] = {}
    counts = set()
    for name in ("key", "value"):
        value = facts.value(name)
        above = (widened_from(value) or value) if narrow else value
        source, count = _unrepeated(above)
        found[name] = (widened_from(source) or source) if narrow else source
        counts.add(count)
    if len(counts) != 1 or any(unaligned_slice(source) for source in found.values()):
        return {}, 1
    return found, counts.pop()


def narrow_type(facts: AttentionFacts) -> str:
    """The 8-bit type that both K and V are widened from; empty if there is none."""
    sources, _ = find_sources(facts, True)
    kinds = {element_type_name(source) for source in sources.values()}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return kind if kind.startswith("f8") else ""


def _unrepeated(value: ir.Value) -> tuple[ir.Value, int]:
    """What `value` (heads, rows, columns) repeats, each head some times in a row; 1 if not.

    The heads may be several dims here and more of them below.
    """
    shape, below = ranked_shape(value), below_views(value, IN_PLACE)
    repeat = repeat_of(defining_op(below))
    if repeat is None:
        return value, 1
    dims = repeat.projection or ()
    sizes = ranked_shape(below)
    kept = [dim for dim in dims if dim is not None]
    lost = [dim for dim in range(len(sizes)) if dim not in kept and sizes[dim] != 1]
    count = sizes[lost[0]] if len(lost) == 1 else None
    in_place = kept == sorted(kept) and lost == [len(sizes) - 3]
    if not in_place or count is None or sizes[-2:] != shape[-2:]:
        return value, 1
    return repeat.source, count


def unaligned_slice(value: ir.Value) -> str:
    """What is wrong with where the operand starts in memory; empty if nothing is.

    IREE may read a slice in place. Its start is then the sum of offset times stride, where a
    stride is a product of inner sizes; 16 bytes is what the kernels need.
    """
    view = view_of(defining_op(below_views(value, IN_PLACE), SLICE))
    if view is None:
        return ""
    stride = element_bytes(view.source)
    sizes = ranked_shape(view.source)
    for run, size in zip(reversed(view.runs), reversed(sizes), strict=True):
        step = stride if run.start is None else stride * run.start
        if step % 16:
            return "a slice that may start at an address that is no multiple of 16 bytes"
        stride *= 1 if size is None else size
    return ""
