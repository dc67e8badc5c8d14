"""Compiled models: callables on torch tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from iree import runtime
from iree.compiler import ir
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ..driver.modules import holds_module, module_bytes, operation_of, updates_tensors
from ..errors import AttnError
from ..program.compiler import ProgramCompiler
from ..program.executable import Executable, is_aligned
from ..report.records import Report
from .destinations import Destination, take_destinations
from .exported import (
    StatelessProgram,
    decomposed,
    export,
    has_doubles,
    stateless,
)
from .gradients import REFUSED, REFUSED_CHANGES, are_wanted
from .importer import host_bytes, imported, unknown_ops
from .normalize import normalize
from .signature import CallSignature, signature_of

_HAL: Any = runtime.HalElementType
_ELEMENTS = {
    torch.float16: _HAL.FLOAT_16,
    torch.bfloat16: _HAL.BFLOAT_16,
    torch.float32: _HAL.FLOAT_32,
    torch.float64: _HAL.FLOAT_64,
    torch.int8: _HAL.SINT_8,
    torch.uint8: _HAL.UINT_8,
    torch.int16: _HAL.SINT_16,
    torch.int32: _HAL.SINT_32,
    torch.int64: _HAL.SINT_64,
    torch.bool: _HAL.BOOL_8,
    torch.float8_e4m3fn: _HAL.FLOAT_8_E4M3_FN,
    torch.float8_e4m3fnuz: _HAL.FLOAT_8_E4M3_FNUZ,
    torch.float8_e5m2: _HAL.FLOAT_8_E5M2,
    torch.float8_e5m2fnuz: _HAL.FLOAT_8_E5M2_FNUZ,
    torch.complex64: _HAL.COMPLEX_64,
    torch.complex128: _HAL.COMPLEX_128,
}
# Results have integers without a sign.
_DTYPES = {int(element): dtype for dtype, element in _ELEMENTS.items()} | {
    int(_HAL.INT_8): torch.int8,
    int(_HAL.INT_16): torch.int16,
    int(_HAL.INT_32): torch.int32,
    int(_HAL.INT_64): torch.int64,
}


@dataclass(frozen=True)
class _ResultCopy:
    """A copy on the GPU to `target`, whose semaphore comes to 1. What is released first by the
    driver's thread has that wait for Python's lock: so the target is held."""

    target: runtime.HalBuffer
    done: runtime.HalSemaphore


class _KeptView(NamedTuple):
    """A view of a weight, and where that lies: its elements, and the memory that they are in."""

    pointer: int
    shape: torch.Size
    view: runtime.HalBufferView
    memory: int | None

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether it is of what this tensor holds, too."""
        where = tensor.data_ptr() == self.pointer
        return where and tensor.shape == self.shape and tensor.is_contiguous()


class TensorProgram:
    """A program on torch tensors, in the order of its arguments and results.

    On a CPU arguments are read where they lie (in order of their dims, at a multiple of 64 bytes:
    else in a copy), and results are the runtime's own memory. On a GPU both stay there, if torch
    has them there. Results that have `destinations` are written to torch's memory, of others
    CUDA's are copied there. A program that `updates` its arguments gets copies of them.
    """

    def __init__(
        self,
        executable: Executable,
        updates: bool,
        destinations: Sequence[Destination | None] = (),
    ):
        self._executable, self._updates = executable, updates
        self._destinations = destinations
        self.device = executable.device
        # By place: the weights of the call before, whose memory their views hold.
        self._kept: dict[int, _KeptView] = {}

    def twin(self) -> TensorProgram:
        """The same program, which keeps views of other memory."""
        return TensorProgram(self._executable, self._updates, self._destinations)

    def __call__(self, values: Sequence[Any], own: Collection[int] = ()) -> list[Any]:
        """Runs on tensors and numbers, of which the program may change those at the places `own`.

        1. Arguments that it might change and should not are copied, and so are those of `own`
           that share memory with others.
        2. A result that is an argument's memory is copied: that goes away with the argument.
        """
        memory: list[int | None] = []
        views: dict[int, runtime.HalBufferView] = {}
        for place, value in enumerate(values):
            kept = self._kept.get(place) if place in own else None
            if kept is not None and kept.is_of(value):
                views[place] = kept.view
                memory.append(kept.memory)
            else:
                memory.append(memory_of(value))
        counts = Counter(memory) if len(set(memory)) < len(memory) else {}
        given = list(values)
        for place, value in enumerate(values):
            shared = place in own and counts.get(memory[place], 1) > 1
            if not isinstance(value, torch.Tensor) or (place in views and not shared):
                continue
            copied = shared if place in own else self._updates
            given[place] = tensor = _copied(value) if copied else value.contiguous()
            views[place] = view = self._put(tensor)
            if place in own and tensor is value and self._reads_in_place(value):
                self._kept[place] = _KeptView(value.data_ptr(), value.shape, view, memory[place])
        on_gpu = not self.device.on_host and any(
            isinstance(value, torch.Tensor) and value.is_cuda for value in given
        )
        if on_gpu:
            # The runtime has streams of its own.
            torch.cuda.current_stream().synchronize()
        arguments = [views.get(place, value) for place, value in enumerate(values)]
        written = [self._room(to, values, on_gpu) for to in self._destinations if to is not None]
        arguments += [view for _, view in written]
        copies: list[_ResultCopy] = []
        results = [self._take(value, on_gpu, copies) for value in self._executable.call(arguments)]
        for copy in copies:
            copy.done.wait(1)
        results = self._in_order(results, written)
        owned = {memory[place] for place in own if given[place] is values[place]}
        lent = {
            memory[place] if value is values[place] else memory_of(value)
            for place, value in enumerate(given)
            if place not in own or value is not values[place]
        }
        lent -= owned | {None}
        return [_copied(value) if memory_of(value) in lent else value for value in results]

    def _reads_in_place(self, tensor: torch.Tensor) -> bool:
        """Whether a view is of the tensor's memory, not of a copy."""
        if not self.device.on_host:
            return tensor.is_cuda and tensor.numel() > 0
        return tensor.device.type == "cpu" and is_aligned(tensor.data_ptr())

    def _put(self, tensor: torch.Tensor) -> runtime.HalBufferView:
        if tensor.dtype not in _ELEMENTS:
            raise AttnError(f"IREE's runtime has no tensors of {tensor.dtype}")
        element = _ELEMENTS[tensor.dtype]
        if tensor.is_cuda and not self.device.on_host and tensor.numel():
            flat = tensor.reshape(-1).view(torch.uint8)
            view = self.device.hal.from_dlpack_capsule(flat.__dlpack__())
            return runtime.HalBufferView(view.get_buffer(), list(tensor.shape), element)
        return self._executable.put(host_bytes(tensor), tensor.shape, element)

    def _room(
        self, to: Destination, values: Sequence[Any], on_gpu: bool
    ) -> tuple[torch.Tensor | None, runtime.HalBufferView]:
        """Memory for a result, torch's where that is the program's, and a view of it."""
        sizes = to.sizes(values)
        if on_gpu or self.device.on_host:
            device = f"cuda:{self.device.index}" if on_gpu else "cpu"
            room = torch.empty(sizes, dtype=to.dtype, device=device)
            return room, self._put(room)
        view = self._executable.room(prod(sizes) * to.dtype.itemsize, sizes, _ELEMENTS[to.dtype])
        return None, view

    def _in_order(
        self,
        returned: Sequence[Any],
        written: Sequence[tuple[torch.Tensor | None, runtime.HalBufferView]],
    ) -> list[Any]:
        """All results, those with destinations among them."""
        if not written:
            return list(returned)
        rooms, rest = iter(written), iter(returned)

        def taken() -> torch.Tensor:
            room, view = next(rooms)
            return self._take(view, False, []) if room is None else room

        return [next(rest) if to is None else taken() for to in self._destinations]

    def _take(self, value: Any, on_gpu: bool, copies: list[_ResultCopy]) -> Any:
        """A result as a number or a tensor, which is there once `copies` are done."""
        if isinstance(value, int | float):
            return value
        dtype = _DTYPES[int(value.element_type)]
        if 0 in value.shape:
            return torch.empty(value.shape, dtype=dtype)
        if on_gpu and not self.device.on_host:
            data = self._on_gpu(value, copies)
        else:
            data = torch.from_numpy(self._executable.take(value))
        return data.view(dtype).reshape(value.shape)

    def _on_gpu(self, value: runtime.HalBufferView, copies: list[_ResultCopy]) -> torch.Tensor:
        """The bytes of a result on the GPU: its own memory, or torch's if the runtime keeps it
        (CUDA, from a pool), to which one more of `copies` writes."""
        device, buffer = self.device, value.get_buffer()
        flat = runtime.HalBufferView(buffer, [value.byte_length], runtime.HalElementType.UINT_8)
        try:
            capsule = device.hal.create_dlpack_capsule(flat, device.dlpack_code, device.index)
        except RuntimeError:
            data = torch.empty(value.byte_length, dtype=torch.uint8, device=f"cuda:{device.index}")
            target = device.hal.from_dlpack_capsule(data.__dlpack__()).get_buffer()
            copies.append(_ResultCopy(target, device.hal.create_semaphore(0)))
            device.hal.queue_copy(buffer, target, [], [(copies[-1].done, 1)])
            return data
        return torch.from_dlpack(capsule)


def _copied(value: Any) -> Any:
    is_tensor = isinstance(value, torch.Tensor)
    return value.clone(memory_format=torch.contiguous_format) if is_tensor else value


def memory_of(value: Any) -> int | None:
    """Where the memory that a tensor is in begins; None for what has none."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return None
    return value.untyped_storage().data_ptr()


class CompiledModel:
    """A model that was compiled: called as the model is, with tensors of the same types.

    `report` says what the passes did, `vmfb` is the program, `parameters` are its weights by name.
    """

    def __init__(
        self,
        program: TensorProgram,
        state: StatelessProgram,
        signature: CallSignature,
        vmfb: bytes,
        report: Report,
        parameters: Mapping[str, torch.Tensor],
    ):
        self._program, self._state, self._signature = program, state, signature
        self.vmfb, self.report, self.parameters = vmfb, report, parameters
        self._origin: CompiledModel | None = None

    def twin(self) -> CompiledModel:
        """The same program, for other weights among its arguments."""
        program = self._program.twin()
        state, signature = self._state, self._signature
        twin = CompiledModel(program, state, signature, self.vmfb, self.report, self.parameters)
        # As long as one of them is used, more can be made.
        twin._origin = self
        return twin

    @property
    def changed(self) -> list[int]:
        """The places of the arguments that it changes."""
        return [target for target in self._state.changed if isinstance(target, int)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and are_wanted(pytree.tree_leaves((args, kwargs))):
            raise AttnError(REFUSED)
        return self.call(args, kwargs)

    def call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], own: Collection[int] = ()
    ) -> Any:
        """The model's results; the program may use the leaves of the arguments at the places `own`
        without a copy (weights, which it does not change)."""
        given = self._signature.leaves(args, kwargs)
        hidden = self._state.hidden
        places = {*range(len(hidden)), *(len(hidden) + place for place in own)}
        values = self._program([*hidden, *given], places)
        count = len(self._state.changed)
        with torch.no_grad():
            for target, value in zip(self._state.changed, values[:count], strict=True):
                changed = given[target] if isinstance(target, int) else target
                if changed.data_ptr() != value.data_ptr():
                    changed.copy_(value)
        return self._signature.tree(values[count:])


class CompiledFunction:
    """A program that was imported before: called with its tensors in order, returns a tensor, or a
    tuple of several; `report` says what the passes did, `vmfb` is the program."""

    def __init__(self, program: TensorProgram, vmfb: bytes, report: Report):
        self._program, self.vmfb, self.report = program, vmfb, report

    def __call__(self, *tensors: Any) -> Any:
        results = self._program(tensors)
        return results[0] if len(results) == 1 else tuple(results)


def compile_model(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    *,
    device: str | None,
    dynamic_shapes: Any,
    strict: bool,
    report: Report | None,
    options: dict[str, Any],
) -> CompiledModel | CompiledFunction:
    """`attnpass.torch.compile`."""
    if isinstance(model, torch.nn.Module):
        program = export(model, args, kwargs, dynamic_shapes, strict)
        return compile_program(program, device, report, options)
    if args or kwargs or dynamic_shapes:
        raise TypeError(f"example arguments go with a torch.nn.Module, not {type(model).__name__}")
    if isinstance(model, ExportedProgram):
        return compile_program(model, device, report, options)
    if not holds_module(model):
        raise TypeError(
            "a torch.nn.Module, an ExportedProgram or what iree-turbine's aot.export returns is "
            f"needed, not {type(model).__name__}"
        )
    compiler = ProgramCompiler(device or "cpu", report, options)
    vmfb = compiler.compile(model, "torch")
    runs = TensorProgram(Executable(vmfb, compiler.device), updates_tensors(operation_of(model)))
    return CompiledFunction(runs, vmfb, compiler.report)


def compile_program(
    program: ExportedProgram,
    device: str | None,
    report: Report | None,
    options: dict[str, Any],
    may_write: bool = True,
    lends: bool | None = None,
) -> CompiledModel:
    """An exported program, compiled; where no device is named, for that of its tensors. AttnError
    for one that changes tensors and may not. Where it `lends` (as on GPUs; on CPUs that takes
    longer) results are written to torch's memory."""
    compiler = ProgramCompiler(device or device_of(program.state_dict.values()), report, options)
    program, state, module, parameters = _imported(program)
    if state.changed and not may_write:
        raise AttnError(REFUSED_CHANGES)
    updates = updates_tensors(module.operation)
    lends = not compiler.device.on_host if lends is None else lends
    destinations = take_destinations(module, state) if lends else []
    vmfb = compiler.compile(module_bytes(module), "torch", has_doubles(program))
    data = {name: host_bytes(tensor) for name, tensor in parameters.items()}
    runs = TensorProgram(Executable(vmfb, compiler.device, data), updates, destinations)
    return CompiledModel(runs, state, signature_of(program), vmfb, compiler.report, parameters)


def _imported(
    given: ExportedProgram,
) -> tuple[ExportedProgram, StatelessProgram, ir.Module, dict[str, torch.Tensor]]:
    """The program as IREE has names for all of it, and what `imported` makes of it; AttnError where
    torch does not say what an op is made of. What an op is made of may have no name, either."""
    taken: set[str] = set()
    while True:
        # torch cannot take apart what is normal already.
        program = normalize(decomposed(given, taken))
        state = stateless(program)
        module, parameters = imported(state)
        missing = unknown_ops(module)
        if not missing:
            return program, state, module, parameters
        if missing.keys() <= taken:
            raise AttnError(
                f"IREE 3.13 has no {', '.join(sorted(missing))}, and torch does not say what "
                "they are made of; put other ops in their place",
                min(missing.items())[1],
            )
        taken |= missing.keys()


def device_of(values: Iterable[Any]) -> str:
    """The device of the first tensor that is on a GPU, else the CPU."""
    for tensor in values:
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            return f"{'hip' if torch.version.hip else 'cuda'}:{tensor.device.index or 0}"
    return "cpu"
