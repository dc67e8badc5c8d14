"""Configurations for the copies that bring attention's operands and result into tiles on GPUs.

attn-pad-heads, attn-pad-keys and attn-tile-dynamic make loops that read another tensor by index.
IREE 3.13 gives such a loop workgroups of 32 threads, which read 8 bytes each at most: a GPU does
not start workgroups as fast as they end (1344 keys of 32 heads of 128: 27 us on an H200).
"""

from __future__ import annotations

import math

from iree.compiler import ir

from .. import maps
from ..attention import CONFIGURATION_ATTRIBUTES
from ..ir import body_names, element_bytes, element_type, is_float, iterator_kinds, ranked_shape

# What a thread reads at once, and a workgroup writes at most.
_THREAD_BYTES, _WORKGROUP_BYTES = 16, 4096


def find(function: ir.Operation) -> ir.Operation | None:
    """The loop of a dispatch that does nothing but read one tensor by index."""
    ops = [child.operation for child in function.regions[0].blocks[0].operations]
    loops = [op for op in ops if op.name.startswith(("linalg.", "iree_linalg_ext."))]
    if len(loops) != 1 or loops[0].name != "linalg.generic":
        return None
    (loop,) = loops
    reads = [name for name in body_names(loop) if not name.startswith(("arith.", "linalg."))]
    plain = len(loop.operands) == 1 and "reduction" not in iterator_kinds(loop)
    own = any(name in loop.attributes for name in CONFIGURATION_ATTRIBUTES)
    return loop if plain and reads == ["tensor.extract"] and not own else None


def configuration(loop: ir.Operation, subgroup: int) -> dict[str, str]:
    """The attributes for this loop and subgroups of so many threads; none where the sizes leave
    no tile."""
    init = loop.operands[0]
    sizes = ranked_shape(init)
    found = maps.positions_of(ir.ArrayAttr(loop.attributes["indexing_maps"]))
    if not is_float(element_type(init)) or found != (tuple(range(len(sizes))),):
        return {}
    width = _THREAD_BYTES // element_bytes(init)
    tile = [1] * len(sizes)
    left = _WORKGROUP_BYTES // element_bytes(init)
    for dim in reversed(range(len(sizes))):
        size = sizes[dim]
        if not size:
            # Unknown, or nothing to copy.
            continue
        tile[dim] = max(part for part in range(1, min(size, left) + 1) if size % part == 0)
        left //= tile[dim]
    threads, rest = divmod(math.prod(tile), width)
    if rest or tile[-1] % width or threads % subgroup:
        return {}
    thread = [1] * (len(sizes) - 1) + [width]
    return {
        "compilation_info": (
            "#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{"
            f"thread = {thread}, workgroup = {tile}}}>, "
            "translation_info = #iree_codegen.translation_info<pipeline = "
            f"#iree_gpu.pipeline<TileAndFuse> workgroup_size = [{threads}, 1, 1] "
            f"subgroup_size = {subgroup}>>"
        )
    }
