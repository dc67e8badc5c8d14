"""What callers of a public function see: the tensors it takes and returns, and their types.

Before IREE's ABI pass these are arguments and returned operands of `func.func` and
`util.func`; behind it, `hal.tensor.import` and `hal.tensor.export` in a function of buffer
views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    defining_op,
    enclosing,
    has_one_use,
    is_ranked_tensor,
    module_of,
    printed,
    terminator,
)
from ..ir.globals import global_of

FUNCTIONS = ("func.func", "util.func")
_RETURNS = ("func.return", "util.return")


@dataclass(eq=False)
class Exit:
    """A tensor that a function hands to its caller: operand `number` of `op`, a return or an
    export, or, where it gets there through barriers, of the first of those. `number_of_result`
    says which result it is."""

    op: ir.Operation
    number: int
    number_of_result: int
    barriers: tuple[ir.Value, ...]
    export: ir.Operation | None

    @property
    def value(self) -> ir.Value:
        return self.op.operands[self.number]

    def replace(self, value: ir.Value, order: Sequence[int]) -> None:
        """Hands out `value`, dim i of which is dim order[i] of the value so far."""
        old = self.value.type
        self.op.operands[self.number] = value
        for passed in self.barriers:
            passed.set_type(value.type)
        function = _function_around(self.op)
        if self.export is not None:
            _permute_sizes(self.export, _dynamic(old), order)
            self.export.attributes["source_encoding"] = ir.TypeAttr.get(value.type)
        else:
            _update_function_type(function)
        _redeclare(function, f"%output{self.number_of_result}", old, value.type)


def public_function(op: ir.Operation) -> ir.Operation | None:
    """The public function that `op` is in; None in a private one, which calls reach."""
    function = next((one for one in enclosing(op) if one.name in FUNCTIONS), None)
    return None if function is None or printed.is_hidden(function) else function


def is_held(value: ir.Value) -> bool:
    """Whether a caller, a loop or a global holds a tensor: no op here makes it."""
    op = defining_op(value)
    return op is None or op.name in ("hal.tensor.import", "util.global.load")


def is_made_once(value: ir.Value) -> bool:
    """Whether IREE makes what is made of a value alone once, when the program is loaded."""
    op = defining_op(value, "util.global.load")
    if op is None:
        return defining_op(value, "arith.constant") is not None
    name = global_of(op)
    table = ir.SymbolTable(module_of(op))
    return name in table and "is_mutable" not in table[name].operation.attributes


def argument_number(value: ir.Value) -> int | None:
    """Which of its function's arguments `value` is, None for any other value."""
    op = defining_op(value)
    if op is not None:
        if op.name != "hal.tensor.import" or defining_op(op.operands[0]) is not None:
            return None
        value = op.operands[0]
    argument = ir.BlockArgument(value)
    function = argument.owner.owner.operation
    if function.name not in FUNCTIONS or argument.owner != function.regions[0].blocks[0]:
        return None
    return argument.arg_number


def exits(function: ir.Operation) -> Iterator[Exit]:
    """The tensors that `function` returns, each that it returns once."""
    for block in function.regions[0].blocks:
        end = terminator(block)
        if end.name not in _RETURNS:
            continue
        for number, value in enumerate(end.operands):
            op = defining_op(value, "hal.tensor.export")
            if op is not None and has_one_use(value):
                yield _exit(op, 0, number, op)
            elif is_ranked_tensor(value):
                yield _exit(end, number, number, None)


def _exit(op: ir.Operation, number: int, result: int, export: ir.Operation | None) -> Exit:
    passed: list[ir.Value] = []
    value = op.operands[number]
    while (before := defining_op(value, "hal.tensor.barrier")) is not None:
        if not has_one_use(value):
            break
        passed.append(value)
        op, number = before, list(before.results).index(value)
        value = op.operands[number]
    return Exit(op, number, result, tuple(passed), export)


def permute_argument(value: ir.Value, order: Sequence[int]) -> None:
    """Changes the type of an argument: dim i becomes what was dim order[i]. Its uses stay."""
    number, op = argument_number(value), defining_op(value)
    old = value.type
    value.set_type(_permuted(value, order))
    if op is None:
        function = ir.BlockArgument(value).owner.owner.operation
        _update_function_type(function)
    else:
        function = _function_around(op)
        _permute_sizes(op, _dynamic(old), order)
        op.attributes["target_encoding"] = ir.TypeAttr.get(value.type)
        for use in op.operands[0].uses:
            user = use.owner.operation
            if user.name == "hal.buffer_view.dim":
                index = ir.IntegerAttr(user.attributes["index"])
                moved = list(order).index(index.value)
                user.attributes["index"] = ir.IntegerAttr.get(index.type, moved)
    _redeclare(function, f"%input{number}", old, value.type)


def _permuted(value: ir.Value, order: Sequence[int]) -> ir.Type:
    tensor = ir.RankedTensorType(value.type)
    shape = [tensor.shape[dim] for dim in order]
    return ir.RankedTensorType.get(shape, tensor.element_type, tensor.encoding, value.location)


def _dynamic(kind: ir.Type) -> list[int]:
    tensor = ir.RankedTensorType(kind)
    return [dim for dim in range(tensor.rank) if tensor.is_dynamic_dim(dim)]


def _permute_sizes(op: ir.Operation, dynamic: Sequence[int], order: Sequence[int]) -> None:
    """Orders the sizes of dynamic dims, operands behind the first, as the dims are."""
    sizes = list(op.operands)[1:]
    moved = [sizes[dynamic.index(dim)] for dim in order if dim in dynamic]
    for i, size in enumerate(moved, 1):
        op.operands[i] = size


def _function_around(op: ir.Operation) -> ir.Operation:
    return next(one for one in enclosing(op) if one.name in FUNCTIONS)


def _update_function_type(function: ir.Operation) -> None:
    blocks = function.regions[0].blocks
    ends = [terminator(block) for block in blocks]
    returned = next(end for end in ends if end.name in _RETURNS)
    kind = ir.FunctionType.get(
        [argument.type for argument in blocks[0].arguments],
        [value.type for value in returned.operands],
        context=function.context,
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _redeclare(function: ir.Operation, name: str, old: ir.Type, new: ir.Type) -> None:
    """Updates the declaration that IREE keeps for callers, where there is one."""
    if "iree.reflection" not in function.attributes:
        return
    reflection = ir.DictAttr(function.attributes["iree.reflection"])
    entries = {named.name: named.attr for named in reflection}
    declaration = entries.get("iree.abi.declaration")
    if declaration is None:
        return
    text = printed.redeclared(ir.StringAttr(declaration).value, name, old, new)
    entries["iree.abi.declaration"] = ir.StringAttr.get(text)
    function.attributes["iree.reflection"] = ir.DictAttr.get(entries)
