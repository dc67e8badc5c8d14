"""Attention's tiles in shared memory as tensor cores read them fastest.

Kernels that nobody has lowered yet are lowered here, as `drive` does it: what is rewritten
exists between IREE's lowering to vectors and its conversion to LLVM alone.
"""

from __future__ import annotations

from iree.compiler import ir

from ...attention.facts import OP_NAMES
from ...codegen import ptx
from ...codegen.kernel import (
    is_to_be_lowered,
    kernels_by_target,
    lower,
    mark_lowered,
    pipeline_of,
    run_passes,
)
from ...ir import (
    Builder,
    collect,
    detached_copy,
    printed,
    restore,
)
from ...report.ops import op_of
from ...report.records import Report
from ..lowered.async_tiles import fetch_ahead
from ..lowered.edge_masks import drop_edge_masks
from ..lowered.fragments import use_ldmatrix
from ..lowered.interleave import interleave
from ..lowered.invariant_tiles import copy_before_loops
from ..lowered.rereads import read_in_loops, scale_before_loops
from ..lowered.shared_buffers import are_aligned, space_rows
from ..lowered.threads import Threads, dimension_x

_CLEAN = "canonicalize,cse"
_PIPELINE, _TILES = "#iree_gpu.pipeline<VectorDistribute>", "lowering_config"
# A step of attention computes longer than its copies take.
_ATTENTION_BUFFERS, _PROJECTION_BUFFERS = 2, 4
# Both instructions are there from here on.
_CAPABILITY, _PTX = 80, 70


def improve_shared_memory(module: ir.Operation, report: Report) -> bool:
    """Rewrites the CUDA kernels of `module` (a builtin.module at IREE's phase
    executable-configurations) that hold attention on tensor cores, or a projection that was
    configured for that; returns whether IR changed.
    """
    changed = False
    for function, target in kernels_by_target(module):
        machine = ptx.machine_of(target)
        shared = printed.number(target, "max_workgroup_memory_bytes")
        if machine is None or machine.capability < _CAPABILITY or machine.version < _PTX:
            continue
        if shared and (buffers := _buffers(function)):
            changed |= _rewrite_kernel(function, buffers, shared, report)
    return changed


def _buffers(function: ir.Operation) -> int:
    """How many buffers a tile may have in a kernel; 0 for kernels that are left to IREE."""
    if _is_attention(function):
        return _ATTENTION_BUFFERS
    return _PROJECTION_BUFFERS if _is_projection(function) else 0


def _is_projection(function: ir.Operation) -> bool:
    """Whether a kernel is a product of matrices for tensor cores that IREE will lower as it
    does attention. Its own configuration of such a product is for another pipeline."""
    if pipeline_of(function) != _PIPELINE:
        return False
    if not is_to_be_lowered(function):
        # For its casts to fp8.
        return bool(collect(function, _is_product))
    return bool(
        collect(function, lambda op: bool(printed.mma_instruction(op.attributes.get(_TILES, ""))))
    )


def _is_attention(function: ir.Operation) -> bool:
    """Whether a kernel holds attention, or is what is left of it on tensor cores."""
    if is_to_be_lowered(function):
        return bool(collect(function, lambda op: op.name in OP_NAMES))
    marked = printed.says_lowered(function.attributes.get("translation_info", ""))
    # Projections with casts to fp8 are lowered already, too: they have no softmax.
    return marked and all(collect(function, wanted) for wanted in (_is_product, _is_exp2))


def _is_exp2(op: ir.Operation) -> bool:
    if op.name == "llvm.inline_asm":
        return ptx.EXP2 in ir.StringAttr(op.attributes["asm_string"]).value
    return op.name == "math.exp2"


def _is_product(op: ir.Operation) -> bool:
    return op.name == "nvgpu.mma.sync"


def _rewrite_kernel(function: ir.Operation, buffers: int, limit: int, report: Report) -> bool:
    kernel, copy = op_of(function), detached_copy(function)
    size = printed.numbers(function.attributes["translation_info"], "workgroup_size")
    if size[1:] != [1, 1] or (is_to_be_lowered(function) and not lower(function, report)):
        return False
    done, kept = [], []
    if collect(function, _is_product):
        done, kept = _rewrite(function, buffers, size[0], limit)
    problem = run_passes(function, _CLEAN) if done else ""
    if problem:
        done, kept = [], [f"its rewritten form fails: {problem}"]
    if done:
        mark_lowered(function)
        report.record(kernel, "lowered", ", ".join(done))
    else:
        restore(function, copy)
    for why in kept:
        report.record(kernel, "not-lowered", f"does not fetch tiles ahead: {why}")
    return bool(done)


def _rewrite(
    function: ir.Operation, buffers: int, count: int, limit: int
) -> tuple[list[str], list[str]]:
    """What was done to a kernel of `count` threads, in words, and why what was not."""
    done: list[str] = []
    _use_only_x(function)
    run_passes(function, _CLEAN)
    if masks := drop_edge_masks(function):
        done.append(f"drops {masks} mask(s) of rows beyond the end")
        run_passes(function, _CLEAN)
    if tiles := copy_before_loops(function):
        done.append(f"copies {tiles} tile(s) once that each step copied")
        run_passes(function, _CLEAN)
        scale_before_loops(function)
        run_passes(function, _CLEAN)
    # Values are looked up by their handles: each step gets a table of its own.
    if spaced := space_rows(function, Threads(count), limit):
        done.append(f"spaces the rows of {spaced} shared buffer(s)")
    run_passes(function, _CLEAN)
    if not are_aligned(function):
        return done, ["not all of its shared buffers are multiples of 16 bytes long"]
    if again := read_in_loops(function, count):
        done.append(f"reads {again} fragment(s) in each step that registers cannot hold")
        run_passes(function, _CLEAN)
    loops, kept = fetch_ahead(function, Threads(count), limit, buffers)
    done += [f"fetches the tiles of {loops} loop(s) ahead"] if loops else []
    if fragments := use_ldmatrix(function, Threads(count)):
        done.append(f"reads {fragments} fragment(s) with ldmatrix")
    if buffers == _PROJECTION_BUFFERS:
        # What ldmatrix replaced is still there.
        run_passes(function, _CLEAN)
        loops = interleave(function)
        done += [f"orders the steps of {loops} loop(s)"] if loops else []
    return done, kept


def _use_only_x(function: ir.Operation) -> None:
    """Threads of a workgroup of one row have no other numbers than x."""
    for op in collect(function, lambda op: op.name == "gpu.thread_id"):
        if op.attributes["dimension"] != dimension_x(op.context):
            op.results[0].replace_all_uses_with(Builder(op).constant_index(0))
