"""How long attention takes with a kernel and without: what decides where a kernel is taken.

Read off bench/results/kernels_h200.json (NVIDIA H200). There each small case was run twice, by
the kernel and by IREE's code in attnpass' configuration, which is what an attention falls back
to; a unit test holds this rule against those pairs. docs/notes/kernels.md has the rule in words.
Where IREE's code has no configuration it takes longer, so what is said here to win does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...machines import Target
from .manifest import Kernel, load_kernels

# Fewer keys than this are not split by attn-split-k: two chunks of 256.
_SPLIT_KEYS, _CHUNK_KEYS, _TILE_KEYS = 512, 256, 64
# Seconds a key and wave of heads of IREE's decode without a configuration.
_UNCONFIGURED_KEY = 2e-7
_L2_BYTES = 50e6
_PREFILL_LAUNCH, _DECODE_LAUNCHES = 8.5e-6, 9e-6
# What a block of 128 rows takes at least.
_PREFILL_BLOCK = 0.9e-6
# What a decode kernel takes more until a cache that is not in the L2 cache comes at its full speed.
_DECODE_START = 3e-6
# A launch, and what a wave of clusters takes beside its keys.
_DIVIDED_LAUNCH, _DIVIDED_WAVE = 3e-6, 5e-6
# Head dims that prefill kernels take in two slabs of columns.
_SLABS = (80, 96)
# What a wave of a prefill kernel that loads a mask takes beside its keys, by whether each row has
# a mask of its own.
_MASKED_WAVE = {True: 3.5e-6, False: 11e-6}
_COMPUTE_UNITS = 132
# What IREE's code takes for a block of rows at least (one H200: 2048 of 64 rows and keys 22.9 us,
# 1536 of 49 under a mask 12.1).
_IREE_BLOCK = 0.9e-6 / _COMPUTE_UNITS
# By head dim, what it takes for a block of 128 rows beside its keys, and for a key, in waves (one
# H200: 64 heads of 400 rows and keys 18.8 us, 96 of 288 18.6, 128 of 400 and 128 58).
# Of fewer keys than _IREE_WHOLE_KEYS what is beside them is less, too.
_IREE_WHOLE_KEYS = 290
_IREE_WAVE = {32: (0.6e-6, 11e-9), 64: (1.1e-6, 14.7e-9), 128: (3.1e-6, 28.3e-9)}
# How many clusters of so many workgroups run at once: a cluster lies in one group of 16 or 18 of
# the multiprocessors.
_CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 6: 17, 8: 15}
# Clusters that do not draw all that memory gives: 32 of three leave multiprocessors idle (32 heads
# over 65536 keys: 289 us, by decode kernels 242). Four and six were not measured with large caches.
_UNEVEN, _UNEVEN_RATE = (3, 4, 6), 3.9e12
# Operations a second of kernels for 8 bits, by head dim, where no module with them was timed: those
# of launches of the kernel for V^T; one for row-major V has 0.93 of them (docs/notes/kernels.md).
_NARROW_RATES = {64: 5.3e14, 128: 8.9e14, 256: 1.2e15}
# How much longer a key takes under a mask of keys.
_KEYS_MASK = 1.8
# Seconds a key and workgroup, by head dim.
_DIVIDED_KEY = {64: 4.9e-9, 128: 8.2e-9}
# Kernels for few rows over a cache, by head dim: what a wave of workgroups takes beside its keys,
# what more where clusters divide these, and a key of a workgroup.
_CACHED_LAUNCH = 2e-6
_CACHED_WAVE = {64: 1.1e-6, 128: 1.2e-6, 256: 1.2e-6}
_CACHED_CLUSTER = 0.3e-6
_CACHED_KEY = {64: 4.2e-9, 128: 6.3e-9, 256: 17e-9}
# Bytes a second of caches in memory, where at least three quarters of the multiprocessors have a
# workgroup, or fewer; and of caches in the L2 cache, where some have one, or several.
_CACHED_RATES, _L2_RATES = (4.6e12, 4.5e12), (4.8e12, 5.6e12)
# Both launches of a kernel that splits keys with what they take beside these, and bytes a second of
# caches in memory and in the L2 cache.
_SPLIT_LAUNCHES, _SPLIT_RATE, _SPLIT_L2_RATE = 6.8e-6, 4.2e12, 8.8e12
# Kernels for few keys, by head dim: what a wave of workgroups takes beside its keys, and a key.
_SHORT_LAUNCH = 2e-6
_SHORT_WAVE = {64: 1.4e-6, 96: 2.2e-6, 128: 2.4e-6}
_SHORT_KEY = {64: 8.4e-9, 96: 11.8e-9, 128: 12.5e-9}
# Kernels for blocks of rows over few keys, by head dim: a launch, what a block takes beside its
# keys, and a key, where as many workgroups as there is room for take a block each.
_BLOCKS_LAUNCH = 3.5e-6
_BLOCK = {64: 1.3e-6, 80: 0.9e-6, 96: 2.1e-6, 128: 2.2e-6}
_BLOCK_KEY = {64: 11.7e-9, 80: 19e-9, 96: 15e-9, 128: 16e-9}

# Kernels of one warp, by head dim: what a multiprocessor spends on a block of rows, and on a tile
# of keys for it, and how much longer such a tile takes under a mask; what one warp alone takes.
_LONE_LAUNCH, _LONE_RATE = 2e-6, 4.1e12
_LONE = {32: (0.09e-6, 0.036e-6, 2), 64: (0.15e-6, 0.056e-6, 1.5), 128: (0.3e-6, 0.11e-6, 1.4)}
_LONE_WARP = (0.3e-6, 0.5e-6)


@dataclass(frozen=True)
class Work:
    """An attention's size: heads of K and V, rows that share them (`group` heads of `rows`
    rows each), keys, both head dims together, and the bytes of an element, those of K and V on
    average. `seen` is the share of the keys that a causal mask or a window leaves, which kernels
    profit from; `known` is False where the number of heads or rows is an assumption. `mask_bytes`
    are those of a mask that is a tensor, which all rows share if not `mask_by_row`."""

    kv_heads: float
    group: int
    rows: int
    keys: int
    head_dims: int
    width: float
    seen: float = 1.0
    known: bool = True
    mask_bytes: float = 0.0
    mask_by_row: bool = True

    @property
    def own_rows(self) -> int:
        return self.group * self.rows

    @property
    def flops(self) -> float:
        return 2 * self.kv_heads * self.own_rows * self.keys * self.head_dims

    @property
    def cache_bytes(self) -> float:
        return self.kv_heads * self.keys * self.head_dims * self.width


def iree_seconds(work: Work) -> float:
    """IREE's code for this attention, configured by attnpass."""
    if work.own_rows > 16 and work.width > 2:
        return 4e-6 + max(1.05e-9 * work.head_dims * work.keys, work.flops / 2e13)
    if work.own_rows > 16:
        blocks = work.kv_heads * work.group * math.ceil(work.rows / 128)
        a_key = (13e-9 + 23e-9 * min(1, max(0, blocks - 16) / 48)) * work.head_dims / 256
        a_key = max(a_key, _IREE_WAVE[32][1]) if work.head_dims <= 64 else a_key
        is_whole = work.head_dims & (work.head_dims - 1) == 0
        rate = 3.7e13 if work.head_dims > 1024 else 3e14 if is_whole else 1.5e14
        computing = max(a_key * work.keys, work.flops / rate, _IREE_BLOCK * blocks)
        computing = max(computing, _iree_waves_seconds(work, blocks))
        return 4e-6 + computing + _iree_mask_seconds(work)
    return _iree_decode_seconds(work) + _unconfigured_seconds(work)


def _iree_waves_seconds(work: Work, blocks: float) -> float:
    """What IREE's code takes for blocks of rows, of which a multiprocessor computes one after the
    other, if not all at once; of head dims for which that was measured."""
    wave = _IREE_WAVE.get(work.head_dims // 2)
    if wave is None or blocks <= _COMPUTE_UNITS:
        return 0.0
    part = blocks / _COMPUTE_UNITS
    waves = (0.75 * math.ceil(part) + 0.25 * part) if work.known else part
    return waves * (wave[0] * min(1, work.keys / _IREE_WHOLE_KEYS) + wave[1] * work.keys)


def _iree_mask_seconds(work: Work) -> float:
    """What IREE's code spends on a mask that is a tensor, for each score and on its bytes."""
    if not work.mask_bytes:
        return 0.0
    # Of larger heads fewer registers are left for it.
    a_score = 3e-13 * (work.head_dims / 128) ** 2
    return a_score * work.flops / (2 * work.head_dims) + work.mask_bytes / 4e12


def _iree_decode_seconds(work: Work) -> float:
    # 8-bit caches were not timed: an element is taken to cost what one of 16 bits does.
    cache_bytes = work.cache_bytes * max(work.width, 2) / work.width
    if work.keys < _SPLIT_KEYS and work.own_rows == 1:
        return 4e-6 + cache_bytes / 4.4e12
    if work.own_rows > 1:
        return 21e-6 + cache_bytes / 3.4e12
    return 10.5e-6 + cache_bytes / (8e12 if cache_bytes < _L2_BYTES else 4.4e12)


def _unconfigured_seconds(work: Work) -> float:
    """What decode spends on keys for which attnpass has no configuration: all of few, or the
    chunk that is left of many, where they fill no tile."""
    if work.keys % _TILE_KEYS == 0:
        return 0.0
    left = work.keys if work.keys < _SPLIT_KEYS else work.keys % _CHUNK_KEYS
    return _UNCONFIGURED_KEY * left * math.ceil(work.kv_heads / _COMPUTE_UNITS)


def kernel_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """The kernel's time: prefill in whole waves of workgroups, if their number is known, each of
    which computes all its rows, wanted or not; decode reads K and V once for each block of rows."""
    if kernel.kind == "decode":
        blocks = math.ceil(work.own_rows / kernel.rows_per_workgroup)
        rate = _rate(kernel, _DECODE_LAUNCHES + _DECODE_START) or 4.4e12
        start = _DECODE_START if work.cache_bytes * work.seen > _L2_BYTES else 0.0
        return _DECODE_LAUNCHES + start + blocks * work.seen * work.cache_bytes / rate
    if kernel.kind == "latent":
        return _latent_seconds(work, kernel, target)
    if kernel.kind == "divided":
        return _divided_seconds(work, kernel, target)
    if kernel.kind == "short":
        return _short_seconds(work, kernel, target)
    if kernel.kind == "blocks":
        return _blocks_seconds(work, kernel, target)
    if kernel.kind == "cached":
        return _cached_seconds(work, kernel, target)
    if kernel.kind == "split":
        return _split_seconds(work, kernel, target)
    if kernel.kind == "lone":
        return _lone_seconds(work, kernel, target)
    heads = work.kv_heads * work.group
    blocks = heads * math.ceil(work.rows / kernel.rows_per_workgroup)
    waves = max(blocks / target.compute_units, 1)
    waves = math.ceil(waves) if work.known else waves
    if kernel.mask == "operand" and kernel.keys_multiple > 1:
        a_wave = _MASKED_WAVE[work.mask_by_row] + _masked_key(kernel) * work.keys
        return _PREFILL_LAUNCH + waves * a_wave
    seen = work.keys * work.seen
    # What a kernel fills up takes as long.
    head_dims = sum(kernel.head_dims)
    flops = 2 * blocks * kernel.rows_per_workgroup * seen * head_dims
    # A workgroup of 256 rows takes 1.7 times as long as one of 128 (16.7 and 10 ns a key with
    # heads of 64), and heads of 64 nearly as long as those of 128: the exponentials are as many.
    larger = (kernel.rows_per_workgroup / 128) ** 0.75
    a_key = 11e-9 * larger * max(head_dims / 256, 0.85)
    a_key *= _KEYS_MASK if kernel.mask == "keys" else 1
    rate = _prefill_rate(kernel) or _untimed_rate(kernel)
    between = 0.0
    if kernel.head_dims[0] in _SLABS and kernel.value_type != "f32":
        # Warps write results of two slabs, and what is between two blocks' keys takes longer.
        a_key, between = max(a_key, 11.6e-9), (waves - 1) * 1.5e-6
        seen = math.ceil(seen / 128) * 128 if work.seen == 1 else seen
    if kernel.element_type.startswith(("f8", "f32")):
        a_wave = target.compute_units * kernel.rows_per_workgroup
        a_key = 2 * a_wave * head_dims / rate
    # Not timed: a prefill kernel loads less at once than a decode kernel.
    reading = work.seen * work.cache_bytes / 3.5e12
    # However few the keys are: 16384 heads of 16 rows and keys take 282 us.
    least = waves * _PREFILL_BLOCK * kernel.rows_per_workgroup / 128
    return _PREFILL_LAUNCH + max(a_key * waves * seen + between, least, flops / rate, reading)


def _masked_key(kernel: Kernel) -> float:
    """Seconds a key and wave of a prefill kernel that loads tiles of a mask."""
    nanoseconds = 9.3 + 0.035 * sum(kernel.head_dims)
    return 1e-9 * (nanoseconds + {"bf16": 3, "i8": 2.5, "f32": 8}.get(kernel.mask_type, 0))


def _latent_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel for latents: over all keys whole blocks of rows, or the cache at the speed of
    memory, which is read once for all blocks; then what adds up its partial results."""
    height, (columns, value) = kernel.rows_per_workgroup, kernel.head_dims
    rows = math.ceil(work.own_rows / height) * height
    scores = work.kv_heads * rows * work.keys * work.seen
    rate = _rate(kernel, _DECODE_LAUNCHES) or 5.5e14
    read = work.kv_heads * work.keys * work.seen * columns * work.width
    slots = target.compute_units * height / (work.kv_heads * rows)
    adding = max(1.5e-9 * work.kv_heads * work.own_rows, 50e-9 * slots)
    return _DECODE_LAUNCHES + max(2 * scores * (columns + value) / rate, read / 4e12) + adding


def _divided_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel whose clusters divide the keys of a block of rows: whole waves of clusters, or K and
    V at the speed of memory."""
    blocks = work.kv_heads * math.ceil(work.own_rows / kernel.rows_per_workgroup)
    at_once = _CLUSTERS[kernel.cluster] * target.compute_units / 132
    waves = max(blocks / at_once, 1)
    waves = math.ceil(waves) if work.known else waves
    a_key = _DIVIDED_KEY[kernel.head_dims[0]]
    if kernel.mask == "operand":
        a_key *= 2 + min(1.0, work.own_rows / kernel.rows_per_workgroup)
    read = work.cache_bytes * work.seen
    reading = read / (_UNEVEN_RATE if kernel.cluster in _UNEVEN and read > _L2_BYTES else 4.6e12)
    reading *= _idle(waves, at_once, blocks) if read > _L2_BYTES else 1
    computing = waves * (_DIVIDED_WAVE + a_key * _most_keys(work) / kernel.cluster)
    return _DIVIDED_LAUNCH + max(computing, _DIVIDED_WAVE + reading)


def _idle(waves: float, at_once: float, clusters: float) -> float:
    """How much longer it takes to read a cache where a last wave leaves multiprocessors idle."""
    return math.sqrt(waves * at_once / clusters) if waves > 1 else 1


def _cached_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel for few rows over a cache: whole waves of clusters, of which workgroups share a
    multiprocessor, or K and V at the speed of memory."""
    head, parts, units = kernel.head_dims[0], kernel.cluster, target.compute_units
    clusters = work.kv_heads * math.ceil(work.own_rows / kernel.rows_per_workgroup)
    at_once = _CLUSTERS[parts] * kernel.programs_per_unit * units / 132
    waves = max(clusters / at_once, 1)
    waves = math.ceil(waves) if work.known else waves
    count = clusters * parts
    shared = max(1.0, 0.75 * min(count / units, kernel.programs_per_unit))
    wave = _CACHED_WAVE[head] + (_CACHED_CLUSTER if parts > 1 else 0)
    # A warp takes whole tiles.
    keys = max(_most_keys(work) / parts, kernel.keys_per_tile * kernel.workgroup_size / 32)
    read = work.cache_bytes * work.seen
    if read > _L2_BYTES:
        reading = read / _CACHED_RATES[count < 0.75 * units]
        reading *= _idle(waves, at_once, clusters)
        # Where some multiprocessors have several workgroups others have one.
        reading *= 1.1 if waves == 1 and count > units else 1
    else:
        reading = read / _L2_RATES[count > units]
    computing = waves * (wave + shared * _CACHED_KEY[head] * keys)
    return _CACHED_LAUNCH + max(computing, wave + reading)


def _split_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel that splits keys among all multiprocessors, and the one that adds up its results."""
    heads, units = max(1, work.kv_heads), target.compute_units
    splits = max(1, min(units // heads, work.keys // (2 * kernel.keys_per_tile)))
    waves = math.ceil(heads * splits / units)
    read = work.cache_bytes * work.seen
    reading = read / (_SPLIT_RATE if read > _L2_BYTES else _SPLIT_L2_RATE)
    head = kernel.head_dims[0]
    a_wave = _CACHED_KEY[head] * _most_keys(work) / splits
    computing = waves * a_wave + (waves - 1) * _CACHED_WAVE[head]
    return _SPLIT_LAUNCHES + max(computing, reading)


def _lone_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel of one warp a workgroup: what multiprocessors spend on blocks of rows and on their
    tiles of keys, one warp alone, or all operands at the speed of memory."""
    blocks = work.kv_heads * math.ceil(work.own_rows / kernel.rows_per_workgroup)
    tiles = math.ceil(_most_keys(work) / kernel.keys_per_tile)
    a_block, a_tile, masked = _LONE[kernel.head_dims[0]]
    a_tile *= 1 if kernel.mask == "none" else masked
    computing = blocks * (a_block + a_tile * tiles) / target.compute_units
    rows = work.kv_heads * work.own_rows * work.head_dims * work.width
    moving = (work.cache_bytes + rows + work.mask_bytes) / _LONE_RATE
    return _LONE_LAUNCH + max(computing, _LONE_WARP[0] + _LONE_WARP[1] * tiles, moving)


def _short_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel for few keys: whole waves of workgroups, of which a multiprocessor runs one, and in
    each two tiles of keys at a time."""
    blocks = work.kv_heads * math.ceil(work.own_rows / kernel.rows_per_workgroup)
    waves = max(blocks / target.compute_units, 1)
    waves = math.ceil(waves) if work.known else waves
    head, pair = kernel.head_dims[0], 2 * kernel.keys_per_tile
    keys = math.ceil(_most_keys(work) / pair) * pair
    computing = waves * (_SHORT_WAVE[head] + _SHORT_KEY[head] * keys)
    # As of prefill kernels: not timed.
    return _SHORT_LAUNCH + max(computing, work.seen * work.cache_bytes / 3.5e12)


def _blocks_seconds(work: Work, kernel: Kernel, target: Target) -> float:
    """A kernel for blocks of rows over few keys: for each block that a workgroup takes one after
    the other what it takes beside its tiles of keys, and these."""
    blocks = work.kv_heads * math.ceil(work.own_rows / kernel.rows_per_workgroup)
    turns = max(blocks / (kernel.programs_per_unit * target.compute_units), 1)
    turns = math.ceil(turns) if work.known else turns
    head, tile = kernel.head_dims[0], kernel.keys_per_tile
    tiles: float = math.ceil(_most_keys(work) / tile)
    if turns > 1 and work.seen < 1:  # long blocks and short ones
        tiles = min(tiles, work.keys * work.seen / tile + 1)
    # A workgroup that has its multiprocessor to itself is faster.
    alone = kernel.programs_per_unit > 1 and blocks <= target.compute_units
    a_turn = (0.73 if alone else 1) * (_BLOCK[head] + _BLOCK_KEY[head] * tile * tiles)
    # As of prefill kernels: not timed.
    return _BLOCKS_LAUNCH + max(turns * a_turn, work.seen * work.cache_bytes / 3.5e12)


def _most_keys(work: Work) -> float:
    """What the last block of rows sees, which is the most."""
    return min(work.keys, work.keys * work.seen + work.rows / 2)


def _rate(kernel: Kernel, launches: float) -> float:
    """Operations or bytes a second once the kernel runs; 0 where it was not timed, or for hardly
    longer than the launches."""
    if kernel.measured_seconds < 1.25 * launches:
        return 0.0
    return kernel.measured_work / (kernel.measured_seconds - launches)


def _prefill_rate(kernel: Kernel) -> float:
    """The rate of the kernel and of the one that differs by V's layout alone: the source and the
    tiles are the same, and so is the speed, which was measured in different cases."""
    return max(
        _rate(other, _PREFILL_LAUNCH) for other in load_kernels() if equally_fast(kernel, other)
    )


def _untimed_rate(kernel: Kernel) -> float:
    """The rate of a prefill kernel that no module was timed with."""
    if kernel.value_type.startswith("f8"):
        return _NARROW_RATES[kernel.head_dims[0]] * (1 if kernel.v_transposed else 0.93)
    return 1e14 if kernel.element_type == "f32" else 5.5e14


def equally_fast(one: Kernel, other: Kernel) -> bool:
    """Whether the kernels differ at most by V's layout and by which of the 8-bit types they read.
    The layout matters to kernels for V of 8 bits, which must transpose it where it is row-major."""
    names = ("kind", "output_type", "head_dims", "mask", "mask_type", "rows_per_workgroup")
    names = (*names, "soft_cap", "cluster")
    names += ("v_layout",) if one.value_type.startswith("f8") else ()
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and _widths(one) == _widths(other)


def _widths(kernel: Kernel) -> list[str]:
    """The element types of Q, K and V; those of 8 bits are alike."""
    types = (kernel.element_type, kernel.cache_type, kernel.value_type)
    return [kind.replace("f8E5M2", "f8E4M3FN") for kind in types]
