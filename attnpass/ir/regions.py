"""Bodies of ops and functions: new ones, and copies of what others hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from iree.compiler import ir

from .bodies import INDEX_OPS, index_dim
from .builder import Builder
from .queries import collect


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
    index: Callable[[int], ir.Value],
) -> dict[ir.Value, ir.Value]:
    """Copies ops of a body to where `build` stands, whatever they hold; `names` says what stands
    for the values from elsewhere, `index` makes that of an iteration dim. Returns `names` with
    what stands for the results."""
    found = dict(names)
    for op in ops:
        if op.name in INDEX_OPS:
            found[op.results[0]] = index(index_dim(op))
            continue
        copy = build.copy(op)
        for each in collect(copy, lambda _: True):
            for number, operand in enumerate(each.operands):
                each.operands[number] = found.get(operand, operand)
        found.update(zip(op.results, copy.results, strict=True))
    return found


def copy_body(
    source: ir.Block,
    target: ir.Block,
    argument_order: Sequence[int],
    index_dims: Mapping[int, int],
    compute_index: Callable[[int, Builder], ir.Value] | None = None,
) -> None:
    """Copies the flat body of a linalg op.

    Argument i of `target` stands for argument argument_order[i] of `source`; a
    `linalg.index d` becomes `linalg.index index_dims[d]`. The index of a dim that `index_dims`
    lacks is what `compute_index` makes of it.
    """
    names = {source.arguments[old]: target.arguments[new] for new, old in enumerate(argument_order)}
    *steps, last = (op.operation for op in source.operations)

    def fill(build: Builder) -> list[ir.Value]:
        def index(dim: int) -> ir.Value:
            if dim in index_dims:
                return build.loop_index(index_dims[dim])
            assert compute_index is not None, "the index of a dim that is gone"
            return compute_index(dim, build)

        made = copy_steps(steps, build, names, index)
        return [made.get(value, value) for value in last.operands]

    Builder(last).fill_block(target, last.name, fill)


def copy_region(op: ir.Operation, new: ir.Operation) -> None:
    """Gives `new` a copy of the only block of the first region of `op`, whatever that holds; both
    have the same iteration dims."""
    op.clone(ip=False).regions[0].blocks[0].append_to(new.regions[0])
