"""Inputs to run a function on: given ones from a file, or random ones that suit what it does.

What an argument is for is read from the program: integers that index a dim stay within it, masks
hide some keys and leave the first, dims that must be of one length are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zipfile import BadZipFile

import numpy as np
from iree.compiler import ir

from ..attention.facts import OP_NAMES
from ..errors import AttnError, first_line
from ..ir import (
    DYNAMIC,
    DynamicSize,
    body_names,
    body_of,
    collect,
    defining_op,
    element_type_name,
    is_ranked_tensor,
    maps,
    ranked_shape,
    reached,
    sizes_of,
)
from ..ir.limits import HIDES_BESIDE_SEEN
from ..ir.views import IN_PLACE, SLICE
from ..tuning.measure import encoded
from .program import Program

# Lengths of dims that are known only at run time, one after the other: first those that reshapes
# divide, then odd ones.
_EVEN, _ODD = (48, 32, 64, 16, 80, 96), (37, 23, 61, 19, 83, 101)
USUAL_LENGTH = 64
# The share of keys that a mask shows.
_SEEN = 0.7
_INTEGERS = {"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8}
_VIEWS = (*IN_PLACE, "tensor.reshape")
_BITCAST = "flow.tensor.bitcast"
_PARTS = (SLICE, "linalg.transpose")


@dataclass
class Wishes:
    """What the command line says of inputs: lengths and ranges by argument, None for all."""

    lengths: dict[tuple[int, int] | None, int] = field(default_factory=dict)
    ranges: dict[int | None, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Argument:
    """What is known of an argument: `kind` is its type, `element` that of its elements; `use` is
    `data`, `mask` or `index`; `below` bounds indices; `lengths` names the length of each dynamic
    dim, so that equal ones have one name."""

    name: str
    kind: str
    element: str
    shape: list[int | None]
    lengths: list[int | None]
    use: str = "data"
    below: int | None = None


def describe_arguments(program: Program) -> list[Argument]:
    """The program's arguments. Needs a current context."""
    lengths = _Lengths(program)
    found = []
    for name in program.arguments:
        value = program.inputs[name]
        shape = list(ranked_shape(value))
        named = [None if size is not None else lengths.of(value, d) for d, size in enumerate(shape)]
        element = element_type_name(value)
        argument = Argument(name, str(value.type), element, shape, named)
        if not element.startswith(("f", "bf")):
            argument.use, argument.below = _integer_use(value)
        elif _is_mask(value):
            argument.use = "mask"
        found.append(argument)
    return found


class _Lengths:
    """Which dynamic dims are of one length, by what ops do with them."""

    def __init__(self, program: Program):
        self.parent: dict[Any, Any] = {}
        self.numbers: dict[Any, int] = {}
        for op in collect(program.function, lambda op: "indexing_maps" in op.attributes):
            self._loops(op)

    def _loops(self, op: ir.Operation) -> None:
        positions = maps.positions(op)
        if positions is None or len(positions) != len(op.operands):
            return
        first: dict[int, Any] = {}
        for value, dims in zip(op.operands, positions, strict=True):
            for axis, loop in enumerate(dims if is_ranked_tensor(value) else ()):
                if loop is not None and ranked_shape(value)[axis] is None:
                    key = self._key(value, axis)
                    self.parent[self._root(key)] = self._root(first.setdefault(loop, key))

    def _key(self, value: ir.Value, axis: int) -> Any:
        size = sizes_of(value)[axis]
        if isinstance(size, DynamicSize):
            source, dim = size.value, size.dim
            op = defining_op(source)
            if op is not None and op.name == "hal.tensor.import":
                source = op.operands[0]
            if op is not None and op.name == "hal.buffer_view.dim":
                return op.operands[0], ir.IntegerAttr(op.attributes["index"]).value
            return source, dim
        return size

    def _root(self, key: Any) -> Any:
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def of(self, value: ir.Value, axis: int) -> int:
        op = defining_op(value)
        source = op.operands[0] if op is not None else value
        root = self._root((source, axis))
        return self.numbers.setdefault(root, len(self.numbers))


def _integer_use(value: ir.Value) -> tuple[str, int | None]:
    """What integers are for: `index`, with the first that is too large, `mask` or `data`."""
    bound: int | None = None
    names = set()
    for scalar in _scalars(value):
        for use in scalar.uses:
            op = use.owner.operation
            names.add(op.name)
            limit = _limit(op, use.operand_number)
            bound = limit if bound is None else min(bound, limit or bound)
    if bound is not None:
        return "index", bound
    kind = element_type_name(value)
    if any(use.owner.operation.name == _BITCAST for use in value.uses):
        # Packed masks: all bits of a byte count.
        return "data", None
    converts = names & {"arith.sitofp", "arith.uitofp", "arith.muli"}
    if kind == "i1" or (not converts and is_ranked_tensor(value)) or _is_mask(value):
        return "mask", None
    return "data", None


def _scalars(value: ir.Value) -> Iterator[ir.Value]:
    """Scalars that hold what an integer argument does, through views, loops' bodies and casts."""

    def onward(op: ir.Operation, number: int) -> Sequence[ir.Value]:
        if op.name in (*_VIEWS, *_PARTS, "tensor.extract"):
            return op.results if number == 0 else ()
        if op.name == "linalg.generic":
            return [body_of(op).arguments[number]]
        if op.name == "linalg.yield":
            parent = op.parent.operation if op.parent else op
            return list(parent.results)[number : number + 1]
        casts = ("arith.index_cast", "arith.ext", "arith.trunci")
        return op.results if op.name.startswith(casts) else ()

    return (each for each in _holders(value, onward) if not is_ranked_tensor(each))


def _holders(
    value: ir.Value, onward: Callable[[ir.Operation, int], Iterable[ir.Value]]
) -> Iterator[ir.Value]:
    """A value and all that hold it, too: `onward` says which those are of an op that reads one, by
    the number of the operand."""

    def held(one: ir.Value) -> list[ir.Value]:
        found = (onward(use.owner.operation, use.operand_number) for use in one.uses)
        return list(itertools.chain.from_iterable(found))

    return reached([value], held)


def _limit(op: ir.Operation, number: int) -> int | None:
    """The first index that is too large for what operand `number` of `op` indexes."""
    if op.name == "tensor.extract" and number > 0:
        return ranked_shape(op.operands[0])[number - 1]
    if op.name == "tensor.insert_slice":
        offsets = list(op.attributes["static_offsets"])
        dynamic = [axis for axis, offset in enumerate(offsets) if offset == DYNAMIC]
        if 2 <= number < 2 + len(dynamic):
            axis = dynamic[number - 2]
            whole = ranked_shape(op.operands[1])[axis]
            size = list(op.attributes["static_sizes"])[axis]
            return None if whole is None or size == DYNAMIC else max(1, whole - size + 1)
    return None


def _is_mask(value: ir.Value) -> bool:
    """Whether a tensor comes to attention as its mask, through views and broadcasts."""

    def onward(op: ir.Operation, number: int) -> Sequence[ir.Value]:
        copies = op.name == "linalg.generic" and body_names(op) == ["linalg.yield"]
        return op.results if copies or op.name in (*_VIEWS, *_PARTS) else ()

    return any(
        use.operand_number == 4 and len(op.operands) - len(op.results) == 5
        for each in _holders(value, onward)
        for use in each.uses
        if (op := use.owner.operation).name in OP_NAMES
    )


# ----- random ones


def draw(
    arguments: Sequence[Argument], seed: int, call: int, wishes: Wishes, odd: bool
) -> list[np.ndarray]:
    """Random inputs, the same for the same numbers anywhere."""
    lengths = _ODD if odd else _EVEN
    return [
        _draw(argument, number, np.random.default_rng([seed, call, number]), wishes, lengths)
        for number, argument in enumerate(arguments)
    ]


def _draw(
    argument: Argument,
    number: int,
    random: np.random.Generator,
    wishes: Wishes,
    lengths: Sequence[int],
) -> np.ndarray:
    shape = [
        _length(argument, number, axis, wishes, lengths) for axis in range(len(argument.shape))
    ]
    kind = argument.element
    given = wishes.ranges.get(number, wishes.ranges.get(None))
    if kind.startswith(("f", "bf")):
        if argument.use == "mask":
            return encoded(
                np.where(_seen(random, shape), 0.0, HIDES_BESIDE_SEEN).astype(np.float32), kind
            )
        return encoded(random.standard_normal(shape).astype(np.float32), kind)
    if argument.use == "mask" and given is None:
        return _seen(random, shape).astype(np.bool_ if kind == "i1" else _INTEGERS[kind])
    low, high = given or _default_range(argument)
    return random.integers(low, high, shape, endpoint=True).astype(_INTEGERS.get(kind, np.int64))


def _length(
    argument: Argument, number: int, axis: int, wishes: Wishes, lengths: Sequence[int]
) -> int:
    size, name = argument.shape[axis], argument.lengths[axis]
    if size is not None:
        return size
    assert name is not None
    wished = wishes.lengths.get((number, axis), wishes.lengths.get(None))
    return wished or lengths[name % len(lengths)]


def _default_range(argument: Argument) -> tuple[int, int]:
    if argument.below is not None:
        return 0, argument.below - 1
    return (-127, 127) if argument.element == "i8" else (0, 1)


def _seen(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Which keys are seen: most, and the first along each dim that may be the keys'."""
    seen = random.random(shape) < _SEEN
    for axis in range(max(0, len(shape) - 2), len(shape)):
        seen[(slice(None),) * axis + (0,)] = True
    return np.asarray(seen)


# ----- given ones


def read_inputs(path: str, arguments: Sequence[Argument], call: int) -> list[np.ndarray]:
    """The arrays in a .npz for a call, counted from 0: `in0`, `in1` and so on, or `c0_in0` and so
    on where calls differ, or else all of them in order. AttnError where they are not what the
    function takes."""
    try:
        file = np.load(path)
        arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, EOFError, BadZipFile) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise AttnError(f"cannot read it as a .npz: {why[:1].lower()}{why[1:]}", path) from None
    calls: dict[int, dict[int, np.ndarray]] = {}
    for name, array in arrays.items():
        if found := re.fullmatch(r"(?:c(\d+)_)?(?:in|input|arg|arr_)(\d+)", name):
            calls.setdefault(int(found[1] or 0), {})[int(found[2])] = array
    # A call more than there are is the last one again.
    named = calls.get(call, calls[max(calls)] if calls else {})
    given = [named[number] for number in sorted(named)] if named else list(arrays.values())
    if len(given) != len(arguments):
        raise AttnError(f"it has {len(given)} arrays, but {len(arguments)} are needed", path)
    return [_fit(array, argument, path) for array, argument in zip(given, arguments, strict=True)]


def _fit(array: np.ndarray, argument: Argument, path: str) -> np.ndarray:
    kind = argument.element
    wanted = len(argument.shape)
    fits = array.ndim == wanted and all(
        size is None or size == given
        for size, given in zip(argument.shape, array.shape, strict=True)
    )
    if not fits:
        raise AttnError(f"{argument.name} is {list(array.shape)}, but is {argument.kind}", path)
    if kind == "bf16" and array.dtype.itemsize == 2 and array.dtype != np.float16:
        return array.view(np.uint16)
    if kind.startswith("f8") and array.dtype.itemsize == 1:
        return array.view(np.uint8)
    if kind.startswith(("f", "bf")):
        return encoded(array.astype(np.float32), kind) if kind != "f64" else array.astype("f8")
    return array.astype(np.bool_ if kind == "i1" else _INTEGERS.get(kind, np.int64))


def wishes_from(lengths: Sequence[str], ranges: Sequence[str]) -> Wishes:
    """Wishes from the command line: `17` or `ARGUMENT.DIM=17`, `0:63` or `ARGUMENT=0:63`."""
    wishes = Wishes()
    for text in lengths:
        found = re.fullmatch(r"(?:(\d+)\.(\d+)=)?(\d+)", text)
        if not found or not int(found[3]):
            raise AttnError(f"'{text}' is not a value of --length (use N or ARGUMENT.DIM=N)")
        place = (int(found[1]), int(found[2])) if found[1] else None
        wishes.lengths[place] = int(found[3])
    for text in ranges:
        found = re.fullmatch(r"(?:(\d+)=)?(-?\d+):(-?\d+)", text)
        if not found or int(found[2]) > int(found[3]):
            raise AttnError(
                f"'{text}' is not a value of --range (use LOW:HIGH or ARGUMENT=LOW:HIGH)"
            )
        wishes.ranges[int(found[1]) if found[1] else None] = int(found[2]), int(found[3])
    return wishes
