"""What IREE's lowering of vectors for GPUs makes of a product, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gpu_interpreter import Machine
from gpu_module import LOWER_VECTORS
from helpers import rel_error
from iree.compiler import ir, passmanager

from attnpass.codegen.ptx import Machine as Instructions
from attnpass.gpu.lower_cuda.hardware_math import LoweredKernel

# Of loops: a and b are summed over, x and y a factor's own, z is of both and the result.
EXTENTS = {"a": 2, "b": 3, "x": 2, "y": 3, "z": 2}


def contraction(dims: Sequence[str], given: Sequence[str], extents: Mapping[str, int]) -> str:
    """A function of one product of vectors, whose operands' dims are letters, and those of loops.
    It is given, and gives, each in another order; factors without dims of size one, or without
    their first dims, along which they are repeated."""
    *operands, loops = dims

    def kind(dims: str) -> str:
        return f"vector<{'x'.join(str(extents[dim]) for dim in dims)}xf32>"

    def transposed(name: str, source: str, target: str) -> str:
        if len(source) < len(target):
            op = "broadcast" if target.endswith(source) else "shape_cast"
            return f"vector.{op} %{name} : {kind(source)} to {kind(target)}"
        order = [source.index(dim) for dim in target]
        return f"vector.transpose %{name}, {order} : {kind(source)} to {kind(target)}"

    maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in operands]
    iterators = [f'"{"reduction" if dim in "ab" else "parallel"}"' for dim in loops]
    arguments = [f"%{name}: {kind(one)}" for name, one in zip("lro", given, strict=True)]
    left, right, start = (
        transposed(name, *pair) for name, *pair in zip("lro", given, operands, strict=True)
    )
    return f"""func.func @main({", ".join(arguments)}) -> {kind(given[2])} {{
      %tl = {left}
      %tr = {right}
      %to = {start}
      %p = vector.contract {{indexing_maps = [{", ".join(maps)}],
          iterator_types = [{", ".join(iterators)}], kind = #vector.kind<add>}}
          %tl, %tr, %to : {", ".join(map(kind, operands[:2]))} into {kind(operands[2])}
      %t = {transposed("p", operands[2], given[2])}
      return %t : {kind(given[2])}
    }}"""


def error_of(
    dims: Sequence[str],
    given: Sequence[str],
    rewritten: bool = True,
    extents: Mapping[str, int] = EXTENTS,
) -> float:
    """The error of what IREE makes of a product, after the kernel's rewrite or without it."""
    numbers = np.random.default_rng(0)
    arrays = [
        numbers.standard_normal([extents[dim] for dim in one]).astype(np.float32) for one in given
    ]
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(contraction(dims, given, extents))
        if rewritten:
            LoweredKernel(Instructions(90, 84)).rewrite(module.operation)
        passes = passmanager.PassManager.parse(
            f"builtin.module(func.func({LOWER_VECTORS}))", context
        )
        passes.run(module.operation)
        block = module.body.operations[0].regions[0].blocks[0]
        machine = Machine(lambda *_: np.zeros(0), (1, 1, 1), (), ())
        machine.values.update(zip(block.arguments, [one[None] for one in arrays], strict=True))
        (result,) = machine.block(block)
    factors = [
        _whole(array, one, operand, extents)
        for array, one, operand in zip(arrays[:2], given, dims, strict=False)
    ]
    wanted = np.einsum(f"{dims[0]},{dims[1]}->{given[2]}", *factors) + arrays[2]
    return rel_error(result[0], wanted)


def _whole(array: np.ndarray, given: str, dims: str, extents: Mapping[str, int]) -> np.ndarray:
    """A factor with all its dims, in the product's order."""
    if len(given) == len(dims):
        return array.transpose([given.index(dim) for dim in dims])
    shape = [extents[dim] if dim in given else 1 for dim in dims]
    return np.broadcast_to(array.reshape(shape), [extents[dim] for dim in dims])
