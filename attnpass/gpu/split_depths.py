"""attn-split-depths: f32 products with few results and much depth are sums of products of parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    collect,
    copy_product,
    element_type,
    element_type_name,
    erase_dead,
    filled_with,
    scalar_number,
    sizes_of,
)
from ..ir.contractions import NAMED, ContractionFacts, read_contraction
from ..machines import Target
from ..machines.nvidia.f32_products import LEAST_DEPTH, are_few, time_of
from ..passes import PassContext, TargetPass
from .shared_loops import added_parts

_PARTS, _LEAST_PART = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48), 256
# Seconds of one of `time_of`, of a launch, and bytes a second of the sums.
_SECONDS, _LAUNCH, _RATE = 1.2e-11, 3e-6, 2.5e12
# Of what a product takes, what parts must save.
_SAVED = 0.15


@dataclass(frozen=True)
class SplitDepths(TargetPass):
    """Cuts the depth of an f32 product in parts, whose products are added up, where the result has
    too few tiles to keep a GPU busy.

    512 x 768 of depth 3072, a BERT's second product, is 96 tiles of 64 x 64, for 132
    multiprocessors, which take 125 us on an H200; PyTorch takes 64.
    """

    name = "attn-split-depths"
    summary = "NVIDIA GPUs: f32 products of few results and much depth in parts"
    why = "IREE has too few workgroups for them, each of which waits for memory"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if target is None or not self.concerns({target.backend}):
            return False
        replaced: list[ir.Operation] = []
        for op in collect(module, lambda op: op.name in NAMED):
            facts = read_contraction(op)
            parts = 0 if facts is None else _parts(facts, target)
            if facts is not None and parts:
                what = f"is the sum of products of {parts} parts of its depth"
                context.report.record(op, "fitted", what, kind="contraction", parts=parts)
                op.results[0].replace_all_uses_with(_in_parts(facts, parts))
                replaced.append(op)
        erase_dead(replaced)
        return bool(replaced)


def _parts(facts: ContractionFacts, target: Target) -> int:
    """In how many parts a product is the fastest; 0 where it is left: other types and unknown
    sizes, rows that IREE has kernels for, and what tiles do not divide."""
    operands = list(facts.op.operands)
    sizes = [size for size in facts.sizes if isinstance(size, int)]
    start = filled_with(operands[2])
    if len(sizes) < len(facts.sizes) or len(facts.k) != 1 or not (facts.m and facts.n):
        return 0
    if any(element_type_name(value) != "f32" for value in operands):
        return 0
    if start is None or scalar_number(start) != 0 or None in (*facts.left, *facts.right):
        return 0
    (along,) = facts.k
    rows, lines = sizes[facts.m[-1]], sizes[facts.n[-1]]
    if facts.kept[-1] in facts.m:
        rows, lines = lines, rows
    depth, count = sizes[along], math.prod(sizes[loop] for loop in facts.kept)
    if are_few([rows]) or are_few([lines]):
        return 0

    def seconds(parts: int) -> float | None:
        """What the product takes in parts; None where no tile divides one."""
        part = depth // parts
        steps = time_of(rows, lines, part, count * parts, target)
        if steps is None or depth % (parts * LEAST_DEPTH) or (parts > 1 and part < _LEAST_PART):
            return None
        adding = _LAUNCH + 4 * count * (2 * parts + 1) / _RATE if parts > 1 else 0.0
        return _SECONDS * steps * part + adding

    whole = seconds(1)
    ways = [(time, parts) for parts in _PARTS if (time := seconds(parts)) is not None]
    best, parts = min(ways, default=(0.0, 0))
    return parts if whole is not None and best < (1 - _SAVED) * whole else 0


def _in_parts(facts: ContractionFacts, parts: int) -> ir.Value:
    """The result of a product, made of those of parts of its depth, which have a first loop."""
    op, build = facts.op, Builder(facts.op)
    (along,) = facts.k
    # The loop over the parts is the first.
    reads = []
    for value, dims in zip(list(op.operands)[:2], (facts.left, facts.right), strict=True):
        sizes = sizes_of(value)
        size = facts.sizes[along]
        assert isinstance(size, int), "it has been read before"
        cut = [
            [parts, size // parts] if loop == along else [each]
            for loop, each in zip(dims, sizes, strict=True)
        ]
        loops = [
            one
            for loop in dims
            if loop is not None
            for one in ((0, loop + 1) if loop == along else (loop + 1,))
        ]
        reads.append((build.split_dims(value, cut), tuple(loops)))
    init = op.operands[2]
    start = filled_with(init)
    assert start is not None, "it has been read before"
    space = build.empty([parts, *sizes_of(init)], element_type(init))
    result = tuple(loop + 1 for loop in facts.kept)
    reads.append((build.fill(start, space), (0, *result)))
    products = copy_product(op, reads, len(facts.sizes) + 1, build)
    return added_parts(build, products, init, "arith.addf")
