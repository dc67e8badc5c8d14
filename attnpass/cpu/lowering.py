"""IREE's pipeline for tiles and vectors on CPUs, run in parts, with loops of ours in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iree.compiler import ir

from ..codegen.kernel import CONFIGURATION, KernelsPass, mark_lowered, run_passes
from ..ir import (
    DYNAMIC,
    collect,
    detached_copy,
    printed,
    reduces,
    remove_attributes,
    replace_op,
    restore,
    set_attribute,
)
from ..ir.refusal import Refusal
from ..machines import parse_target
from ..machines.cpu.machine import Cpu
from ..report.ops import op_of
from ..report.records import Report
from .plain_accesses import use_plain_accesses
from .straight_accesses import use_straight_accesses
from .wide_ops import OPEN_ROWS, TILE_INNER, cut_wide_ops

# IREE 3.13's pipeline LinalgExtTileAndVectorize (LLVMCPU/Passes.cpp), without what tiles keys.
_TILE = ",".join(
    (
        "iree-codegen-tile-and-distribute-to-workgroups-using-forall-op",
        "iree-codegen-bufferize-dispatch-tensor-load-store",
        "iree-codegen-combine-result-layout-transformation",
        "iree-codegen-config-tracking-canonicalize",
        "cse",
        "iree-codegen-fuse-tensor-pad-with-consumer",
        "iree-codegen-concretize-pad-result-shape",
        "iree-codegen-propagate-dispatch-size-bounds",
        "iree-llvmcpu-tile-and-fuse-producer-consumer{tiling-level=vector_common_parallel}",
        "iree-codegen-forall-to-for",
    )
)
_VECTORIZE = ",".join(
    (
        "iree-codegen-generic-vectorization{enable-vector-masking=true}",
        "canonicalize",
        "cse",
        "iree-llvmcpu-verify-vector-size-legality",
    )
)
_BUFFERS = "canonicalize,cse,iree-codegen-llvmcpu-bufferization-pipeline"
_VECTORS = "iree-codegen-llvmcpu-vector-lowering-pipeline"


class LoopPass(KernelsPass):
    """Base of the passes that lower kernels to vector loops of ours."""

    backends = ("llvm-cpu",)

    def change(self, function: ir.Operation, target: str, report: Report) -> bool:
        machine = parse_target(target)
        return isinstance(machine, Cpu) and self.rewrite(function, target, machine, report)

    def rewrite(self, function: ir.Operation, target: str, machine: Cpu, report: Report) -> bool:
        """Lowers a kernel for a machine, whose `target` IREE has said, or configures it for other
        steps of IREE's; returns whether it changed."""
        raise NotImplementedError


def lower_kernel(
    function: ir.Operation,
    attempts: Iterable[tuple[str, Callable[[ir.Operation], Refusal | None]]],
    report: Report,
    why: str | Refusal = "",
) -> bool:
    """Lowers a kernel by the first attempt that is not refused; each comes with what stands in the
    lanes. Where all are, the kernel stays as it was, for IREE, with the last refusal (`why` where
    there is no attempt)."""
    kernel = op_of(function)
    for lanes, lower in attempts:
        copy = detached_copy(function)
        refusal = lower(function)
        if refusal is None:
            mark_lowered(function)
            report.record(kernel, "loops", lanes=lanes)
            return True
        restore(function, copy)
        function, why = copy, refusal
    report.record(kernel, "no-loops", why)
    return False


def in_pieces(workgroup: Sequence[int], tile: Sequence[int]) -> str:
    """The configuration of an op whose loops are cut in these sizes, 0 for a whole one."""
    sizes = f"distribution = {list(workgroup)}, vector_common_parallel = {list(tile)}"
    return f"#iree_cpu.lowering_config<{sizes}>"


def lower_tiles(
    function: ir.Operation,
    op: ir.Operation,
    configuration: str,
    put: Callable[[ir.Operation], Refusal | None],
    lanes: int,
    target: str,
    most_rows: int = OPEN_ROWS,
    others: Iterable[ir.Operation] = (),
) -> Refusal | None:
    """Lowers a kernel for a target, cut as this configuration of `op` says and those of the
    `others` no more, once `put` has put loops into the tile; why it cannot be, with the kernel in
    any state, or None."""
    for other in others:
        if CONFIGURATION in other.attributes:
            remove_attributes(other, CONFIGURATION)
    set_attribute(op, CONFIGURATION, configuration)
    # Loops before vectors are made, which the op would become, too.
    why = tile(function) or put(function) or vectorize(function, lanes, most_rows)
    return why or lower_vectors(function, target)


def put_loops(op: ir.Operation, emit: Callable[[], ir.Value]) -> None:
    """Puts what loops make in the place of an op."""
    with op.location:
        made = emit()
    replace_op(op, made)


def refuse_others(ops: Iterable[ir.Operation], op: ir.Operation) -> Refusal | None:
    """Why the ops of a kernel beside `op` keep it from loops, or None."""
    others = [other for other in ops if other != op]
    if any(other.name != "linalg.fill" and reduces(other) for other in others):
        return Refusal("its kernel sums up something else, too")
    strange = [each.name for each in others if each.name not in ("linalg.fill", "linalg.generic")]
    return Refusal(f"its kernel holds a {strange[0]}") if strange else None


def tile(function: ir.Operation) -> Refusal | None:
    """Cuts a kernel as its configuration says; why IREE cannot, with the kernel in any state."""
    why = run_passes(function, _TILE)
    return Refusal(f"IREE says of its tiles: {why}") if why else None


def vectorize(function: ir.Operation, lanes: int, most_rows: int = OPEN_ROWS) -> Refusal | None:
    """Makes vector code of the tiles of a kernel's ops, of up to `most_rows` where their number is
    open; why IREE cannot."""
    why = ""
    if cut_wide_ops(function, lanes, most_rows):
        why = run_passes(function, TILE_INNER)
    why = why or run_passes(function, _VECTORIZE)
    return Refusal(f"IREE says of its vectors: {why}") if why else None


def lower_vectors(function: ir.Operation, target: str) -> Refusal | None:
    """Lowers vector code on tensors to buffers; why it cannot be, or None."""
    use_straight_accesses(function)
    why = run_passes(function, _BUFFERS)
    if why:
        return Refusal(f"IREE says of its buffers: {why}")
    taken = _stack_bytes(function)
    stack_limit = printed.number(target, "max_stack_allocation_size")
    if taken > stack_limit:
        return Refusal(f"it needs {taken} bytes of stack, and may have {stack_limit}")
    use_plain_accesses(function)
    why = run_passes(function, _VECTORS)
    return Refusal(f"IREE says of its vectors: {why}") if why else None


def _stack_bytes(function: ir.Operation) -> int:
    total = 0
    for op in collect(function, lambda op: op.name == "memref.alloca"):
        kind = ir.MemRefType(op.results[0].type)
        size = 1
        for extent in kind.shape:
            size *= 1 if extent == DYNAMIC else extent
        total += size * _bits(kind.element_type) // 8
    return total


def _bits(kind: ir.Type) -> int:
    return kind.width if isinstance(kind, ir.IntegerType | ir.FloatType) else 64
