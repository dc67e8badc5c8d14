"""Which precompiled kernels fit an attention, what they need moved, and what they save."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace

from iree.compiler import ir

from ...attention.edit import iteration_size
from ...attention.facts import AttentionFacts
from ...attention.scores import NATURAL_SCORES
from ...attention.sinks import AttentionWithSink, with_sink
from ...attention.visible_keys import Mask, find_mask, mask_words
from ...attention.widening import wide_type
from ...ir import (
    Refusal,
    Size,
    SizeProduct,
    element_bytes,
    element_type_name,
    erase_dead,
    maps,
    product,
    ranked_shape,
)
from ...ir.limits import ASSUMED_HEADS, ASSUMED_SEQUENCES
from ...machines import Target, widening_seconds
from .. import Offer
from .even_heads import EvenHeads, even_heads, filling_seconds, with_even_heads
from .latent import LatentPlace, latent_place
from .manifest import BY_BLOCK, Kernel, load_kernels
from .places import (
    HeadPlace,
    common_places,
    factors_of,
    is_cut_out,
    is_moved,
    result_place,
    written_place,
)
from .plan import KernelPlan, MaskPlace, SinkPlace
from .replace import replace_by_kernel
from .scale import sign_of
from .sources import find_sources, narrow_type, unaligned_slice
from .speed import Work, equally_fast, iree_seconds, kernel_seconds

# Decode kernels read K and V once for each 16 rows: more rows are for prefill kernels.
_DECODE_ROWS = 64
# So do kernels of one warp, which find a row's head by a quotient of small numbers.
_LONE_ROWS, _MOST_LONE_ROWS = 256, 512
# Fewer keys are not divided: no fewer were measured. Of more, few rows are computed faster so.
_DIVIDED_KEYS, _FEW_ROWS = 256, 16
# A mask's rows of fewer keys are not filled up: its elements one by one take less than a launch.
_FILLED_KEYS = 256
_MOVED_V = Refusal("a V of another layout is no part of the cache")
_READ = ("query", "key", "value")
# Kinds of masks that are limits, each of which the next can stand for.
_LIMITS = ("none", "causal", "window")
# Bytes of an element of K or V, where these are not 2.
_WIDTHS = {"f8E4M3FN": 1, "f8E5M2": 1, "f32": 4}
_ORDERED = (*_READ, "output")

# Element types of Q, K and V.
Types = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class KernelOffer(KernelPlan):
    """A plan that may be taken."""

    def replace(self, facts: AttentionFacts, elsewhere: bool) -> None:
        replace_by_kernel(with_sink(facts), self, elsewhere)

    def as_fast_as(self, other: Offer) -> bool:
        return isinstance(other, KernelOffer) and equally_fast(self.kernel, other.kernel)


@dataclass(frozen=True, kw_only=True)
class FilledOffer(KernelOffer):
    """A plan for the attention with head dims of `size` each, on `target`."""

    size: int
    target: Target

    def replace(self, facts: AttentionFacts, elsewhere: bool) -> None:
        even = with_even_heads(facts, self.size)
        found = offers(even, self.target)
        assert not isinstance(found, Refusal)
        next(offer for offer in found if offer.name == self.name).replace(even, elsewhere)
        erase_dead([even.op])


def offers(
    facts: AttentionFacts, target: Target, value_map: maps.Positions | None = None
) -> Sequence[KernelOffer] | Refusal:
    """The plans for this attention, or the reason why no kernel fits. Changes nothing.

    Where head dims differ, the smaller may be filled up.

    Where an operand has 8 bits, kernels for a 16-bit type that holds all of them exactly
    compete with those for the operands as they are. `value_map` stands for V's map, where V
    could have another layout than it has.
    """
    facts = with_sink(facts)
    refusal = _unfit(facts)
    if refusal:
        return refusal
    own = _offers(facts, _own_types(facts), target, value_map)
    even = even_heads(facts) if isinstance(own, Refusal) else None
    if even is not None and not isinstance(plans := offers(even, target), Refusal):
        return [_filled(plan, even, target) for plan in plans]
    wide = wide_type(facts)
    if not wide:
        return own
    widened = _offers(facts, (wide, wide, wide), target, value_map)
    found = [plan for plans in (own, widened) if not isinstance(plans, Refusal) for plan in plans]
    return found or Refusal(f"{own}; widened to {wide}: {widened}")


def _filled(plan: KernelOffer, facts: EvenHeads, target: Target) -> FilledOffer:
    """A plan for what has equal head dims, for what has not."""
    seconds = filling_seconds(facts, target)
    names = " and the ".join(facts.filled)
    words = f"{1e6 * seconds:.0f} us to fill the head dims of the {names} up to {facts.size}"
    own = {one.name: getattr(plan, one.name) for one in fields(plan)}
    own |= {"seconds": plan.seconds - seconds, "reason": f"{plan.reason}, and {words}"}
    return FilledOffer(**own, size=facts.size, target=target)


def _own_types(facts: AttentionFacts) -> Types:
    """The element types of Q, K and V."""
    query, key, value = (facts.element_types[name] for name in _READ)
    return query, key, value


def _offers(
    facts: AttentionFacts, types: Types, target: Target, value_map: maps.Positions | None
) -> list[KernelOffer] | Refusal:
    """`offers` of the kernels for Q, K and V of these types."""
    kernels = _fitting(facts, types)
    if isinstance(kernels, Refusal):
        return kernels
    row = _row(facts, any(kernel.kind == "latent" for kernel in kernels))
    mask = find_mask(facts, row)
    if isinstance(mask, Refusal):
        return Refusal(mask.reason)
    placed = _place_mask(facts, row) if mask.kind == "operand" else None
    if isinstance(placed, Refusal):
        return placed
    kind = _mask_type(facts) if mask.kind == "operand" else "none"
    kernels = _with_mask(kernels, mask, kind, placed)
    if mask.kind == "operand" and unaligned_slice(facts.value("mask")):
        kernels = [kernel for kernel in kernels if kernel.keys_multiple == 1]
    keys = facts.extent(facts.k2)
    if placed is not None and not (placed.by_row and facts.extent(placed.heads) == 1):
        # Kernels take the distance of masks from the number of keys.
        kernels = [kernel for kernel in kernels if not _fills_rows(kernel, keys)]
    if any(one.mask == "keys" or _loads_tiles(one) for one in kernels if one.mask_type != "none"):
        # Those that load a mask's elements one by one are for all other masks.
        kernels = [
            one
            for one in kernels
            if one.kind != "prefill" or one.mask == "keys" or _loads_tiles(one)
        ]
    # What fills up least is never slower, of one kind.
    least = {
        kind: min(kernel.head_dims for kernel in kernels if kernel.kind == kind)
        for kind in {kernel.kind for kernel in kernels}
    }
    found = [
        _plan(facts, kernel, types, row, mask, placed, target, value_map)
        for kernel in kernels
        if kernel.head_dims == least[kernel.kind]
    ]
    plans = [plan for plan in found if isinstance(plan, KernelOffer)]
    problems = [plan for plan in found if isinstance(plan, Refusal)]
    if not plans and problems:
        return problems[0]
    if not plans:
        words = f" ({mask_words(facts)})" if facts.has_mask else ""
        words += " and a soft-cap" if mask.cap else ""
        return Refusal(f"no kernel for {_type_words(types)} has its kind of mask{words}")
    return plans


def _loads_tiles(kernel: Kernel) -> bool:
    """Whether a prefill kernel for masks loads tiles of one."""
    return kernel.kind == "prefill" and kernel.keys_multiple > 1 and not kernel.v_transposed


def _fills_rows(kernel: Kernel, keys: int | None) -> bool:
    """Whether a mask's rows, of so many keys, are filled up for a kernel that loads tiles of it."""
    if kernel.mask_type == "none" or not _loads_tiles(kernel):
        return False
    return keys is not None and keys >= _FILLED_KEYS and keys % kernel.keys_multiple > 0


def _row(facts: AttentionFacts, over_latents: bool) -> int:
    """The iteration dim that the kernels take for query rows: the last, or, where there are many
    rows, the longest. Others number heads that share K and V, as one block's rows do in kernels for
    latents."""
    dims = [dim for dim in facts.map_of("query") if dim in facts.m]
    count = facts.extent(facts.m)
    if over_latents or (count is not None and count <= _DECODE_ROWS):
        return dims[-1]
    return max(reversed(dims), key=lambda dim: facts.assumed_extent((dim,)))


def _with_mask(
    kernels: Sequence[Kernel], mask: Mask, mask_type: str, placed: MaskPlace | None
) -> list[Kernel]:
    """The kernels that compute masks of this kind; where there are none, those that know more
    limits, which can hide nothing."""
    known = _LIMITS[_LIMITS.index(mask.kind) :] if mask.kind in _LIMITS else (mask.kind,)
    for kind in known:
        alike = replace(mask, kind=kind)
        if found := [k for k in kernels if _has_mask(k, alike, mask_type, placed)]:
            return found
    return []


def _has_mask(kernel: Kernel, mask: Mask, mask_type: str, placed: MaskPlace | None) -> bool:
    """Whether the kernel computes masks of this kind, and a soft-cap or none; decode kernels
    compare every key with both limits and prefill kernels with a soft-cap know windows alone, so
    that they need no kinds of their own for limits. A row of keys that all rows share is small, and
    made f32 of any type for kernels that know such masks."""
    kind = mask.kind
    if kernel.mask == "keys":
        return placed is not None and not placed.by_row and not mask.cap and mask_type in _ADDED
    if kind != "operand" and kernel.over_cache:
        kind = "none"
    elif kind != "operand" and mask.cap:
        kind = "window"
    capped = kernel.soft_cap == bool(mask.cap) or kernel.over_cache
    if kernel.kind in ("divided", "short", "blocks") and mask.cap:
        return False  # `divided` computes caps, but how fast was not measured.
    return capped and (kernel.mask, kernel.mask_type) == (kind, mask_type)


def _unfit(facts: AttentionFacts) -> Refusal | None:
    """Why no kernel could ever do this attention; None if one might."""
    if facts.kind != "attention":
        return Refusal(f"{facts.kind} has three results, the kernels have one")
    if facts.own_configuration:
        return Refusal(f"it has its own {facts.own_configuration}")
    if NATURAL_SCORES in facts.op.attributes:
        return Refusal("its region was made for IREE's own code by attn-natural-scores")
    for name in ("k1", "k2", "n"):
        if len(getattr(facts, name)) != 1:
            return Refusal(f"it has {len(getattr(facts, name))} {name} dims, the kernels take one")
    if not facts.m:
        return Refusal("it has no dim of query rows")
    if sign_of(facts.value("scale")) == 0:
        return Refusal("its scale is 0, and the kernels find the maximum before they scale")
    shared = set(facts.batch)
    for name in _ORDERED:
        positions = facts.map_of(name)
        if None in positions:
            return Refusal(f"the {name} reads a dim of size one by the constant 0")
        if not shared <= set(positions):
            return Refusal(f"the {name} lacks a batch dim that others have")
    for name in _READ:
        offset = unaligned_slice(facts.value(name))
        if offset:
            return Refusal(f"the {name} is {offset}")
    return None


def _fitting(facts: AttentionFacts, wanted: Types) -> list[Kernel] | Refusal:
    """The kernels that could compute this attention of Q, K and V in these types, whatever its
    mask; why there are none."""
    output = facts.element_types["output"]
    caches = {wanted[1:], (narrow_type(facts),) * 2}
    kernels = [
        k
        for k in load_kernels()
        if k.kind != "combine"
        and k.element_type == wanted[0]
        and (k.cache_type, k.value_type) in caches
    ]
    if not kernels:
        return Refusal(f"there is no kernel for {', '.join(wanted)}")
    if not any(k.output_type == output for k in kernels):
        written = kernels[0].output_type
        return Refusal(f"the kernels for {_type_words(wanted)} write {written}, not {output}")
    sinks = isinstance(facts, AttentionWithSink)
    kernels = [
        k for k in kernels if k.output_type == output and (k.takes_sinks if sinks else not k.sink)
    ]
    if not kernels:
        return Refusal(f"it has a sink, which no kernel for {_type_words(wanted)} takes")
    rows = facts.extent(facts.m)
    if rows is None or rows > _DECODE_ROWS:
        few = ("decode", "cached", "split")
        few += () if rows is not None and rows <= _LONE_ROWS else ("lone",)
        kernels = [k for k in kernels if k.kind not in few]
    if rows is None:
        # Most are prompts, of many rows.
        kernels = [k for k in kernels if k.kind not in BY_BLOCK]
    if not kernels:
        return Refusal(f"kernels for {', '.join(wanted)} take up to {_DECODE_ROWS} query rows")
    heads = (facts.extent(facts.k1), facts.extent(facts.n))
    fitting = [k for k in kernels if k.takes(heads)]
    if not fitting:
        known = ", ".join(_dims_words(kernels))
        words = " and ".join("?" if size is None else str(size) for size in heads)
        return Refusal(f"its head dims are {words}; kernels for {_type_words(wanted)} have {known}")
    keys = facts.extent(facts.k2)
    if rows is not None and rows <= _DECODE_ROWS and keys is None:
        # One program would read all keys of a head, however many there are.
        fitting = [k for k in fitting if k.kind != "prefill"]
    if keys is None or (keys >= _DIVIDED_KEYS and rows is not None and rows <= _FEW_ROWS):
        fitting = [k for k in fitting if k.kind not in ("short", "blocks", "lone")]
    elif keys < _DIVIDED_KEYS:
        fitting = [k for k in fitting if k.kind != "divided"]
    if not fitting:
        words = " and ".join(map(str, heads))
        unknown = "how many keys is not known"
        return Refusal(f"there is no decode kernel for head dims {words}, and {unknown}")
    found = [
        k
        for k in fitting
        if k.keys_multiple == 1 or (keys and keys % k.keys_multiple == 0) or _fills_rows(k, keys)
    ]
    if not found:
        length = "known only at run time" if keys is None else str(keys)
        return Refusal(
            f"the number of keys ({length}) must be a known multiple of {fitting[0].keys_multiple}"
        )
    return found


def _dims_words(kernels: Sequence[Kernel]) -> list[str]:
    """The head dims that kernels take, in words."""
    filled = max((k for k in kernels if k.padded), key=lambda k: k.head_dims, default=None)
    words = [f"multiples of {filled.step} up to {filled.head_dims[0]}"] if filled else []
    others = sorted({k.head_dims for k in kernels if not filled or k.head_dims > filled.head_dims})
    return [*words, *(str(k1) if k1 == n else f"{k1} with {n}" for k1, n in others)]


def _type_words(types: Types) -> str:
    """Element types in words: the one of all of Q, K and V, or those of each."""
    return types[0] if len({*types}) == 1 else ", ".join(types)


# Types of masks that become f32: truth values 0 or -inf.
_ADDED = ("i8", "f16", "bf16", "f32")


def _mask_type(facts: AttentionFacts) -> str:
    """The element type that a kernel reads the mask in: truth values as bytes."""
    kind = facts.element_types["mask"]
    return "i8" if kind == "i1" else kind


def _place_mask(facts: AttentionFacts, row: int) -> MaskPlace | Refusal:
    """How a kernel finds its way in the mask; why it cannot."""
    positions, key = facts.map_of("mask"), facts.k2[0]
    if key not in positions:
        return Refusal(f"its mask ({mask_words(facts)}) does not depend on the key")
    query = facts.map_of("query")
    batch = [dim for dim in query if dim in facts.batch]
    heads = [*batch, *(dim for dim in query if dim in facts.m and dim != row)]
    used = [number for number, dim in enumerate(heads) if dim in positions]
    if used and used != list(range(used[0], used[-1] + 1)):
        return Refusal(f"its mask ({mask_words(facts)}) skips a dim of the heads between others")
    if not {*heads, row, key} >= {dim for dim in positions if dim is not None}:
        return Refusal(f"its mask ({mask_words(facts)}) has a dim that the scores lack")
    inner = tuple(heads[used[-1] + 1 :]) if used else ()
    own = tuple(heads[number] for number in used)
    wanted = [*own, *([row] if row in positions else []), key]
    units = [axis for axis, dim in enumerate(positions) if dim is None]
    order = (*units, *(positions.index(dim) for dim in wanted))
    return MaskPlace(order, own, inner, row in positions)


def _plan(
    facts: AttentionFacts,
    kernel: Kernel,
    types: Types,
    row: int,
    mask: Mask,
    placed: MaskPlace | None,
    target: Target,
    value_map: maps.Positions | None,
) -> KernelOffer | Refusal | None:
    """The attention, of Q, K and V in these types, by this kernel; None if K and V cannot be had
    in its type or there are too many rows, or a reason that is not that."""
    given = _given(facts, kernel, types, row, placed, value_map)
    if not isinstance(given, GivenOperands):
        return given
    sink = _place_sink(facts, kernel, (*_heads(facts), *given.group), row)
    if isinstance(sink, Refusal):
        return sink
    lying = given.lying
    work = _work(facts, row, mask, given.group, given.repeats, kernel)
    if kernel.kind == "lone" and work.own_rows > _MOST_LONE_ROWS:
        return None
    if kernel.kind in ("cached", "split") and work.own_rows > kernel.rows_per_workgroup:
        return None  # More rows read K and V once for each block of them: not measured.
    keys = facts.extent(facts.k2)
    if placed is not None and keys is not None and _fills_rows(kernel, keys):
        placed = replace(placed, row_size=keys + -keys % kernel.keys_multiple)
    if placed is not None:
        mask_bytes = _elements(facts, "mask") * element_bytes(facts.value("mask"))
        work = replace(work, mask_bytes=mask_bytes, mask_by_row=placed.by_row)
    fitted = _moving_seconds(facts, _fitted(facts, target), {}, given, target)
    own, kernel_time = iree_seconds(work) + fitted, kernel_seconds(work, kernel, target)
    copied = {*given.moved, *given.widened, *given.signed}
    copied |= {"mask"} if placed is not None and placed.row_size else set()
    moving = _moving_seconds(facts, copied, given.widened, given, target)
    spared = _moving_seconds(facts, lying.spared, {}, given, target)
    words = _words((kernel_time, own, moving), kernel, facts, given, placed) + lying.words
    words += f", copies of slices would take {1e6 * spared:.0f} us" if spared else ""
    return KernelOffer(
        name=kernel.name,
        seconds=own + spared - kernel_time - moving,
        reason=words,
        moved=given.moved,
        widened=given.widened,
        kernel=kernel,
        row=row,
        mask=mask,
        mask_place=placed,
        heads=_heads(facts),
        group=given.group,
        orders=given.orders,
        sources=given.sources,
        repeats=given.repeats,
        # Workgroups that split keys are one for a multiprocessor, however many it has room for.
        programs=(1 if kernel.kind == "split" else kernel.programs_per_unit) * target.compute_units,
        reader=lying.reader,
        at_reader=lying.at_reader,
        at_result=lying.at_result,
        sink=sink,
        latent=given.latent,
    )


def _place_sink(
    facts: AttentionFacts, kernel: Kernel, heads: tuple[int, ...], row: int
) -> SinkPlace | Refusal | None:
    """How the kernel finds its way in the sinks; None where there are none."""
    if not isinstance(facts, AttentionWithSink):
        return None
    # What adds up partial results knows each row; kernels for blocks of rows know heads.
    by_row = kernel.combined or kernel.kind == "cached"
    order = (*heads, row) if by_row else heads
    if not {*facts.sink.dims} <= {*order}:
        return Refusal("its sink changes from row to row, the kernels take one for each head")
    used = [place for place, dim in enumerate(order) if dim in facts.sink.dims]
    if not used:
        return SinkPlace((), ())
    end = used[-1] + 1 if by_row else len(order)
    return SinkPlace(order[used[0] : end], order[end:])


def _fitted(facts: AttentionFacts, target: Target) -> list[str]:
    """The operands that attn-fit-tiles copies for IREE's code: keys, rows or head dims of them are
    filled up to whole tiles."""
    tiles = target.dynamic_tiles(facts)
    dims = set() if isinstance(tiles, Refusal) else {*tiles}
    dims |= {*facts.k2} if target.padded_keys(facts) else set()
    dims |= {*facts.k1, *facts.n} if target.padded_heads(facts) else set()
    return [name for name in facts.tensor_operands if dims & {*facts.map_of(name)}]


@dataclass(frozen=True)
class GivenOperands:
    """How an attention is given to a kernel: as `KernelPlan` has it, what is read and written where
    it `lies`, and what is done to operands before, which are `signed` (negated), too. `narrow`:
    K and V are read in 8 bits, before casts."""

    group: tuple[int, ...]
    orders: dict[str, tuple[int, ...]]
    sources: dict[str, ir.Value]
    repeats: int
    narrow: bool
    latent: LatentPlace | None
    lying: Lying
    moved: tuple[str, ...]
    widened: dict[str, str]
    signed: tuple[str, ...]


def _given(
    facts: AttentionFacts,
    kernel: Kernel,
    types: Types,
    row: int,
    placed: MaskPlace | None,
    value_map: maps.Positions | None,
) -> GivenOperands | Refusal | None:
    """How a kernel gets Q, K and V of these types; None and reasons as for `_plan`."""
    group = tuple(dim for dim in facts.map_of("query") if dim in facts.m and dim != row)
    orders = _orders(facts, kernel, row, group, value_map)
    if placed is not None:
        orders["mask"] = placed.order
    turned = {name for name, order in orders.items() if not maps.is_identity(order)}
    narrow = kernel.cache_type != types[1]
    sources, repeats = find_sources(facts, narrow)
    if {"key", "value"} & turned:
        sources, repeats = {}, 1
    if narrow and not sources:
        return None
    latent = None
    if kernel.kind == "latent":
        read = {name: sources.get(name, facts.value(name)) for name in ("key", "value")}
        given = orders | _as_they_are(sources)
        latent = _MOVED_V if value_map else latent_place(facts, read, given)
        if isinstance(latent, Refusal):
            return latent
        turned -= {"key", "value"}
    lying = _lying(facts, kernel, orders, sources, product([*_sizes(facts, group), repeats]))
    if value_map:
        lying = replace(lying, reads={}, spared=())
    in_place = {*lying.reads, *(["output"] if lying.at_result or lying.reader else [])}
    return GivenOperands(
        group=group,
        orders=orders,
        sources=sources,
        repeats=repeats,
        narrow=narrow,
        latent=latent,
        lying=lying,
        moved=tuple(name for name in orders if name in turned - in_place),
        widened=_widened(facts, kernel, sources),
        signed=("query",) if sign_of(facts.value("scale")) == -1 else (),
    )


@dataclass(frozen=True)
class Lying:
    """What a kernel reads and writes where it lies, and in words what that saves or why not;
    `spared` are slices, which IREE copies; transposes it reads by attention's maps."""

    reads: dict[str, HeadPlace] = field(default_factory=dict)
    reader: ir.Operation | None = None
    at_reader: HeadPlace | None = None
    at_result: HeadPlace | None = None
    words: str = ""
    spared: tuple[str, ...] = ()


def _lying(
    facts: AttentionFacts,
    kernel: Kernel,
    orders: dict[str, tuple[int, ...]],
    sources: dict[str, ir.Value],
    group: Size,
) -> Lying:
    """What the kernel reads and writes where it lies."""
    if not kernel.strided:
        return Lying()
    values = {name: sources.get(name, facts.value(name)) for name in _READ}
    reads = common_places(values, orders | _as_they_are(sources), group)
    order, result = orders["output"], facts.result
    # What adds up partial results writes heads one behind the other.
    own = None if kernel.combined else written_place(result, order, reads, group)
    at_result = None if kernel.combined else result_place(result, order, reads, group)
    moved = [name for name, value in values.items() if is_moved(value)]
    read = [name for name in moved if name in reads and reads[name].source != values[name]]
    spared = tuple(name for name in read if is_cut_out(values[name]))
    words = ""
    if own is not None:
        words += "; the result is written as its reader wants it"
    copied = [name for name in moved if name not in read]
    if copied:
        words += f"; copied, as strides do not say where its rows lie: {', '.join(copied)}"
    if read:
        words += f"; read where it lies: {', '.join(read)}"
    reader, at_reader = own or (None, None)
    return Lying(reads, reader, at_reader, at_result, words, spared)


def _as_they_are(sources: dict[str, ir.Value]) -> dict[str, tuple[int, ...]]:
    """The orders of operands that are read without their repeats: as they lie."""
    return {name: tuple(range(len(ranked_shape(value)))) for name, value in sources.items()}


def _sizes(facts: AttentionFacts, dims: Sequence[int]) -> list[Size]:
    return [iteration_size(facts, dim) for dim in dims]


def _orders(
    facts: AttentionFacts,
    kernel: Kernel,
    row: int,
    group: tuple[int, ...],
    value_map: maps.Positions | None,
) -> dict[str, tuple[int, ...]]:
    """For each operand, and the result, where the dims stand in it that the kernel wants there."""
    (k1,), (k2,), (n,) = facts.k1, facts.k2, facts.n
    heads = _heads(facts)
    wanted = {
        "query": (*heads, *group, row, k1),
        "key": (*heads, k2, k1),
        "value": (*heads, n, k2) if kernel.v_transposed else (*heads, k2, n),
        "output": (*heads, *group, row, n),
    }
    given = {name: facts.map_of(name) for name in wanted}
    given["value"] = value_map or given["value"]
    return {name: tuple(given[name].index(dim) for dim in dims) for name, dims in wanted.items()}


def _heads(facts: AttentionFacts) -> tuple[int, ...]:
    return tuple(dim for dim in facts.map_of("query") if dim in facts.batch)


def _words(
    seconds: tuple[float, float, float],
    kernel: Kernel,
    facts: AttentionFacts,
    given: GivenOperands,
    placed: MaskPlace | None,
) -> str:
    """Why the kernel is worth it, or not: `seconds` are the kernel's, those of IREE's code, and
    those of what is done to operands for it."""
    kernel_time, own, moving = (1e6 * each for each in seconds)
    done = _changes(kernel, given, placed)
    words = f"about {kernel_time:.0f} us instead of {own:.0f}"
    words += kernel.measured and f" (measured: {kernel.measured})"
    if done:
        words += f", and {moving:.0f} to {' and '.join(done)}"
    if given.narrow and facts.element_types["key"] != kernel.cache_type:
        words += f"; K and V are read in {kernel.cache_type}, before they are widened"
    if isinstance(facts, AttentionWithSink):
        words += "; the sink's weight is added to the sums there"
    if given.repeats > 1:
        words += f"; K and V are read without their {given.repeats}-fold repeat"
    return words


def _changes(kernel: Kernel, given: GivenOperands, placed: MaskPlace | None) -> list[str]:
    """What is done to operands before the kernel reads them, in words."""
    done = [f"transpose the {' and the '.join(given.moved)}"] if given.moved else []
    if placed is not None and placed.row_size:
        done += [f"fill the mask's rows up to {placed.row_size} numbers"]
    if given.widened:
        done += [f"widen the {' and the '.join(given.widened)} to {kernel.element_type}"]
    if given.signed:
        done += ["negate the query, as the scale is below zero"]
    return done


def _widened(facts: AttentionFacts, kernel: Kernel, sources: dict[str, ir.Value]) -> dict[str, str]:
    """The operands that the kernel reads in a wider type than they have, and that type."""
    types = (kernel.element_type, kernel.cache_type, kernel.value_type)
    kinds = dict(zip(_READ, types, strict=True))
    return {
        name: kind
        for name, kind in kinds.items()
        if element_type_name(sources.get(name, facts.value(name))) != kind
    }


def _moving_seconds(
    facts: AttentionFacts,
    copied: Collection[str],
    widened: Collection[str],
    given: GivenOperands,
    target: Target,
) -> float:
    """The time to transpose, widen or negate operands; one dispatch does all to one of them."""
    seconds = 0.0
    for name in copied:
        value = facts.value(name)
        elements = _elements(facts, name) / (given.repeats if name in given.sources else 1)
        if name in widened:
            seconds += widening_seconds(elements, target)
        else:
            bytes_moved = 2 * elements * element_bytes(value)
            seconds += bytes_moved / target.bytes_per_second + target.launch_seconds
    return seconds


def _elements(facts: AttentionFacts, name: str) -> int:
    """Elements of an operand, dynamic sizes as `_work` assumes them."""
    dims = [dim for dim in facts.map_of(name) if dim is not None]
    heads = tuple(dim for dim in dims if dim in facts.batch)
    count = facts.extent(heads)
    rest = facts.assumed_extent(tuple(dim for dim in dims if dim not in heads))
    return rest * (ASSUMED_HEADS if count is None else count)


def _assumed_heads(facts: AttentionFacts, rows: int) -> int:
    """Heads of so many rows, where the number of sequences is not known: of some sequences, whose
    kernel loses less for one than that for one does for many; or of about one, in decode."""
    # Joined dims are what a view in front joins.
    sizes = zip(facts.map_of("query"), factors_of(facts.value("query")), strict=True)
    heads = product([size for dim, size in sizes if dim in facts.batch])
    factors = heads.factors if isinstance(heads, SizeProduct) else ()
    known = math.prod(factor for factor in factors if isinstance(factor, int))
    return max(ASSUMED_HEADS, ASSUMED_SEQUENCES * known if rows > _FEW_ROWS else 0)


def _work(
    facts: AttentionFacts,
    row: int,
    mask: Mask,
    group: tuple[int, ...],
    repeats: int,
    kernel: Kernel,
) -> Work:
    """What there is to compute for this kernel; dynamic sizes as they are assumed for
    estimates."""
    heads, shared = facts.extent(facts.batch), facts.assumed_extent(group) * repeats
    rows, keys = facts.assumed_extent((row,)), facts.assumed_extent(facts.k2)
    caches = (kernel.cache_type, kernel.value_type)
    seen = {"causal": mask.diagonal + rows / 2, "window": mask.diagonal + mask.behind + 1}
    if kernel.kind == "prefill":
        # A block's rows see as many more keys as they are.
        seen["window"] += kernel.rows_per_workgroup
    return Work(
        kv_heads=(_assumed_heads(facts, rows * shared) if heads is None else heads) / repeats,
        group=shared,
        rows=rows,
        keys=keys,
        head_dims=facts.assumed_extent(facts.k1) + facts.assumed_extent(facts.n),
        width=sum(_WIDTHS.get(kind, 2) for kind in caches) / 2,
        seen=min(1.0, seen.get(mask.kind, keys) / max(keys, 1)),
        known=None not in (heads, facts.sizes[row]),
    )
