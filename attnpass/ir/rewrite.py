"""What a rewrite does to ops that stand: values replaced, ops erased or put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from iree.compiler import ir

from .builder import Builder
from .queries import defining_op, has_one_use, is_used, next_op, users
from .regions import copy_region
from .sizes import Size
from .types import element_type

# Ops without side effects that a rewrite may leave without uses.
_PURE_PREFIXES = ("linalg.", "tensor.", "arith.", "math.", "iree_linalg_ext.", "affine.apply")


def replace_reads(value: ir.Value, new: ir.Value) -> None:
    """Makes all who read `value` read `new`. Who asks for a size only, perhaps to make `new`,
    keeps asking `value`: that keeps nothing alive when the program runs."""
    for use in list(value.uses):
        if use.owner.operation.name != "tensor.dim":
            use.owner.operation.operands[use.operand_number] = new


def replace_operand(op: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    """Makes an op read `new` where it reads `old`."""
    for number, operand in enumerate(op.operands):
        if operand == old:
            op.operands[number] = new


class StandIn:
    """What `name` will be once it is a tensor of `sizes`: until `finalize`, `value` stands for
    that, and the program keeps reading `name` itself as it always was."""

    def __init__(self, name: ir.Value, sizes: Sequence[Size]):
        op = defining_op(name)
        below = ir.BlockArgument(name).owner.operations[0] if op is None else next_op(op)
        build = Builder(below.operation, name.location)
        kind = build.tensor_type(sizes, element_type(name))
        self.name = name
        self._op = build.create("builtin.unrealized_conversion_cast", [kind], [name])

    @property
    def value(self) -> ir.Value:
        return self._op.results[0]

    def finalize(self, restore: Callable[[ir.Value, Builder], ir.Value]) -> None:
        """Gives `name` its new type. Who still reads it as it was gets what `restore` makes
        of the new value. This stand-in must not be used again."""
        if not has_one_use(self.name):
            old = restore(self.value, Builder(next_op(self._op), self._op.location))
            self.name.replace_all_uses_except(old, self._op)
        kind = self.value.type
        self._op.operands[0] = self.name
        self.value.replace_all_uses_with(self.name)
        self.name.set_type(kind)
        self._op.erase()


def put_in_place(
    op: ir.Operation, name: str, attributes: Mapping[str, ir.Attribute]
) -> ir.Operation:
    """Gives the users of `op` an op of another name with these attributes, on the same operands and
    with the same body."""
    kinds = [result.type for result in op.results]
    new = Builder(op).create(name, kinds, list(op.operands), attributes, regions=1)
    copy_region(op, new)
    for old, value in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    return new


def replace_op(op: ir.Operation, *values: ir.Value) -> None:
    """Gives the users of an op these values for its first results, and erases it; other results
    must have no users. Its handle must not be used again."""
    for old, new in zip(op.results, values, strict=False):
        old.replace_all_uses_with(new)
    erase(op)


def erase_dead(ops: Iterable[ir.Operation]) -> None:
    """Erases those of `ops`, and of what they alone used, that have no uses left.

    No handle of an erased op may be used again: a pass calls this once, at its end.
    """
    pending = dict.fromkeys(ops)
    while pending:
        op, _ = pending.popitem()
        if not op.name.startswith(_PURE_PREFIXES) or not len(op.results):
            continue
        if any(map(is_used, op.results)):
            continue
        producers = [producer for operand in op.operands if (producer := defining_op(operand))]
        op.erase()
        pending.update(dict.fromkeys(producers))


def erase_unused(ops: Iterable[ir.Operation]) -> None:
    """Erases ops, users first, none of whose results may be in use any more."""
    for op in ops:
        assert not any(users(result) for result in op.results), "an op in use"
        op.erase()


def erase(op: ir.Operation) -> None:
    """Erases one op whose results have no uses; its handle must not be used again."""
    op.erase()


def detached_copy(op: ir.Operation) -> ir.Operation:
    """A copy of `op` that stands nowhere: the way back from a rewrite that may not work out."""
    return op.clone(ip=False).operation


def restore(op: ir.Operation, copy: ir.Operation) -> None:
    """Puts a detached copy in the place of `op`, whose handle must not be used again."""
    ir.InsertionPoint(op).insert(copy)
    op.erase()
