"""Reads a module at IREE's `flow` phase: its dispatches, what they move, how they read V.

Bytes are what the dispatches of public functions load and store, each slice counted once
per dispatch: the traffic of a machine whose caches hold one dispatch's operands but nothing
from one dispatch to the next. A gather or scatter counts the rows it touches, not the table.
Copies that IREE adds after `flow` (of an argument that is written in place, for example) are
not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from iree.compiler import ir

from attnpass.attention.facts import OP_NAMES, describe
from attnpass.ir import defining_op, tensor_bytes

Kind = Literal["attention", "movement", "compute"]

# Ops that bring values from one place to another; index arithmetic is judged by its type.
_MOVING = (
    "tensor.",
    "iree_tensor_ext.",
    "affine.",
    "util.",
    "linalg.generic",
    "linalg.transpose",
    "linalg.copy",
    "linalg.broadcast",
    "linalg.fill",
    "linalg.index",
    "linalg.yield",
    "iree_linalg_ext.scatter",
    "iree_linalg_ext.gather",
    "iree_linalg_ext.map_",
    "iree_linalg_ext.yield",
    "arith.constant",
    "arith.select",
    "arith.index_cast",
    "func.",
    "builtin.",
)
_COPIES = ("flow.tensor.update", "flow.tensor.slice", "flow.tensor.clone", "flow.tensor.splat")


@dataclass(frozen=True)
class Dispatch:
    """One call of an executable: `movement` computes no value, it only copies.

    `bytes` are read and written (None where a size is known only at run time); `v_innermost`
    says of each attention in it whether k2 is the innermost dim of V's map.
    """

    name: str
    kind: Kind
    bytes: int | None
    v_innermost: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Flow:
    """The public functions of a module: their dispatches, and the flow ops that copy."""

    dispatches: tuple[Dispatch, ...]
    copied: tuple[int | None, ...]

    @property
    def moving(self) -> list[Dispatch]:
        """The dispatches that only copy."""
        return [d for d in self.dispatches if d.kind == "movement"]

    @property
    def bytes(self) -> int | None:
        """Bytes that all dispatches and copies read and write."""
        return _sum([*(d.bytes for d in self.dispatches), *self.copied])

    @property
    def moved(self) -> int | None:
        """Bytes that dispatches which only copy, and copies, read and write."""
        return _sum([*(d.bytes for d in self.moving), *self.copied])

    @property
    def counts(self) -> dict[str, int | None]:
        """Dispatches and bytes, and what of them only moves."""
        return {
            "dispatches": len(self.dispatches),
            "moving": len(self.moving),
            "bytes": self.bytes,
            "moved": self.moved,
        }

    @property
    def v_innermost(self) -> list[bool]:
        """Per attention: whether k2 is innermost in V's map."""
        return [inner for d in self.dispatches for inner in d.v_innermost]


def read_flow(text: str) -> Flow:
    """The dispatches of a module's text at `flow`."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        executables = {}
        called, copied = [], []
        for op in module.body.operations:
            if op.operation.name == "flow.executable":
                symbol = ir.StringAttr(op.operation.attributes["sym_name"]).value
                executables[symbol] = op.operation
        facts: dict[str, Dispatch] = {}
        for op in _in_public_functions(module):
            if op.name in _COPIES:
                copied.append(_bytes_of_copy(op))
            if op.name != "flow.dispatch":
                continue
            entry = str(ir.ArrayAttr(op.attributes["entry_points"])[0])
            executable, _, name = (part.strip("@:") for part in entry.partition("::"))
            if executable not in facts:
                facts[executable] = _describe(name, executables[executable])
            called.append(facts[executable])
        return Flow(tuple(called), tuple(copied))


def _in_public_functions(module: ir.Module) -> Iterator[ir.Operation]:
    for op in module.body.operations:
        if op.operation.name == "util.func":
            yield from walk(op.operation)


def walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """Every op below `root`, in the order of the text."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from walk(op.operation)


def _describe(name: str, executable: ir.Operation) -> Dispatch:
    ops = [
        op for function in walk(executable) if function.name == "func.func" for op in walk(function)
    ]
    attentions = [describe(op) for op in ops if op.name in OP_NAMES]
    inner = tuple(facts.is_innermost("value", facts.k2) for facts in attentions)
    loads = any(op.name == "iree_tensor_ext.dispatch.tensor.load" for op in ops)
    kind: Kind = "compute"
    if attentions:
        kind = "attention"
    elif loads and all(_only_moves(op) for op in ops):
        kind = "movement"
    return Dispatch(name, kind, _sum([_bytes_of_access(op) for op in ops]), inner)


def _only_moves(op: ir.Operation) -> bool:
    if op.name.startswith(_MOVING):
        return True
    # Where a value comes from: index arithmetic and comparisons of indices.
    kinds = [value.type for value in op.operands] + [value.type for value in op.results]
    return bool(kinds) and all(_is_address(kind) for kind in kinds)


def _is_address(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IndexType) or str(kind) in ("i1", "i32", "i64")


def _bytes_of_access(op: ir.Operation) -> int | None:
    if op.name == "iree_tensor_ext.dispatch.tensor.load":
        return _loaded(op.results[0])
    if op.name != "iree_tensor_ext.dispatch.tensor.store":
        return 0
    stored = op.operands[0]
    maker = defining_op(stored)
    is_scatter = maker is not None and maker.name == "iree_linalg_ext.scatter"
    return _size(maker.operands[0] if is_scatter and maker is not None else stored)


def _loaded(value: ir.Value) -> int | None:
    """Bytes read of a loaded tensor: none by a scatter into it, what they give by gathers."""
    total = 0
    for use in value.uses:
        user = use.owner.operation
        if user.name == "iree_linalg_ext.scatter" and use.operand_number == 2:
            continue
        if user.name == "tensor.extract":
            loop = user.parent.operation if user.parent is not None else None
            result = loop.results[0] if loop is not None and loop.results else user.results[0]
        elif user.name == "iree_linalg_ext.gather" and use.operand_number == 0:
            result = user.results[0]
        else:
            return _size(value)
        touched, whole = _size(result), _size(value)
        if touched is None or whole is None:
            return None
        total = min(total + touched, whole)
    return total


def _bytes_of_copy(op: ir.Operation) -> int | None:
    """Read and written by a flow op: twice what it moves (a splat reads nothing)."""
    moved = op.operands[-1] if op.name == "flow.tensor.update" else op.results[0]
    if op.name == "flow.tensor.update":
        moved = next(v for v in list(op.operands)[::-1] if isinstance(v.type, ir.ShapedType))
    return _sum([_size(moved)] * (1 if op.name == "flow.tensor.splat" else 2))


def _size(value: ir.Value) -> int | None:
    kind = value.type
    if isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape:
        return None
    return tensor_bytes(value)


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
