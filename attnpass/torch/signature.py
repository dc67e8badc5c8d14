"""What a compiled program takes and gives: trees of tensors with sizes, some of them symbols."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import ConstantArgument
from torch.utils import _pytree as pytree

from ..errors import AttnError
from .exported import user_inputs, user_outputs

# For how many sizes of its arguments a program knows whether they are those that it is for.
_REMEMBERED = 256


@dataclass
class CallSignature:
    """How a model is called: `inputs` and `outputs` are what each leaf was when it was traced (a
    fake tensor, a symbolic number, a constant), `ranges` what a symbol may be, and `guards` what
    else torch took for granted of symbols where a model, or what an op is made of, asked."""

    arguments: pytree.TreeSpec
    results: pytree.TreeSpec
    inputs: list[Any]
    outputs: list[Any]
    ranges: Mapping[Any, Any] = field(default_factory=dict)
    guards: Sequence[Any] = ()
    _broken: dict[frozenset[Any], Any] = field(default_factory=dict)

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of a call that the program takes; AttnError, naming the argument, where it
        was compiled for others."""
        # torch's walk through arguments takes longer than a small kernel.
        if self._has_leaves(args) and not kwargs:
            tree, leaves = (tuple(args), {}), list(args)
        else:
            tree, leaves = self._flattened(args, kwargs)
        sizes: dict[Any, int] = {}
        for place, (leaf, known) in enumerate(zip(leaves, self._known, strict=True)):
            # Most are weights, as they were.
            if isinstance(leaf, torch.Tensor) and (leaf.dtype, leaf.shape) == known:
                continue
            for wrong in self._wrong(leaf, self.inputs[place], sizes):
                path = pytree.tree_flatten_with_path(tree)[0][place][0]
                raise AttnError(f"argument {_path_text(path)}: {wrong}; compile again for others")
        if self.guards and (guard := self._broken_by(sizes)) is not None:
            raise AttnError(f"it was compiled for sizes of which {guard}; compile again for others")
        pairs = zip(leaves, self.inputs, strict=True)
        return [leaf for leaf, expected in pairs if not isinstance(expected, ConstantArgument)]

    def _flattened(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, Any], list[Any]]:
        """The arguments as torch's tree of them has them, and its leaves."""
        try:
            tree = (tuple(args), reorder_kwargs(dict(kwargs), self.arguments))
        except (ValueError, AssertionError) as error:
            raise AttnError(f"these are not the arguments it was compiled for: {error}") from None
        leaves, spec = pytree.tree_flatten(tree)
        if spec != self.arguments:
            raise AttnError(
                f"it was compiled for arguments of this form: {_shown(self.arguments)}; "
                f"not {_shown(spec)}"
            )
        return tree, leaves

    def _has_leaves(self, args: Sequence[Any]) -> bool:
        """Whether these are tensors, as many as there are arguments, none of them a tree."""
        same = self._are_leaves and len(args) == len(self.inputs)
        return same and all(isinstance(one, torch.Tensor) for one in args)

    @functools.cached_property
    def _are_leaves(self) -> bool:
        """Whether the arguments are leaves, without names."""
        return self.arguments == pytree.tree_structure(((0,) * len(self.inputs), {}))

    @functools.cached_property
    def _known(self) -> list[tuple[torch.dtype, torch.Size] | None]:
        """The types and sizes of inputs that are tensors of known sizes."""
        return [
            (one.dtype, torch.Size(one.shape))
            if isinstance(one, torch.Tensor) and all(isinstance(size, int) for size in one.shape)
            else None
            for one in self.inputs
        ]

    def _broken_by(self, sizes: Mapping[Any, int]) -> Any:
        """The first of the guards that is not so of these sizes, or None. Of 0 and 1, sizes that
        torch.export does not trace, a guard says nothing."""
        key = frozenset(sizes.items())
        if key not in self._broken:
            given = {symbol: sympy.Integer(size) for symbol, size in sizes.items() if size > 1}
            # What changes its sizes at each call is not remembered for ever.
            if len(self._broken) > _REMEMBERED:
                self._broken.clear()
            self._broken[key] = next(
                (
                    guard
                    for guard in self.guards
                    if guard.free_symbols <= given.keys() and guard.xreplace(given) == sympy.false
                ),
                None,
            )
        guard = self._broken[key]
        return None if guard is None else guard.xreplace(self._names)

    @functools.cached_property
    def _names(self) -> dict[Any, sympy.Symbol]:
        """What callers know the symbols of sizes as."""
        return {
            size.node.expr: sympy.Symbol(f"argument {number} dim {dim}")
            for number, value in reversed([*enumerate(self.inputs)])
            if isinstance(value, torch.Tensor)
            for dim, size in enumerate(value.shape)
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol
        }

    def tree(self, values: Sequence[Any]) -> Any:
        """The results as the model gives them: `values`, and the constants between them."""
        rest = iter(values)
        leaves = [
            expected.value if isinstance(expected, ConstantArgument) else _as(next(rest), expected)
            for expected in self.outputs
        ]
        return pytree.tree_unflatten(leaves, self.results)

    def _wrong(self, leaf: Any, expected: Any, sizes: dict[Any, int]) -> Iterator[str]:
        """What of an argument is not as it was compiled; adds to the `sizes` of symbols."""
        if isinstance(expected, ConstantArgument):
            if leaf != expected.value or type(leaf) is not type(expected.value):
                yield f"it was compiled for {expected.value!r}, not {leaf!r}"
        elif not isinstance(expected, torch.Tensor):
            if not isinstance(leaf, int | float):
                yield f"a number is needed, not {type(leaf).__name__}"
            elif _is_other(leaf, expected):
                yield f"it was compiled for {int(expected)}, not {leaf}"
        elif not isinstance(leaf, torch.Tensor):
            yield f"a tensor is needed, not {type(leaf).__name__}"
        elif leaf.dtype != expected.dtype:
            yield f"it was compiled for {expected.dtype}, not {leaf.dtype}"
        elif leaf.dim() != expected.dim():
            yield f"it was compiled for {expected.dim()} dims, not {leaf.dim()}"
        else:
            for place, size in enumerate(expected.shape):
                yield from self._wrong_size(place, leaf.shape[place], size, sizes)

    def _wrong_size(
        self, place: int, size: int, expected: int | torch.SymInt, sizes: dict[Any, int]
    ) -> Iterator[str]:
        if isinstance(expected, int):
            if size != expected:
                yield f"dim {place} was compiled for {expected}, not {size}"
            return
        symbol = expected.node.expr
        if not symbol.is_Symbol:
            return
        known = sizes.setdefault(symbol, size)
        if known != size:
            yield f"dim {place} is {size}, where other arguments say {known}"
        allowed = self.ranges.get(symbol)
        if allowed is None:
            return
        # torch.export traces with sizes from 2 on, and takes 0 and 1 at run time, too.
        if allowed.lower > 2 and size < allowed.lower:
            yield f"dim {place} is {size}, but was compiled for at least {allowed.lower}"
        if size > allowed.upper:
            yield f"dim {place} is {size}, but was compiled for at most {allowed.upper}"


def _is_other(number: float, expected: Any) -> bool:
    """Whether torch allows one number alone, and not this one."""
    known = isinstance(expected, torch.SymInt) and expected.node.expr.is_Integer
    return known and number != int(expected)


def signature_of(program: ExportedProgram) -> CallSignature:
    """How the model of a program is called."""
    spec = program.call_spec
    if spec.in_spec is None or spec.out_spec is None:
        raise AttnError("the program does not say how it is called: torch.export has not made it")
    inputs = user_inputs(program)
    return CallSignature(
        spec.in_spec,
        spec.out_spec,
        inputs,
        user_outputs(program),
        program.range_constraints,
        _guards_of(inputs),
    )


def _guards_of(inputs: Sequence[Any]) -> list[Any]:
    """What torch took for granted of the sizes of inputs as it traced a model: that `rows % 2` is
    0, where the model asks for that. It asks at each call of its own programs."""
    for value in inputs:
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                return [guard.expr for guard in size.node.shape_env.guards]
    return []


def _as(value: Any, expected: Any) -> Any:
    """A result as what it was traced as: the runtime does not tell signs of integers."""
    return value.view(expected.dtype) if isinstance(value, torch.Tensor) else value


def _path_text(path: Sequence[Any]) -> str:
    """An argument as a caller knows it: `0`, `1['mask']`, `mask`."""
    outer, *inner = path
    if outer.idx == 1 and inner:
        return f"'{inner[0].key}'{pytree.keystr(tuple(inner[1:]))}"
    return f"{inner[0].idx}{pytree.keystr(tuple(inner[1:]))}" if inner else "tree"


def _shown(spec: pytree.TreeSpec) -> str:
    """A form of arguments: how many, and the names of the named ones."""
    places, names = spec.children()
    words = ["_"] * len(places.children()) + [f"{name}=_" for name in names.context or ()]
    return f"({', '.join(words)})"
