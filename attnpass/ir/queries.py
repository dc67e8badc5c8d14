"""What the IR says: where values come from, who uses them, which ops stand where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from iree.compiler import ir

from . import maps, printed
from .types import ranked_shape

Node = TypeVar("Node")


def defining_op(value: ir.Value, *names: str) -> ir.Operation | None:
    """The op that makes `value`, if it is of one of `names`, where there are any; None for a block
    argument."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation
    return op if not names or op.name in names else None


def below_ops(value: ir.Value, *names: str) -> ir.Value:
    """What `value` is made of, through ops of these names: the first operand of each."""
    while (op := defining_op(value, *names)) is not None:
        value = op.operands[0]
    return value


def enclosing(op: ir.Operation) -> Iterator[ir.Operation]:
    """An op, and those that it stands in, the module last."""
    yield op
    while op.parent is not None:
        op = op.parent.operation
        yield op


def module_of(op: ir.Operation) -> ir.Operation:
    """The outermost op that an op stands in, or is."""
    *_, last = enclosing(op)
    return last


def has_ancestor(op: ir.Operation, *names: str) -> bool:
    """Whether `op` stands in an op of one of these names."""
    return any(outer.name in names for outer in enclosing(op) if outer != op)


def is_inside(block: ir.Block, op: ir.Operation) -> bool:
    """Whether a block is in a region of an op."""
    return op in enclosing(block.owner.operation)


def has_one_use(value: ir.Value) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def is_used(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None


def users(value: ir.Value) -> list[ir.Operation]:
    """The ops that use `value`, each once."""
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def readers_behind(
    value: ir.Value, through: Callable[[ir.Operation], bool]
) -> Iterator[ir.Operation]:
    """The ops that read the elements of a value, or of what ops to look `through` make of it."""
    for user in users(value):
        if through(user):
            yield from readers_behind(user.results[0], through)
        elif user.name != "tensor.dim":
            yield user


def reached(starts: Iterable[Node], further: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """`starts`, what `further` gives of each, and so on, each once, the last that was given first.
    Nothing further is asked of one that the reader stops at."""
    waiting, seen = [*starts], set[Node]()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield one
            waiting += further(one)


def terminator(block: ir.Block) -> ir.Operation:
    """The last op of a block."""
    return block.operations[len(block.operations) - 1].operation


def next_op(op: ir.Operation) -> ir.Operation:
    """The op behind `op` in its block; a defining op always has one, the terminator."""
    behind = ir.InsertionPoint.after(op).ref_operation
    assert behind is not None, "a terminator defines no value"
    return behind.operation


def descendants(op: ir.Operation, *names: str) -> Iterator[ir.Operation]:
    """The ops called names[-1] inside those called names[-2], and so on up to `op`."""
    if not names:
        yield op
        return
    inside = [child.operation for region in op.regions for block in region for child in block]
    for child in inside:
        if child.name == names[0]:
            yield from descendants(child, *names[1:])


def concat_dim(op: ir.Operation) -> int:
    """The dim along which a `tensor.concat` puts its operands together."""
    return ir.IntegerAttr(op.attributes["dim"]).value


def full_name(op: ir.Operation) -> str:
    """An op's name; of a `torch.operator` that of what it stands for, as `onnx.ReduceSum`."""
    return ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name


def symbol_name(op: ir.Operation) -> str:
    """The name of a function, global or other symbol."""
    return ir.StringAttr(op.attributes["sym_name"]).value


def indexed_dims(op: ir.Operation) -> int:
    """How many dims of a tensor the indices of a gather or a scatter address."""
    return len(list(op.attributes["dimension_map"]))


def function_name(op: ir.Operation) -> str:
    """The name of the function that an op stands in, or is; '' without one."""
    return next((symbol_name(one) for one in enclosing(op) if "sym_name" in one.attributes), "")


def walk(root: ir.Operation, visit: Callable[[ir.Operation], ir.WalkResult]) -> None:
    """Calls `visit` with the ops at and under `root`, in the order they stand. What it raises comes
    out as it is, an interrupt too: IREE's own walk makes another error of it."""
    raised: list[BaseException] = []

    def look(op: ir.Operation) -> ir.WalkResult:
        try:
            return visit(op.operation)
        except BaseException as error:
            raised.append(error)
            return ir.WalkResult.INTERRUPT

    root.walk(look, ir.WalkOrder.PRE_ORDER)
    if raised:
        raise raised[0]


def collect(
    root: ir.Operation, wanted: Callable[[ir.Operation], bool], *, bodies: bool = True
) -> list[ir.Operation]:
    """The ops at and under `root` that are wanted, in the order they stand; without `bodies`
    not those inside linalg ops, which hold scalars only: not walking them is most of the speed.
    """
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        skips = not bodies and op.name.startswith("linalg.")
        return ir.WalkResult.SKIP if skips else ir.WalkResult.ADVANCE

    walk(root, visit)
    return found


def outer_reads(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that an op, or an op in its regions, reads."""
    found: dict[ir.Value, None] = {}
    for inner in collect(op, lambda _: True):
        for value in inner.operands:
            owner = value.owner
            block = owner if isinstance(owner, ir.Block) else owner.operation.block
            if not is_inside(block, op):
                found[value] = None
    return list(found)


def iterator_kinds(op: ir.Operation) -> list[str]:
    """`parallel` or `reduction` for each loop of a linalg op, nothing for other ops."""
    name = "iterator_types"
    return printed.iterator_kinds(op.attributes[name]) if name in op.attributes else []


def loops_read(op: ir.Operation) -> list[tuple[ir.Value, maps.Positions]]:
    """The operands of a linalg op, each with the loops of its dims; none of an op without maps, or
    whose maps are no projected permutations."""
    positions = maps.positions(op) if "indexing_maps" in op.attributes else None
    return [] if positions is None else list(zip(op.operands, positions, strict=True))


def maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    """The maps of a linalg op's operands, of a named one, too."""
    from iree.compiler._mlir_libs import _mlirDialectsLinalg

    had = set(op.attributes)
    noted = _mlirDialectsLinalg.get_indexing_maps(op) or ()
    found = [ir.AffineMapAttr(one).value for one in noted]
    for name in set(op.attributes) - had:
        del op.attributes[name]  # What MLIR notes for itself.
    return found


def loop_sizes(op: ir.Operation) -> dict[int, int | None]:
    """How long the loops of a linalg op run; None where that is known only at run time."""
    return {
        loop: size
        for value, dims in loops_read(op)
        for loop, size in zip(dims, ranked_shape(value) if dims else (), strict=True)
        if loop is not None
    }


def reduces(op: ir.Operation) -> bool:
    """Whether this linalg op has a reduction loop."""
    return "reduction" in iterator_kinds(op)


def is_elementwise(op: ir.Operation) -> bool:
    """Whether this is a generic that has one result and reduces nothing."""
    return op.name == "linalg.generic" and len(op.results) == 1 and not reduces(op)
