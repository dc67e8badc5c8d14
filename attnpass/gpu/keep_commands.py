"""attn-keep-commands: lists of commands that depend on unknown sizes are kept for the next call.

Where all sizes are known IREE 3.13 writes a call's list of commands when the module is loaded.
Where some are not it writes the list anew at each call, while the GPU waits. A call of the same
sizes as the last one needs the same list, on other memory, which it hands over as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import Builder, collect, defining_op, erase, users
from ..passes import Pass, PassContext

_CREATE, _FINALIZE = "hal.command_buffer.create", "hal.command_buffer.finalize"
_EXECUTE, _INDIRECT = "hal.device.queue.execute", "hal.device.queue.execute.indirect"
_LENGTH = "hal.buffer.length"
_BUFFER, _COMMANDS = "!hal.buffer", "!hal.command_buffer"
# What a module has one of, as long as it is loaded.
_FIXED = ("!hal.device", "!hal.executable")
_NAME = "__attn_commands"
# `mode` of a list that may run more than once.
_MANY = 0
# Sizes that a list may depend on.
_MOST = 8


class KeepCommands(Pass):
    """Keeps the list of commands of a call, with the sizes that it was written for, where IREE
    writes one at each call. A call of these sizes runs it on its own memory.

    One list is kept for each that the program has. `--attn-keep=false` leaves it.
    """

    name = "attn-keep-commands"
    summary = "CUDA: commands of unknown sizes are kept"
    phase = "hal"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        lists = collect(module, lambda op: op.name == _CREATE and _is_written_once(op))
        kept = sum(keep_commands(op, f"{_NAME}_{number}") for number, op in enumerate(lists))
        if kept:
            context.report.note(
                f"commands that depend on sizes of a call are kept for the next one: {kept} of "
                f"{len(lists)} lists"
            )
        return bool(kept)


def _is_written_once(create: ir.Operation) -> bool:
    return ir.IntegerAttr(create.attributes["modes"]).value == 1 and len(create.operands) == 2


def keep_commands(create: ir.Operation, name: str) -> bool:
    """Keeps the list of commands that `create` begins in globals of this name; whether it did.
    Needs a current context."""
    commands = _read(create)
    if commands is None:
        return False
    keys = _keys(commands)
    if keys is None:
        return False
    function = create.parent
    while function.operation.name != "util.func":
        function = function.operation.parent
    build = Builder(function.operation)
    kinds = [create.results[0].type, ir.IntegerType.get_signless(32), *(key.type for key in keys)]
    names = [name, f"{name}_made", *(f"{name}_size_{number}" for number in range(len(keys)))]
    for each, kind in zip(names, kinds, strict=True):
        _declare(build, each, kind)
    _rewrite(commands, names, kinds, keys)
    return True


@dataclass(frozen=True)
class _Commands:
    """A list of commands: the ops that write it, the buffers that it is about, and the op that
    has it run."""

    ops: Sequence[ir.Operation]
    buffers: Sequence[ir.Value]
    execute: ir.Operation


def _read(create: ir.Operation) -> _Commands | None:
    """The list that `create` begins, if it is written in one block, which computes nothing else,
    and run once."""
    value = create.results[0]
    runs = [op for op in users(value) if op.name == _EXECUTE]
    ends = [op for op in users(value) if op.name == _FINALIZE]
    if len(runs) != 1 or len(ends) != 1 or ends[0].block != create.block:
        return None
    order = [op.operation for op in create.block.operations]
    ops = order[order.index(create) : order.index(ends[0]) + 1]
    inside = _inside(ops)
    for op in ops:
        if not _is_pure(op) and not _only_writes(op):
            return None
        for result in op.results:
            if result != value and any(user not in inside for user in users(result)):
                return None
    given = dict.fromkeys(one for op in inside for one in op.operands if str(one.type) == _BUFFER)
    buffers = [one for one in given if not _is_inside(one, inside)]
    if any(user not in inside and user not in runs for user in users(value)):
        return None
    return _Commands(ops, buffers, runs[0]) if len(buffers) == len(given) else None


def _inside(ops: Sequence[ir.Operation]) -> Mapping[ir.Operation, None]:
    """The ops and those in them, in order."""
    return dict.fromkeys(one for op in ops for one in collect(op, lambda _: True))


def _is_inside(value: ir.Value, ops: Mapping[ir.Operation, None]) -> bool:
    """Whether one of `ops` makes `value`."""
    op = defining_op(value)
    return op is not None and op in ops


def _only_writes(op: ir.Operation) -> bool:
    """Whether an op does nothing but write commands, or look for a function of a program."""
    names = ("hal.command_buffer.", "hal.executable.lookup", "scf.if", "scf.yield")
    return not collect(op, lambda each: not _is_pure(each) and not each.name.startswith(names))


def _is_pure(op: ir.Operation) -> bool:
    return op.name.startswith(("arith.", "affine.apply", "util.align")) and not len(op.regions)


def _keys(commands: _Commands) -> list[ir.Value] | None:
    """The numbers from elsewhere that the list is computed from; None where it is of more."""
    inside = _inside(commands.ops)
    pending = [one for op in inside for one in op.operands if not _is_inside(one, inside)]
    found: dict[ir.Value, None] = {}
    seen: set[ir.Value] = set()
    while pending:
        value = pending.pop()
        kind, op = str(value.type), defining_op(value)
        if value in seen or kind in (_BUFFER, *_FIXED):
            continue
        seen.add(value)
        if kind != "index" and not isinstance(value.type, ir.IntegerType):
            return None
        if op is not None and _is_pure(op):
            pending += list(op.operands)
        else:
            found[value] = None
    return list(found) if 0 < len(found) <= _MOST else None


def _rewrite(
    commands: _Commands, names: Sequence[str], kinds: Sequence[ir.Type], keys: Sequence[ir.Value]
) -> None:
    create = commands.ops[0]
    execute, buffers = commands.execute, commands.buffers
    build = Builder(create)
    same = build.compare("eq", _load(build, names[1], kinds[1]), build.constant_number(1, kinds[1]))
    for name, kind, key in zip(names[2:], kinds[2:], keys, strict=True):
        same = build.andi(same, build.compare("eq", _load(build, name, kind), key))
    slots = {buffer: number for number, buffer in enumerate(buffers)}

    def write(inner: Builder) -> list[ir.Value]:
        numbers = [inner.constant_index(number) for number in range(len(buffers))]
        attributes = {
            "modes": ir.IntegerAttr.get(create.attributes["modes"].type, _MANY),
            "command_categories": create.attributes["command_categories"],
        }
        given = [*create.operands, inner.constant_index(len(buffers))]
        made = inner.create(_CREATE, [create.results[0].type], given, attributes).results[0]
        for op in commands.ops[1:]:
            op.move_before(inner.anchor)
            for each in collect(op, lambda _: True):
                for number, operand in enumerate(each.operands):
                    if operand == create.results[0]:
                        each.operands[number] = made
                    elif operand in slots:
                        each.operands[number] = numbers[slots[operand]]
        one = inner.constant_number(1, kinds[1])
        for name, value in zip(names, [made, one, *keys], strict=True):
            place = {"global": ir.FlatSymbolRefAttr.get(name)}
            inner.create("util.global.store", [], [value], place)
        return [made]

    kept = build.conditional(
        same, kinds[:1], lambda inner: [_load(inner, names[0], kinds[0])], write
    )
    last = Builder(execute)
    zero = last.constant_index(0)
    lengths = [last.create(_LENGTH, [zero.type], [buffer]).results[0] for buffer in buffers]
    given = [*list(execute.operands)[:4], *kept, *buffers, *[zero] * len(buffers), *lengths]
    last.create(_INDIRECT, [], given, {"flags": execute.attributes["flags"]})
    erase(execute)
    erase(create)


def _declare(build: Builder, name: str, kind: ir.Type) -> None:
    attributes = {
        "sym_name": build.string(name),
        "sym_visibility": build.string("private"),
        "type": ir.TypeAttr.get(kind),
        "is_mutable": ir.UnitAttr.get(),
    }
    build.create("util.global", [], [], attributes)


def _load(build: Builder, name: str, kind: ir.Type) -> ir.Value:
    place = {"global": ir.FlatSymbolRefAttr.get(name)}
    return build.create("util.global.load", [kind], [], place).results[0]
