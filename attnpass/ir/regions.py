"""Bodies of ops and functions: new ones, and copies of what others hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from .builder import Builder


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


def copy_body(
    source: ir.Block,
    target: ir.Block,
    argument_order: Sequence[int],
    index_dims: dict[int, int],
    compute_index: Callable[[int, Builder], ir.Value] | None = None,
) -> None:
    """Copies the flat body of a linalg op.

    Argument i of `target` stands for argument argument_order[i] of `source`; a
    `linalg.index d` becomes `linalg.index index_dims[d]`. The index of a dim that `index_dims`
    lacks is what `compute_index` makes of it.
    """
    values: dict[ir.Value, ir.Value] = {
        source.arguments[old]: target.arguments[new] for new, old in enumerate(argument_order)
    }
    point = ir.InsertionPoint(target)
    for op in source.operations:
        copy = op.operation.clone(ip=point).operation
        for number, operand in enumerate(op.operands):
            if operand in values:
                copy.operands[number] = values[operand]
        if op.operation.name == "linalg.index":
            attribute = ir.IntegerAttr(op.operation.attributes["dim"])
            if attribute.value not in index_dims:
                assert compute_index is not None, "the index of a dim that is gone"
                values[op.operation.results[0]] = compute_index(attribute.value, Builder(copy))
                copy.erase()
                continue
            copy.attributes["dim"] = ir.IntegerAttr.get(attribute.type, index_dims[attribute.value])
        for old, new in zip(op.operation.results, copy.results, strict=True):
            values[old] = new


def copy_region(op: ir.Operation, new: ir.Operation) -> None:
    """Gives `new` a copy of the only block of the first region of `op`, whatever that holds; both
    have the same iteration dims."""
    op.clone(ip=False).regions[0].blocks[0].append_to(new.regions[0])
