"""What callers hand over as a module: text, bytecode, the bindings' handles, ExportOutput."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import AttnError
from ..runner import Foreign, Stage

if TYPE_CHECKING:
    from iree.compiler import ir

    Handle: TypeAlias = ir.Module | ir.Operation | ir.OpView

# Dialects that are gone behind IREE's phase `input`, by who writes them.
_INPUT_DIALECTS = {
    "torch": "torch",
    "torch_c": "torch",
    "onnx": "ONNX",
    "stablehlo": "StableHLO",
    "chlo": "StableHLO",
    "vhlo": "StableHLO",
    "mhlo": "StableHLO",
    "tosa": "TOSA",
}
# In the name of each dialect that IREE's import converts, in text and bytecode alike.
_FRONT_ENDS = re.compile(rb"torch|tm_tensor|hlo|tosa|onnx|ml_program")
_FUNCTIONS = frozenset(("func.func", "util.func"))
_CALLS = frozenset(("func.call", "util.call"))
# Ops that hold numbers, and where.
_NUMBERS = {
    **dict.fromkeys(("arith.constant", "torch.vtensor.literal", "stablehlo.constant"), "value"),
    **{"flow.tensor.constant": "value", "util.global": "initial_value"},
}
_SAMPLER, _MODE, _CUBIC = "torch.aten.grid_sampler", 2, 2
_CUBES = "PyTorch's own decomposition, which attnpass.torch.compile takes, writes them out"
_ELIDED = "print the module without --mlir-elide-elementsattrs-if-larger, or keep its bytecode"
_UPDATES = re.compile(r"scatter|_put|update|index_(?!select)|copy", re.IGNORECASE)
# What a front end wrote is known by its first ops; modules may have 100,000.
_LOOKED_AT = 1000


def operation_of(source: Any) -> ir.Operation:
    """The builtin.module that `source` holds: a handle of the bindings, or what iree-turbine's
    `aot.export` returns. TypeError, with what to do, for anything else."""
    from iree.compiler import ir

    held = getattr(source, "mlir_module", source)
    operation = getattr(held, "operation", None)
    if isinstance(operation, ir.Operation):
        return operation
    raise TypeError(f"a module is needed, not {_name_of(source)}{_hint(source)}")


def module_bytes(source: Any) -> bytes:
    """MLIR text or bytecode of whatever stands for a module, locations included."""
    if isinstance(source, str):
        return source.encode()
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    buffer = io.BytesIO()
    operation_of(source).write_bytecode(buffer)
    return buffer.getvalue()


def holds_module(source: Any) -> bool:
    """Whether `source` is a module itself and no path to a file."""
    return hasattr(source, "mlir_module") or hasattr(source, "operation")


def may_need_import(data: bytes) -> bool:
    """Whether MLIR text or bytecode may hold ops of a front end."""
    return bool(_FRONT_ENDS.search(data))


def unconverted_for(stages: Sequence[Stage], module: ir.Operation) -> tuple[str, str] | None:
    """`unconverted`, where the first of `stages` that changes anything works on what IREE has
    converted."""
    later = (stage for stage in stages if isinstance(stage, Foreign) or stage.phase != "start")
    first = next(later, None)
    return None if first is None or isinstance(first, Foreign) else unconverted(module)


def unconverted(module: ir.Operation) -> tuple[str, str] | None:
    """(place, what to do) where `module` is what a front end wrote, in which our passes see no
    attention: IREE has not brought it to its own dialects yet."""
    from ..ir import full_name, location_text

    for op in itertools.islice(_all_ops(module), _LOOKED_AT):
        writer = _INPUT_DIALECTS.get(full_name(op).partition(".")[0])
        if writer:
            return location_text(op.location), (
                f"'{op.name}' is {writer}'s, from before IREE's input conversion: passes on "
                "tensors find nothing in it. attn-compile and attnpass.compile_str run them behind "
                "that conversion; for attn-opt or attnpass.run, convert it first: "
                "iree-compile --compile-to=preprocessing"
            )
    return None


def updates_tensors(module: ir.Operation) -> bool:
    """Whether an op of `module` makes a tensor by changing parts of another. IREE 3.13 changes the
    caller's own argument then, where it has it: the ABI does not say that it is the caller's."""
    from iree.compiler import ir

    from ..ir import full_name, walk

    found: list[str] = []

    def look(op: ir.Operation) -> ir.WalkResult:
        name = full_name(op)
        if not _UPDATES.search(name):
            return ir.WalkResult.ADVANCE
        found.append(name)
        return ir.WalkResult.INTERRUPT

    walk(module, look)
    return bool(found)


def check_ops(module: ir.Operation) -> None:
    """AttnError for an op that no dialect of IREE knows, with which IREE 3.13 crashes, for one that
    it imports as another, for numbers that the text leaves out, and for a function that calls
    itself, which it inlines without end."""
    from iree.compiler import ir

    from ..ir import known_attribute, location_text, printed, reached, walk
    from ..ir.torch_ops import constant_number

    names: dict[str, bool] = {}
    calls: dict[str, dict[str, str]] = {}
    inside, refused = "", ""

    def look(op: ir.Operation) -> ir.WalkResult:
        nonlocal inside, refused
        name = op.name
        if name not in names:
            names[name] = module.context.is_registered_operation(name)
        if not names[name]:
            refused = f"'{name}' is an op of no dialect that IREE knows"
            inside = location_text(op.location)
            return ir.WalkResult.INTERRUPT
        if name == _SAMPLER and constant_number(op.operands[_MODE]) == _CUBIC:
            refused = f"'{name}' takes cubic samples, and IREE's import bilinear ones: {_CUBES}"
            inside = location_text(op.location)
            return ir.WalkResult.INTERRUPT
        if name in _NUMBERS and printed.is_elided(known_attribute(op, _NUMBERS[name])):
            refused = f"the numbers of '{name}' are left out of the text: {_ELIDED}"
            inside = location_text(op.location)
            return ir.WalkResult.INTERRUPT
        if name in _FUNCTIONS:
            inside = op.attributes["sym_name"].value
        elif name in _CALLS:
            callee = op.attributes["callee"].value
            calls.setdefault(inside, {}).setdefault(callee, location_text(op.location))
        return ir.WalkResult.ADVANCE

    walk(module, look)
    if refused:
        raise AttnError(refused, inside)
    for caller, callees in calls.items():
        if caller in reached(callees, lambda callee: calls.get(callee, {})):
            place = next(iter(callees.values()))
            raise AttnError(f"'{caller}' calls itself, which IREE does not compile", place)


def _all_ops(module: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of all functions of a module; not those inside of ops."""
    for region in module.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                for body in op.operation.regions:
                    for inner in body.blocks:
                        for each in inner.operations:
                            yield each.operation


def _name_of(source: Any) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def _hint(source: Any) -> str:
    """What takes a model of a front end."""
    names = {cls.__module__.partition(".")[0] for cls in type(source).__mro__}
    for front_end in ("torch", "onnx", "jax"):
        if front_end in names:
            return f"; attnpass.{front_end}.compile takes models of {front_end}"
    return ""
