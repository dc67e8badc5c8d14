"""Compiled JAX functions, by way of the StableHLO that jax.jit lowers them to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from iree.compiler import ir

from ..driver.modules import updates_tensors
from ..errors import AttnError, first_line
from ..program.arrays import ArrayProgram, check_array
from ..program.compiler import ProgramCompiler
from ..program.executable import Executable
from ..report.records import Report


class CompiledJit:
    """A function that was compiled: called with trees of arrays of the same form.

    `report` says what the passes did, `vmfb` is the program.
    """

    def __init__(
        self,
        program: ArrayProgram,
        lowered: Any,
        outputs: Sequence[Any],
        vmfb: bytes,
        report: Report,
    ):
        self._program, self.vmfb, self.report = program, vmfb, report
        leaves, self._form = jax.tree_util.tree_flatten(lowered.in_avals)
        self._inputs = [(np.dtype(leaf.dtype), leaf.shape) for leaf in leaves]
        self._outputs = outputs
        self._results = lowered.out_tree

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        paths, form = jax.tree_util.tree_flatten_with_path((args, kwargs))
        if form != self._form:
            raise AttnError(f"it was compiled for arguments of the form {self._form}, not {form}")
        arrays = []
        for (path, leaf), (dtype, shape) in zip(paths, self._inputs, strict=True):
            if isinstance(leaf, jax.core.Tracer):
                raise AttnError(
                    "a compiled function is no part of what JAX traces: compile what jax.jit, "
                    "jax.grad or jax.vmap make of it"
                )
            array = np.asarray(_plain(leaf), None if hasattr(leaf, "dtype") else dtype)
            # As JAX has it: without jax_enable_x64 there are no types of 64 bits.
            array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
            check_array(jax.tree_util.keystr(path[1:]), array, dtype, shape)
            arrays.append(array)
        pairs = zip(self._program(arrays), self._outputs, strict=True)
        results = [_as(jax.numpy.asarray(array), dtype) for array, dtype in pairs]
        return jax.tree_util.tree_unflatten(self._results, results)


def _is_key(dtype: Any) -> bool:
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    """An argument as numbers: keys of random numbers are words, since JAX writes keys in a dialect
    that IREE has not."""
    if not _is_key(getattr(leaf, "dtype", None)):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.eval_shape(jax.random.key_data, leaf)
    return jax.random.key_data(leaf)


def _like(words: Any, example: Any) -> Any:
    return _as(words, getattr(example, "dtype", None))


def _as(array: Any, dtype: Any) -> Any:
    """Numbers as what they stand for."""
    return jax.random.wrap_key_data(array, impl=dtype._impl) if _is_key(dtype) else array


def compile_function(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    compiler: ProgramCompiler,
) -> CompiledJit:
    """`attnpass.jax.compile`."""
    given, outputs = (tuple(args), dict(kwargs or {})), []

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = jax.tree_util.tree_map(_like, (args, kwargs), given)
        results = function(*args, **kwargs)
        outputs[:] = [jax.dtypes.result_type(leaf) for leaf in jax.tree_util.tree_leaves(results)]
        return jax.tree_util.tree_map(_plain, results)

    try:
        words: Any = jax.tree_util.tree_map(_plain, given)
        traced = jax.jit(plain, keep_unused=True).trace(*words[0], **words[1])
        lowered = _lowered(traced)
    except Exception as error:
        raise AttnError(f"JAX cannot trace the function: {first_line(error)}") from error
    text = lowered.as_text(debug_info=True)
    types = [np.dtype(leaf.dtype) for leaf in jax.tree_util.tree_leaves(lowered.out_info)]
    inputs = jax.tree_util.tree_leaves(lowered.in_avals)
    doubles = any(dtype == np.float64 for dtype in (*types, *(leaf.dtype for leaf in inputs)))
    vmfb = compiler.compile(text, "stablehlo", doubles)
    program = ArrayProgram(Executable(vmfb, compiler.device), types, _updates(text))
    return CompiledJit(program, lowered, outputs, vmfb, compiler.report)


def _lowered(traced: Any) -> Any:
    """The function in StableHLO. What JAX's own CPU backend lacks (products of f16 that are summed
    in f32, as in its attention) is lowered for TPUs, for which the least is left to libraries."""
    try:
        return traced.lower()
    except ValueError:
        return traced.lower(lowering_platforms=("tpu",))


def _updates(text: str) -> bool:
    with ir.Context() as context:
        context.load_all_available_dialects()
        return updates_tensors(ir.Module.parse(text, context).operation)
