"""Compiled JAX functions, by way of the StableHLO that jax.jit lowers them to."""

from __future__ import annotations

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

    def __init__(self, program: ArrayProgram, lowered: Any, vmfb: bytes, report: Report):
        self._program, self.vmfb, self.report = program, vmfb, report
        leaves, self._form = jax.tree_util.tree_flatten(lowered.in_avals)
        self._inputs = [(np.dtype(leaf.dtype), leaf.shape) for leaf in leaves]
        self._results = lowered.out_tree

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        paths, form = jax.tree_util.tree_flatten_with_path((args, kwargs))
        if form != self._form:
            raise AttnError(f"it was compiled for arguments of the form {self._form}, not {form}")
        arrays = []
        for (path, leaf), (dtype, shape) in zip(paths, self._inputs, strict=True):
            array = np.asarray(leaf, None if hasattr(leaf, "dtype") else dtype)
            check_array(jax.tree_util.keystr(path[1:]), array, dtype, shape)
            arrays.append(array)
        results = [jax.numpy.asarray(array) for array in self._program(arrays)]
        return jax.tree_util.tree_unflatten(self._results, results)


def compile_function(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    compiler: ProgramCompiler,
) -> CompiledJit:
    """`attnpass.jax.compile`."""
    try:
        traced = jax.jit(function, keep_unused=True).trace(*args, **dict(kwargs or {}))
        lowered = _lowered(traced)
    except Exception as error:
        raise AttnError(f"JAX cannot trace the function: {first_line(error)}") from error
    text = lowered.as_text(debug_info=True)
    types = [np.dtype(leaf.dtype) for leaf in jax.tree_util.tree_leaves(lowered.out_info)]
    inputs = jax.tree_util.tree_leaves(lowered.in_avals)
    doubles = any(dtype == np.float64 for dtype in (*types, *(leaf.dtype for leaf in inputs)))
    vmfb = compiler.compile(text, "stablehlo", doubles)
    program = ArrayProgram(Executable(vmfb, compiler.device), types, _updates(text))
    return CompiledJit(program, lowered, vmfb, compiler.report)


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
