"""attn-merge-copies: kernels write to where a copy would put what they make, and read where it
would take it from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    collect,
    copied_attributes,
    defining_op,
    descendants,
    element_type,
    erase_unused,
    has_one_use,
    known_attribute,
    printed,
    ranked_shape,
    set_function_type,
    symbol_name,
    users,
)
from ..ir.contractions import is_contraction
from ..passes import Pass, PassContext
from ..report.ops import op_of

_DISPATCH, _EXECUTABLE, _RESHAPE = "flow.dispatch", "flow.executable", "flow.tensor.reshape"
_EXPORT, _IN_PLACE = "flow.executable.export", "_in_place"
_FUNCTIONS = ("builtin.module", "func.func")
_Shape = Sequence["int | None"]
_LOAD, _STORE = "iree_tensor_ext.dispatch.tensor.load", "iree_tensor_ext.dispatch.tensor.store"
# What stands in kernels whose tensors may lie anywhere: loops over elements, and what is beside.
_LOOPS = ("linalg.generic", "linalg.fill", "linalg.transpose")
_BESIDE = (
    _LOAD,
    _STORE,
    "arith.constant",
    "func.return",
    "tensor.collapse_shape",
    "tensor.empty",
    "tensor.expand_shape",
    "tensor.extract_slice",
)


class MergeCopies(Pass):
    """Has kernels of loops do what a kernel of its own copies, where places are known:

    1. What is made to be put into a larger tensor is written there. Pieces of a concat (by
       attn-place-pieces) IREE 3.13 writes, reads and writes again: GELU of a part of a projection
       beside attention's result (Flux), heads behind rotary embedding beside those of a cache.
    2. A slice that is reshaped is read where it lies. IREE copies it: heads of a packed projection
       that a norm reads as rows and rotary embedding as pairs (Flux, HunyuanVideo).
    """

    name = "attn-merge-copies"
    summary = "pieces are written, and slices read, where they stand, not copied"
    why = "IREE writes pieces before it copies them to where they stand"
    phase = "flow"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        kernels, merged = _Executables(module), False
        # What a rewrite erases beside the copy itself, has loops: no handle of a copy goes stale.
        for op in collect(module, lambda op: op.name == _DISPATCH and kernels.copies(op)):
            about = op_of(op, "copy")
            why = _write_in_place(op, kernels) or _read_in_place(op, kernels)
            if why:
                context.report.record(about, "fitted", why)
                merged = True
        return merged


def _write_in_place(copy: ir.Operation, kernels: _Executables) -> str:
    """Has the kernel that makes what a dispatch puts into a tensor write it there; what was done,
    '' for nothing."""
    put = kernels.put_by(copy)
    if put is None:
        return ""
    source, whole = copy.operands
    made = _made(source)
    maker = None if made is None else defining_op(made)
    if made is None or maker is None or not kernels.stores_whole(maker):
        return ""
    if any(_stem(given) == _stem(whole) for given in maker.operands):
        return ""
    place = _place(ranked_shape(whole), put, ranked_shape(made))
    if place is None:
        return ""

    def change(function: ir.Operation) -> None:
        store = _last_store(function)
        assert store is not None
        value, memory = store.operands
        memory.set_type(printed.with_tensor(put.operands[1].type, whole.type, into.type))
        attributes = copied_attributes(store) | place.attributes(copy.context)
        Builder(store).create(_STORE, [], [value, memory], attributes)
        erase_unused([store])

    build = Builder(copy)
    into = _reshaped(whole, build.tensor_type(place.sizes, element_type(whole)), build)
    operands = [*maker.operands, into]
    new = kernels.dispatch_changed(copy, maker, operands, change, tied=len(operands) - 1)
    copy.results[0].replace_all_uses_with(_reshaped(new.results[0], whole.type, build))
    erase_unused([copy])
    _erase_reshaped(maker)
    return "the kernel that makes what it copies writes that in place"


def _made(value: ir.Value) -> ir.Value | None:
    """What a dispatch makes, of which `value` is no more than another shape, and all of which is
    read; None where others read it, too."""
    while has_one_use(value):
        op = defining_op(value, _RESHAPE)
        if op is None:
            return None if defining_op(value, _DISPATCH) is None else value
        value = op.operands[0]
    return None


def _reshaped(value: ir.Value, kind: ir.Type, build: Builder) -> ir.Value:
    """`value` in the shape that a type says."""
    if value.type == kind:
        return value
    sizes = {"operandSegmentSizes": build.segments(1, 0, 0)}
    return build.create(_RESHAPE, [kind], [value], sizes).results[0]


def _read_in_place(copy: ir.Operation, kernels: _Executables) -> str:
    """Has the kernels that read what a dispatch copies read it where it lies; what was done, ''
    for nothing."""
    taken = kernels.taken_by(copy)
    if taken is None:
        return ""
    (source,) = copy.operands
    found: dict[ir.Operation, dict[int, SlicePlace]] = {}
    for reader, number in _uses(copy.results[0]):
        shape = ranked_shape(reader.operands[number])
        place = _place(ranked_shape(source), taken, shape)
        if reader.name != _DISPATCH or place is None or not kernels.reads_whole(reader, number):
            return ""
        found.setdefault(reader, {})[number] = place
    for reader, places in found.items():
        _redirect(reader, source, places, kernels)
    _erase_reshaped(copy)
    return "the kernels that read what it copies read that in place" if found else ""


def _redirect(
    reader: ir.Operation, source: ir.Value, places: dict[int, SlicePlace], kernels: _Executables
) -> None:
    """Has a dispatch read operands as places of `source`."""
    build, operands = Builder(reader), list(reader.operands)
    for number, place in places.items():
        kind = build.tensor_type(place.sizes, element_type(source))
        operands[number] = _reshaped(source, kind, build)

    def change(function: ir.Operation) -> None:
        for number, place in places.items():
            argument = function.regions[0].blocks[0].arguments[number]
            old, new = reader.operands[number].type, operands[number].type
            loads = users(argument)
            argument.set_type(printed.with_tensor(argument.type, old, new))
            for load in loads:
                attributes = copied_attributes(load) | place.attributes(reader.context)
                read = Builder(load).create(_LOAD, [load.results[0].type], [argument], attributes)
                load.results[0].replace_all_uses_with(read.results[0])
            erase_unused(loads)

    new = kernels.dispatch_changed(reader, reader, operands, change)
    for old, value in zip(reader.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    erase_unused([reader])


def _erase_reshaped(op: ir.Operation) -> None:
    """Erases an op whose result no one but reshapes without users reads."""
    for reshape in users(op.results[0]):
        _erase_reshaped(reshape)
    erase_unused([op])


@dataclass(frozen=True)
class SlicePlace:
    """A part of a tensor whose dims are `sizes`: from `starts`, so many elements along each."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    def attributes(self, context: ir.Context) -> dict[str, ir.Attribute]:
        """Those of the load that reads it."""
        lists = {"offsets": self.starts, "sizes": self.counts, "strides": (1,) * len(self.sizes)}
        return {
            f"static_{name}": ir.DenseI64ArrayAttr.get(list(numbers), context=context)
            for name, numbers in lists.items()
        }


def _place(shape: _Shape, access: ir.Operation, wanted: _Shape) -> SlicePlace | None:
    """`place_of` what a load or a store moves of a tensor of a shape."""
    starts = ir.DenseI64ArrayAttr(access.attributes["static_offsets"])
    counts = ir.DenseI64ArrayAttr(access.attributes["static_sizes"])
    return place_of(shape, starts, counts, wanted)


def place_of(
    source: _Shape, starts: Iterable[int], counts: Iterable[int], wanted: _Shape
) -> SlicePlace | None:
    """Where a slice of a source lies, as a tensor of the wanted shape: dims of the source are cut
    and joined as those of the slice are; None where that is no one slice."""
    dims = [_SlicedDim(size or 0, *at) for size, *at in zip(source, starts, counts, strict=True)]
    left, found = [dim for dim in dims if dim.size != 1], list[_SlicedDim]()
    for size in wanted:
        if size is None:
            return None
        if size == 1:
            found.append(_SlicedDim(1, 0, 1))
            continue
        have = _SlicedDim(1, 0, 1)
        while left and have.count < size:
            dim = left.pop(0)
            if dim.count == 1 and have.count == 1:
                found.append(dim)
            elif have.count == 1:
                have = dim
            elif dim.size == dim.count:
                have = have.times(dim.size)
            else:
                return None
        inner, rest = divmod(have.count, size)
        if rest or have.size % inner or have.start % inner:
            return None
        left = [*([_SlicedDim(inner, 0, inner)] if inner > 1 else []), *left]
        found.append(_SlicedDim(have.size // inner, have.start // inner, size))
    found += left
    if any(dim.count != 1 for dim in left):
        return None
    return SlicePlace(
        tuple(dim.size for dim in found),
        tuple(dim.start for dim in found),
        tuple(dim.count for dim in found),
    )


@dataclass(frozen=True)
class _SlicedDim:
    """`count` of the `size` elements of a dim, from `start`."""

    size: int
    start: int
    count: int

    def times(self, factor: int) -> _SlicedDim:
        """The dim joined with a whole one behind it."""
        return _SlicedDim(self.size * factor, self.start * factor, self.count * factor)


def _uses(value: ir.Value) -> Iterator[tuple[ir.Operation, int]]:
    """Who reads a tensor, reshaped or not, and as which operand."""
    for use in list(value.uses):
        user = use.owner.operation
        if user.name == _RESHAPE:
            yield from _uses(user.results[0])
        else:
            yield user, use.operand_number


def _stem(value: ir.Value) -> ir.Value:
    """What a tensor was before reshapes of it and writes into it."""
    while (op := defining_op(value, _RESHAPE, _DISPATCH)) is not None:
        number = 0 if op.name == _RESHAPE else tied_operand(op)
        if number < 0:
            break
        value = op.operands[number]
    return value


def tied_operand(dispatch: ir.Operation) -> int:
    """The operand that a dispatch of one result writes into; -1 for none."""
    numbers = [
        ir.IntegerAttr(one).value for one in known_attribute(dispatch, "tied_operands") or []
    ]
    if len(numbers) != 1 or numbers[0] < 0:
        return -1
    # Numbers count behind the workload, which is the first of the operands' segments.
    return numbers[0] + ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])[0]


class _Executables:
    """The kernels of a module and who dispatches them."""

    def __init__(self, module: ir.Operation):
        self._executables = {symbol_name(op): op for op in descendants(module, _EXECUTABLE)}

    def copies(self, dispatch: ir.Operation) -> bool:
        """Whether a dispatch moves elements, and does no more."""
        return self._copy(dispatch) is not None

    def put_by(self, dispatch: ir.Operation) -> ir.Operation | None:
        """The store of a dispatch that does no more than put all of its first operand at a known
        place in its second; None for others."""
        copy = self._copy(dispatch)
        if copy is None or len(dispatch.operands) != 2 or tied_operand(dispatch) != 1:
            return None
        load, store = copy
        return store if _is_all(load, dispatch.operands[0]) else None

    def taken_by(self, dispatch: ir.Operation) -> ir.Operation | None:
        """The load of a dispatch that does no more than copy a known slice; None for others."""
        copy = self._copy(dispatch)
        if copy is None or len(dispatch.operands) != 1:
            return None
        load, store = copy
        return load if _is_all(store, dispatch.results[0]) else None

    def stores_whole(self, dispatch: ir.Operation) -> bool:
        """Whether a dispatch is of loops, and writes one tensor, whole."""
        function = self._loops(dispatch)
        store = None if function is None else _last_store(function)
        return (
            store is not None
            and len(dispatch.results) == 1
            and tied_operand(dispatch) < 0
            and _is_all(store, dispatch.results[0])
        )

    def reads_whole(self, dispatch: ir.Operation, number: int) -> bool:
        """Whether a dispatch is of loops, and loads all of this operand where it reads it. What is
        read by computed indices may have no gaps (attn-gather-slices)."""
        function = self._loops(dispatch)
        if function is None or collect(function, lambda op: op.name == "tensor.extract"):
            return False
        readers = users(function.regions[0].blocks[0].arguments[number])
        value = dispatch.operands[number]
        return all(op.name == _LOAD and _is_all(op, value) for op in readers)

    def dispatch_changed(
        self,
        at: ir.Operation,
        like: ir.Operation,
        operands: Sequence[ir.Value],
        change: Callable[[ir.Operation], None],
        tied: int = -1,
    ) -> ir.Operation:
        """A dispatch, where `at` stands, of the kernel that `like` dispatches, when `change` has
        been done to its function. It has the results of `at`, or writes into the operand `tied`."""
        context, names = at.context, _names(like)
        executable = self._executables[names[0]]
        new = Builder(executable).copy(executable)
        (export,), (function,) = descendants(new, _EXPORT), descendants(new, *_FUNCTIONS)
        # IREE links kernels into one library: all their names must differ.
        suffix = f"{_IN_PLACE}_{len(self._executables)}"
        names = [name.partition(_IN_PLACE)[0] + suffix for name in names]
        for op, name in zip((new, export, function), (*names, names[1]), strict=True):
            op.attributes["sym_name"] = ir.StringAttr.get(name, context)
        export.attributes["function_ref"] = ir.FlatSymbolRefAttr.get(names[1], context)
        self._executables[names[0]] = new
        change(function)
        set_function_type(function, [])
        entry = ir.SymbolRefAttr.get(names, context=context)
        attributes = copied_attributes(like) | {
            "entry_points": ir.ArrayAttr.get([entry], context=context),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(operands), 0, 0], context),
        }
        if tied >= 0:
            number = ir.IntegerAttr.get(ir.IndexType.get(context), tied)
            attributes["tied_operands"] = ir.ArrayAttr.get([number], context=context)
        build = Builder(at, like.location)
        kinds = [one.type for one in at.results] if tied < 0 else [operands[tied].type]
        return build.create(_DISPATCH, kinds, operands, attributes)

    def _copy(self, dispatch: ir.Operation) -> tuple[ir.Operation, ir.Operation] | None:
        """The load and the store that are all of a dispatch, of neighbours at known places."""
        function = self._function(dispatch)
        ops = [] if function is None else _ops(function)
        if [op.name for op in ops] != [_LOAD, _STORE, "func.return"]:
            return None
        load, store, _ = ops
        same = [*store.operands][:1] == [load.results[0]] and len(dispatch.results) == 1
        return (load, store) if same and _is_known(load) and _is_known(store) else None

    def _loops(self, dispatch: ir.Operation) -> ir.Operation | None:
        """The function of a dispatch of loops over elements, that may add them up."""
        function = self._function(dispatch)
        if function is None:
            return None
        ops = _ops(function)
        loops = [op for op in ops if op.name in _LOOPS]
        known = all(op.name in (*_LOOPS, *_BESIDE) for op in ops)
        return function if loops and known and not any(map(is_contraction, loops)) else None

    def _function(self, dispatch: ir.Operation) -> ir.Operation | None:
        """The function of a dispatch without sizes, of which there is IR."""
        names = _names(dispatch) if dispatch.name == _DISPATCH else []
        if len(names) != 2 or names[0] not in self._executables:
            return None
        workload, _, *sizes = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
        functions = list(descendants(self._executables[names[0]], *_FUNCTIONS))
        exports = list(descendants(self._executables[names[0]], _EXPORT))
        alone = len(functions) == len(exports) == 1
        return functions[0] if alone and not any([workload, *sizes]) else None


def _names(dispatch: ir.Operation) -> list[str]:
    """The symbols that lead to a dispatch's one kernel; empty where it has several."""
    entries = ir.ArrayAttr(dispatch.attributes["entry_points"])
    return list(ir.SymbolRefAttr(entries[0]).value) if len(entries) == 1 else []


def _ops(function: ir.Operation) -> list[ir.Operation]:
    blocks = list(function.regions[0].blocks)
    return [op.operation for op in blocks[0].operations] if len(blocks) == 1 else []


def _last_store(function: ir.Operation) -> ir.Operation | None:
    """The one store of a function, if that is into its last argument, which nothing reads."""
    *_, last = function.regions[0].blocks[0].arguments
    stores = [op for op in _ops(function) if op.name == _STORE]
    return stores[0] if len(stores) == 1 and users(last) == stores else None


def _is_all(access: ir.Operation, value: ir.Value) -> bool:
    """Whether a load or a store moves all of the tensor `value`, as it is."""
    moved = access.results[0] if access.name == _LOAD else access.operands[0]
    offsets = ir.DenseI64ArrayAttr(access.attributes["static_offsets"])
    return moved.type == value.type and not any(offsets) and _is_known(access)


def _is_known(access: ir.Operation) -> bool:
    """Whether a load or a store takes neighbours, at places and of sizes that are known."""
    steps = ir.DenseI64ArrayAttr(access.attributes["static_strides"])
    segments = [*ir.DenseI32ArrayAttr(access.attributes["operandSegmentSizes"])]
    return all(step == 1 for step in steps) and not any(
        segments[1 if access.name == _LOAD else 2 :]
    )
