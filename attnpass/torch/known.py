"""Numbers that are known while a model is exported: those it holds as integers in its buffers, the
integers it makes itself, and what is computed of these alone.

torch.export knows no number of a tensor, so a model that asks one for a size (an audio codec for
its strides, a vision tower for its grids) is refused. Under `KnownNumbers` such tensors are
computed while the model is traced, and stand in the program as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

# Sizes, grids and indices are known, tables of tokens are not.
_MOST = 1 << 14
_MADE = {torch.arange, torch.tensor, torch.zeros, torch.ones, torch.full}
# What names like an op in place has: `add_`, `__setitem__`, `__iadd__`.
_WRITES = ("__set", "__i")
_READS = ("__int__", "__index__", "__invert__")
_WRITTEN = "a tensor of known numbers is written to"


class KnownNumbers(TorchFunctionMode):
    """While it is entered, `model` is traced with the numbers of its small integer buffers.

    A write to such a buffer, or of unknown numbers to known ones, raises NotImplementedError: it
    would be lost.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._buffers = [
            (module, name, value.detach().clone())
            for module in model.modules()
            for name, value in module._buffers.items()
            if value is not None and _is_whole(value)
        ]
        # torch's own code around the model asks for tensors as they are traced.
        self._inside = False
        self._model = model
        # By identity, beside what has it: the key stays that tensor's as long as it is held.
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def check(self, changed: Iterable[str]) -> None:
        """That none of these buffers of the model is among the known: they are other ones later."""
        names = {
            name
            for name, value in self._model.named_buffers(remove_duplicate=False)
            if _is_whole(value)
        }
        if names.intersection(changed):
            raise NotImplementedError(_WRITTEN)

    def __enter__(self) -> KnownNumbers:
        def turn(inside: bool) -> None:
            self._inside = inside

        before = self._model.register_forward_pre_hook(lambda *_: turn(True))
        after = self._model.register_forward_hook(lambda *_: turn(False), always_call=True)
        self._hooks = (before, after)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self._inside:
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        known = {id(x): value for x in tensors if (value := self._value(x)) is not None}
        unknown = any(isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool) for x in leaves)
        if unknown or len(known) < len({id(x) for x in tensors}):
            if any(id(target) in known for target in _written(func, args, kwargs)):
                raise NotImplementedError(_WRITTEN)
            args = [_numbers(x, known) for x in args]
            kwargs = {name: _numbers(x, known) for name, x in kwargs.items()}
            return func(*args, **kwargs)
        if not tensors and func not in _MADE:
            return func(*args, **kwargs)
        real = tree_map(
            lambda x: known[id(x)] if isinstance(x, torch.Tensor) else x, (tuple(args), kwargs)
        )
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            state, held = torch.get_rng_state(), [x for x in known.values() if self._is_held(x)]
            before = [value.clone() for value in held]
            found = func(*real[0], **real[1])
            if not torch.equal(state, torch.get_rng_state()):
                raise NotImplementedError("what is random is not known")
            if not all(map(torch.equal, before, held)):
                raise NotImplementedError(_WRITTEN)
        made = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
        if any(x.numel() > _MOST or (not tensors and not _is_whole(x)) for x in made):
            return func(*args, **kwargs)
        self._known |= {id(x): (x, x) for x in made}
        return found

    def _is_held(self, value: torch.Tensor) -> bool:
        """Whether this is a buffer's, or a part of one: the model did not make it itself."""
        memory = value.untyped_storage().data_ptr()
        return any(memory == held.untyped_storage().data_ptr() for *_, held in self._buffers)

    def _value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        held = self._known.get(id(tensor))
        if held is not None:
            return held[1]
        for module, name, value in self._buffers:
            if module._buffers.get(name) is tensor:
                self._known[id(tensor)] = (tensor, value)
                return value
        return None


def _is_whole(value: torch.Tensor) -> bool:
    whole = not value.dtype.is_floating_point and not value.dtype.is_complex
    return whole and value.numel() <= _MOST


def _numbers(value: Any, known: Mapping[int, torch.Tensor]) -> Any:
    """Sizes or an index with the numbers of what is known: `(1, n)`, `x[..., :n]`."""

    def number(x: Any) -> Any:
        single = isinstance(x, torch.Tensor) and id(x) in known and not x.dim()
        return known[id(x)].item() if single else x

    if isinstance(value, slice):
        return slice(number(value.start), number(value.stop), number(value.step))
    if isinstance(value, list | tuple):
        numbers = [number(x) for x in value]
        if any(isinstance(x, torch.Tensor | slice) for x in numbers):
            numbers = [_numbers(x, known) for x in value]
        return type(value)(numbers)
    return value


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a call writes to."""
    name = getattr(func, "__name__", "")
    inplace = name.endswith("_") and not name.endswith("__")
    inplace |= name.startswith(_WRITES) and name not in _READS
    return tree_leaves([kwargs.get("out"), *(args[:1] if inplace else ())])
