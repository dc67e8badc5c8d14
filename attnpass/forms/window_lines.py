"""attn-window-lines: windows along a dim are copied by lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.barrier import compute_barrier
from ..ir import (
    Builder,
    Refusal,
    body_names,
    body_of,
    collect,
    element_type,
    erase_dead,
    is_elementwise,
    maps,
    ranked_shape,
    sizes_of,
    users,
    yielded,
)
from ..ir.contractions import is_contraction
from ..ir.views import RESHAPES
from ..passes import Pass, PassContext

# Elements of windows that overlap, for one of what they are of.
_MOST_COPIES = 8


class WindowLines(Pass):
    """Makes of windows (`x.unfold(2, 3 * w, w)`, Longformer's and local attention's keys, frames of
    sound) a loop that takes lines by index:

        windows[.., i, d, j] = x[.., i * w + j, d]

    Importers have the sum in the map of a generic. IREE 3.13 has no vectors for that where lines
    of the result lie across those of the tensor, and reads element by element (19 million of f16 on
    an H200: 712 us, where memory takes 20). So the tensor is turned first, which is less, or the
    windows are behind, where products read them, which take either order. Windows that overlap
    more than 8 times are left: what sums them up reads each element from the cache.
    """

    name = "attn-window-lines"
    summary = "NVIDIA GPUs and CPUs: windows along a dim are copied by lines"
    why = "IREE reads windows element by element"
    backends = ("cuda", "llvm-cpu")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        replaced: list[ir.Operation] = []
        for op in collect(module, _takes_windows, bodies=False):
            found = _read(op)
            if isinstance(found, Refusal):
                context.report.record(op, "left", found)
                continue
            context.report.record(op, "fitted", "takes windows by lines")
            op.results[0].replace_all_uses_with(found.made())
            replaced.append(op)
        erase_dead(replaced)
        return bool(replaced)


def _takes_windows(op: ir.Operation) -> bool:
    """Whether all that an op does is to copy, of a dim at the sum of several loops."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or not is_elementwise(op):
        return False
    if body_names(op) != ["linalg.yield"] or yielded(op) != body_of(op).arguments[0]:
        return False
    terms = [one for one in _terms(op, 0) if one is not None]
    return any(len(factors) > 1 for factors, _ in terms)


def _terms(op: ir.Operation, number: int) -> list[tuple[dict[int, int], int] | None]:
    """The factors of loops, and what is added, for each dim of an operand."""
    attribute = ir.AffineMapAttr(ir.ArrayAttr(op.attributes["indexing_maps"])[number])
    return [maps.loop_terms(expr) for expr in attribute.value.results]


@dataclass(frozen=True)
class _WindowCopy:
    """A copy whose loops are the dims of its result; each dim of what it reads is at a sum of
    multiples of `factors` of them, and of a number."""

    op: ir.Operation
    terms: tuple[tuple[dict[int, int], int], ...]

    @property
    def natural(self) -> list[int]:
        """The loops, in the order of what they run along, from far to near."""
        return [
            loop
            for factors, _ in self.terms
            for loop in sorted(factors, key=lambda loop: -factors[loop])
        ]

    @property
    def in_lines(self) -> bool:
        """Whether lines of the result are lines of what is read, too."""
        return self.natural[-1] == len(self.natural) - 1

    def made(self) -> ir.Value:
        op, build = self.op, Builder(self.op)
        source, result = op.operands[0], op.results[0]
        order = list(range(len(self.natural)))
        if self.in_lines:
            value = self._taken(build, source, self.terms, order)
        elif _reads_any_order(result):
            value = self._taken(build, source, self.terms, self.natural)
            value = build.transpose(value, maps.inverse(self.natural))
        else:
            line = next(dim for dim, (each, _) in enumerate(self.terms) if order[-1] in each)
            dims = [*(dim for dim in range(len(self.terms)) if dim != line), line]
            source = compute_barrier(build, build.transpose(source, dims))
            value = self._taken(build, source, [self.terms[dim] for dim in dims], order)
        return build.cast(value, sizes_of(result))

    def _taken(
        self,
        build: Builder,
        source: ir.Value,
        terms: Sequence[tuple[dict[int, int], int]],
        order: Sequence[int],
    ) -> ir.Value:
        """The windows with their loops in this order."""
        place = {loop: at for at, loop in enumerate(order)}
        all_sizes = sizes_of(self.op.results[0])
        sizes = [all_sizes[loop] for loop in order]
        source = compute_barrier(build, source)

        def element(inner: Builder, _: Sequence[ir.Value]) -> ir.Value:
            indices = []
            for factors, more in terms:
                index = inner.constant_index(more) if more or not factors else None
                for loop, factor in factors.items():
                    at = inner.loop_index(place[loop])
                    index = inner.multiply_add(at, factor, 0 if index is None else index)
                assert index is not None, "a dim is at a loop, or at a number"
                indices.append(index)
            return inner.extract(source, indices)

        return compute_barrier(build, build.computed(sizes, element_type(source), element))


def _reads_any_order(value: ir.Value) -> bool:
    """Whether all that reads a tensor is products, and transposes."""
    found = [*users(value)]
    for op in found:
        if op.name in RESHAPES:
            found += users(op.results[0])
        elif op.name != "linalg.transpose" and not is_contraction(op):
            return False
    return bool(found)


def _read(op: ir.Operation) -> _WindowCopy | Refusal:
    terms = [one for one in _terms(op, 0) if one is not None]
    rank = len(ranked_shape(op.results[0]))
    written = [one for one in _terms(op, 1) if one is not None]
    if written != [({loop: 1}, 0) for loop in range(rank)]:
        return Refusal("its result's dims are in another order than its loops")
    loops = [loop for factors, _ in terms for loop in factors]
    if len(terms) < len(ranked_shape(op.operands[0])) or sorted(loops) != [*range(rank)]:
        return Refusal("its windows are repeated")
    if any(factor < 1 for factors, _ in terms for factor in factors.values()):
        return Refusal("its windows run backwards")
    found = _WindowCopy(op, tuple(terms))
    last = {loop: factor for factors, _ in terms for loop, factor in factors.items()}
    if last[rank - 1] != 1 or last[found.natural[-1]] != 1:
        return Refusal("its lines have gaps")
    shapes = [ranked_shape(value) for value in (op.operands[0], op.results[0])]
    known = [math.prod(size or 1 for size in shape) for shape in shapes]
    if None not in shapes[0] and known[1] > _MOST_COPIES * known[0]:
        return Refusal(f"each element is in {known[1] // known[0]} windows")
    return found
