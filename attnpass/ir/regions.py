"""Bodies of ops and functions: new ones, and copies of what others hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from . import maps, printed
from .attributes import copied_attributes
from .bodies import (
    INDEX_OPS,
    ElementwiseFacts,
    body_of,
    body_ops,
    index_dim,
    is_arithmetic,
    needed_ops,
    read_elementwise,
)
from .builder import Builder, fill_builtin_region
from .queries import collect, defining_op, has_one_use
from .sizes import sizes_of
from .views import WHOLE, view_of


def fill_region(
    op: ir.Operation,
    arguments: Sequence[ir.Type],
    terminator: str,
    fill: Callable[[Builder, Sequence[ir.Value]], Sequence[ir.Value]],
) -> Sequence[ir.Value]:
    """Gives the first region of `op` a block: `fill` makes its ops of a builder and the block's
    arguments, and gives what the terminator takes, which is returned."""
    block = op.regions[0].blocks.append(*arguments, arg_locs=[op.location] * len(arguments))
    body = Builder(op)
    return body.fill_block(block, terminator, lambda inner: fill(inner, list(block.arguments)))


def fill_unrun(op: ir.Operation, terminator: str, fill: Callable[[Builder], None]) -> None:
    """Gives the first region of `op` what `fill` makes in a block that never runs, as IREE cannot
    know."""
    start, unrun, end = (op.regions[0].blocks.append() for _ in range(3))

    def ending(block: ir.Block, name: str, **more: Any) -> ir.Operation:
        return ir.Operation.create(name, ip=ir.InsertionPoint(block), loc=op.location, **more)

    ending(end, terminator)
    fill(Builder(ending(unrun, "cf.br", successors=[end])))
    # A terminator stands while what the jump hangs on is built before it.
    anchor = ending(start, "cf.br", successors=[end])
    build, i1 = Builder(anchor), ir.IntegerType.get_signless(1, op.context)
    never = build.barred(build.constant_number(0, i1))
    anchor.erase()
    ending(
        start,
        "cf.cond_br",
        operands=[never],
        successors=[unrun, end],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0], op.context)},
    )


def append_op(module: ir.Module, name: str, attributes: dict[str, ir.Attribute]) -> ir.Operation:
    """Appends an op with one region, still empty, to the body of a module."""
    location = ir.Location.unknown(module.context)
    point = ir.InsertionPoint(module.body)
    return ir.Operation.create(name, attributes=attributes, regions=1, ip=point, loc=location)


def add_function(
    module: ir.Module,
    name: str,
    arguments: Sequence[ir.Type],
    fill: Callable[[Builder, Sequence[ir.Value]], Sequence[ir.Value]],
) -> None:
    """Appends `func.func @name` to a module: `fill` makes its body of a builder and the
    arguments and gives what it returns."""
    context = module.context
    attributes: dict[str, ir.Attribute] = {
        "sym_name": ir.StringAttr.get(name, context),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [], context)),
    }
    function = append_op(module, "func.func", attributes)
    returned = fill_region(function, arguments, "func.return", fill)
    kind = ir.FunctionType.get(arguments, [value.type for value in returned], module.context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def set_function_type(function: ir.Operation, returns: Sequence[ir.Operation]) -> None:
    """Makes the type of a function that of its arguments and of what `returns` return."""
    arguments = [argument.type for argument in function.regions[0].blocks[0].arguments]
    results = [value.type for value in returns[0].operands] if returns else []
    kind = ir.FunctionType.get(arguments, results, context=function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def copy_steps(
    ops: Iterable[ir.Operation],
    build: Builder,
    names: Mapping[ir.Value, ir.Value],
    index: Callable[[int], ir.Value] | None = None,
) -> dict[ir.Value, ir.Value]:
    """Copies ops of a body to where `build` stands, whatever they hold; `names` says what stands
    for the values from elsewhere, `index` makes that of an iteration dim, if any is read. Returns
    `names` with what stands for the results."""
    found = dict(names)
    for op in ops:
        if op.name in INDEX_OPS:
            assert index is not None, "ops that read no iteration dim"
            found[op.results[0]] = index(index_dim(op))
            continue
        copy = build.copy(op)
        for each in collect(copy, lambda _: True):
            for number, operand in enumerate(each.operands):
                each.operands[number] = found.get(operand, operand)
        found.update(zip(op.results, copy.results, strict=True))
    return found


# More ops one behind the other than that make no kernel of IREE's, and Python's stack ends.
_DEEPEST = 64


@dataclass(frozen=True)
class _Recipe:
    """An element as `make` computes it, of elements of `reads`, in this order."""

    reads: tuple[tuple[ir.Value, maps.Positions], ...]
    make: Callable[[Builder, Sequence[ir.Value]], ir.Value]


def computed_from(
    build: Builder,
    value: ir.Value,
    element: ir.Type,
    body: Callable[[Builder, ir.Value], ir.Value],
) -> ir.Value:
    """A tensor of the sizes of `value`, its elements of type `element`: what `body` makes of each
    of those of `value`. It is one `linalg.generic` with the elementwise ops that make `value` and
    that nobody else reads: IREE has a kernel for those, and another for a widening cast behind
    them."""
    sizes = sizes_of(value)
    source = _source(value, tuple(range(len(sizes))), _DEEPEST)

    def computed(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        return body(inner, source.make(inner, x))

    return build.computed(sizes, element, computed, *source.reads)


def _source(value: ir.Value, dims: maps.Positions, deepest: int) -> _Recipe:
    """What an element of a tensor is made of, through so many ops; `dims` are the loops at which
    its dims are read."""
    op = defining_op(value)
    if op is not None and deepest and has_one_use(value):
        view = view_of(op) if op.name in WHOLE else None
        below = None if view is None else view.places_below(dims)
        if view is not None and below is not None:
            return _source(view.source, below, deepest - 1)
        facts = read_elementwise(op, list(op.results).index(value))
        steps = [] if facts is None else needed_ops(op, [facts.scalar])
        if facts is not None and all(map(is_arithmetic, steps)):
            return _computed_source(facts, steps, dims, deepest - 1)
    return _Recipe(((value, dims),), lambda _, x: x[0])


def _computed_source(
    facts: ElementwiseFacts, steps: Sequence[ir.Operation], dims: maps.Positions, deepest: int
) -> _Recipe:
    wanted = {facts.scalar, *(x for step in steps for x in step.operands)}
    parts = {
        read.argument: _source(
            read.operand, tuple(None if dim is None else dims[dim] for dim in read.dims), deepest
        )
        for read in facts.reads
        if read.argument in wanted
    }

    def make(inner: Builder, x: Sequence[ir.Value]) -> ir.Value:
        names, left = dict[ir.Value, ir.Value](), list(x)
        for argument, part in parts.items():
            count = len(part.reads)
            names[argument], left = part.make(inner, left[:count]), left[count:]

        def index(loop: int) -> ir.Value:
            place = dims[facts.dim_of[loop]]
            return inner.constant_index(0) if place is None else inner.loop_index(place)

        return copy_steps(steps, inner, names, index).get(facts.scalar, facts.scalar)

    return _Recipe(tuple(read for part in parts.values() for read in part.reads), make)


def copy_generic(
    op: ir.Operation,
    reads: Sequence[tuple[ir.Value, maps.Positions]],
    kinds: Sequence[str],
    build: Builder,
    *,
    order: Sequence[int] = (),
    index_dims: Mapping[int, int] | None = None,
    compute_index: Callable[[int, Builder], ir.Value] | None = None,
) -> ir.Operation:
    """A `linalg.generic` with one result again, over other loops, of the iterator types `kinds`:
    `reads` are its inputs and, last, what it writes to, with their maps.

    Operand i is in the place of operand order[i] of `op`; without `order` they keep their places.
    The index of loop d becomes that of loop index_dims[d]; one that `index_dims` lacks is what
    `compute_index` makes of it.
    """
    attributes = copied_attributes(op, "indexing_maps", "iterator_types", "operandSegmentSizes")
    attributes["indexing_maps"] = maps.maps_attribute(len(kinds), [dims for _, dims in reads])
    attributes["iterator_types"] = printed.iterators(kinds)
    attributes["operandSegmentSizes"] = build.segments(len(reads) - 1, 1)
    values = [value for value, _ in reads]
    new = build.create(op.name, [values[-1].type], values, attributes, regions=1)
    given = [body_of(op).arguments[place] for place in order or range(len(reads))]
    locations = [build.location] * len(given)
    block = new.regions[0].blocks.append(*(one.type for one in given), arg_locs=locations)
    names = dict(zip(given, block.arguments, strict=True))
    *steps, last = body_ops(op)

    def fill(inner: Builder) -> list[ir.Value]:
        def index(dim: int) -> ir.Value:
            if index_dims and dim in index_dims:
                return inner.loop_index(index_dims[dim])
            assert compute_index is not None, "the index of a dim that is gone"
            return compute_index(dim, inner)

        made = copy_steps(steps, inner, names, index)
        return [made.get(value, value) for value in last.operands]

    build.fill_block(block, last.name, fill)
    return new


def copy_product(
    op: ir.Operation,
    reads: Sequence[tuple[ir.Value, maps.Positions]],
    loops: int,
    build: Builder,
    name: str = "linalg.contract",
) -> ir.Value:
    """The result of a named product again, as the op `name`, over so many loops: `reads` are its
    factors and what it adds to, with their maps."""
    attributes = copied_attributes(op, "indexing_maps", "operandSegmentSizes")
    attributes["operandSegmentSizes"] = build.segments(2, 1)
    attributes["indexing_maps"] = maps.maps_attribute(loops, [dims for _, dims in reads])
    values = [value for value, _ in reads]
    new = build.create(name, [values[-1].type], values, attributes, regions=1)
    fill_builtin_region(new)
    return new.results[0]


def copy_region(op: ir.Operation, new: ir.Operation) -> None:
    """Gives `new` a copy of the only block of the first region of `op`, whatever that holds; both
    have the same iteration dims."""
    op.clone(ip=False).regions[0].blocks[0].append_to(new.regions[0])


def move_ops(block: ir.Block, to: ir.Block) -> None:
    """Moves all ops of a block behind those of another, with what they hold."""
    for view in list(block.operations):
        to.append(view.operation)
