"""Which loops of a kernel's ops run along one dim, and where their tensors are."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from ..codegen.kernel import STORES, load_of
from ..ir import Builder, collect, defining_op, loops_read, maps, ranked_shape, users, yielded
from ..ir.bodies import body_of

# The largest or least of two, and what IREE 3.13 can do in parts of a reduction.
LARGEST = tuple(
    f"arith.{name}"
    for name in (
        *("maximumf", "minimumf", "maxnumf", "minnumf"),
        *("maxsi", "minsi", "maxui", "minui"),
    )
)
_COMBINES = ("arith.addf", "arith.mulf", "arith.addi", "arith.muli", *LARGEST)


class SharedLoops:
    """Which loops of a kernel's `linalg.generic` ops run along one dim: those that index the same
    dim of a tensor, and so on."""

    def __init__(self, function: ir.Operation):
        self.generics = collect(function, lambda op: op.name == "linalg.generic", bodies=False)
        self._above: dict[object, object] = {}
        for op in self.generics:
            for value, dims in tensors_of(op):
                for dim, loop in enumerate(dims):
                    if loop is not None:
                        self._join((value, dim), (op.results[0], "loop", loop))

    def along_the_same(self, op: ir.Operation, loop: int, other: ir.Operation) -> list[int]:
        """The loops of another op that run along the dim of this one's loop; none of an op that
        does not say how its loops index."""
        if "indexing_maps" not in other.attributes:
            return []
        known = self._first((op.results[0], "loop", loop))
        count = maps.loop_count(other)
        return [at for at in range(count) if self._first((other.results[0], "loop", at)) == known]

    def tensors(self, op: ir.Operation, loop: int) -> list[ir.Value]:
        """The tensors with a dim along which the loop runs."""
        known = self._first((op.results[0], "loop", loop))
        values = [(value, dims) for each in self.generics for value, dims in tensors_of(each)]
        return [
            value
            for value, dims in values
            if any(self._first((value, dim)) == known for dim in range(len(dims)))
        ]

    def _join(self, one: object, other: object) -> None:
        self._above[self._first(one)] = self._first(other)

    def _first(self, node: object) -> object:
        while (above := self._above.get(node, node)) != node:
            node = above
        return node


def tensors_of(op: ir.Operation) -> list[tuple[ir.Value, maps.Positions]]:
    """The operands and results of a `linalg.generic`, each with its loops by dim; none of an op
    whose maps are no projected permutations."""
    read = loops_read(op)
    written = [dims for _, dims in read[len(op.operands) - len(op.results) :]]
    return [*read, *zip(op.results, written, strict=bool(read))]


def combines(op: ir.Operation) -> bool:
    """Whether a `linalg.generic` of one result combines that with what its parts give, in any order
    (it sums, say). IREE 3.13 fails where lanes share what a chain of other ops makes."""
    last, total = defining_op(yielded(op), *_COMBINES), body_of(op).arguments[len(op.operands) - 1]
    if last is None or list(last.operands).count(total) != 1:
        return False
    return users(total) == [last]


def added_parts(build: Builder, parts: ir.Value, init: ir.Value, name: str) -> ir.Value:
    """What the op `name` makes of `init` and of parts, which have one dim more, in front."""
    own = tuple(range(len(ranked_shape(init))))

    def body(inner: Builder, x: Sequence[ir.Value]) -> list[ir.Value]:
        return [inner.apply(name, x[0], x[1])]

    return build.generic([parts], [init], [(len(own), *own), own], body)[0]


def is_in_memory(value: ir.Value) -> bool:
    return load_of(value) is not None or any(op.name in STORES for op in users(value))
