"""View ops as runs of dims, held to what numpy makes of the same op."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from iree.compiler import ir

from attnpass.ir import collect
from attnpass.ir.views import IN_PLACE, View, below_views, repeat_of, view_of, views_above

REPEAT = """linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (%s)>,
    affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%%x : tensor<%s>) outs(%%init : tensor<2x3x4xf32>) {
  ^bb0(%%in: f32, %%out: f32):
    linalg.yield %%%s : f32
} -> tensor<2x3x4xf32>"""

CASES = {
    "transpose": (
        "linalg.transpose ins(%x : tensor<4x2x3xf32>) outs(%init : tensor<2x3x4xf32>)"
        " permutation = [1, 2, 0]",
        lambda x: x.transpose(1, 2, 0),
    ),
    "cast": (
        "tensor.cast %x : tensor<2x3x4xf32> to tensor<?x3x4xf32>",
        lambda x: x,
    ),
    "expand": (
        "tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4]"
        " : tensor<6x4xf32> into tensor<2x3x4xf32>",
        lambda x: x.reshape(2, 3, 4),
    ),
    "expand a scalar": (
        "tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>",
        lambda x: x.reshape(1, 1),
    ),
    "collapse": (
        "tensor.collapse_shape %x [[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>",
        lambda x: x.reshape(2, 12),
    ),
    "collapse to a scalar": (
        "tensor.collapse_shape %x [] : tensor<1x1xf32> into tensor<f32>",
        lambda x: x.reshape(()),
    ),
    "reshape": (
        "tensor.reshape %x(%shape) : (tensor<6x4xf32>, tensor<3xi32>) -> tensor<2x3x4xf32>",
        lambda x: x.reshape(2, 3, 4),
    ),
    "broadcast": (
        "linalg.broadcast ins(%x : tensor<2x4xf32>) outs(%init : tensor<2x3x4xf32>)"
        " dimensions = [1]",
        lambda x: np.broadcast_to(x[:, None, :], (2, 3, 4)),
    ),
    "generic that repeats and transposes": (
        REPEAT % ("c, a", "4x2xf32", "in"),
        lambda x: np.broadcast_to(x.transpose()[:, None, :], (2, 3, 4)),
    ),
    "generic that reads one element of a dim": (
        REPEAT % ("a, 0, b", "2x1x3xf32", "in"),
        lambda x: np.broadcast_to(x, (4, 2, 1, 3))[:, :, 0].transpose(1, 2, 0),
    ),
    "slice": (
        "tensor.extract_slice %x[1, 0, 2] [2, 3, 4] [1, 1, 2]"
        " : tensor<5x3x9xf32> to tensor<2x3x4xf32>",
        lambda x: x[1:3, :, 2:10:2],
    ),
    "slice that drops dims": (
        "tensor.extract_slice %x[1, 1, 0] [1, 1, 4] [1, 1, 1]"
        " : tensor<5x3x9xf32> to tensor<1x4xf32>",
        lambda x: x[1:2, 1, :4],
    ),
}


def parsed(line: str) -> ir.Module:
    """A module that has the op `line` on `%x`."""
    kind = re.findall(r"tensor<[^>]*>", line)[0]
    text = f"""
      func.func @f(%x: {kind}, %init: tensor<2x3x4xf32>, %shape: tensor<3xi32>) {{
        %r = {line}
        return
      }}"""
    with ir.Context():
        return ir.Module.parse(text)


def read(line: str) -> tuple[View | None, ir.Module]:
    module = parsed(line)
    (op,) = collect(module.operation, lambda op: op.name in OPS, bodies=False)
    return view_of(op), module


OPS = (
    *("linalg.transpose", "linalg.broadcast", "linalg.generic", "tensor.cast", "tensor.reshape"),
    *("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice"),
)


def places(dims: Sequence[int], index: Sequence[int], shape: Sequence[int]) -> int:
    """Where the indices of `dims` stand, row-major."""
    place = 0
    for dim in dims:
        place = place * shape[dim] + index[dim]
    return place


def shown(view: View, x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The result of a view, of this shape, by its runs."""
    result = np.zeros(shape, x.dtype)
    for index in itertools.product(*map(range, shape)):
        source = [0] * x.ndim
        for run in view.runs:
            sizes = [x.shape[dim] for dim in run.source]
            place = places(run.result, index, shape)
            if len(run.source) == 1:
                assert run.start is not None and run.step is not None
                source[run.source[0]] = run.start + run.step * place
            elif sizes:
                where = np.unravel_index(place, sizes)
                for dim, at in zip(run.source, where, strict=True):
                    source[dim] = int(at)
        result[index] = x[tuple(source)]
    return result


@pytest.mark.parametrize("name", CASES)
def test_runs_say_what_the_op_does(name: str) -> None:
    line, function = CASES[name]
    view, _module = read(line)
    assert view is not None
    shape = list(ir.RankedTensorType(view.source.type).shape)
    x = np.arange(math.prod(shape)).reshape(shape)
    wanted = function(x)
    assert np.array_equal(shown(view, x, wanted.shape), wanted)


@pytest.mark.parametrize("name", CASES)
def test_each_dim_is_in_one_run(name: str) -> None:
    view, _module = read(CASES[name][0])
    assert view is not None
    sides = zip(*((run.source, run.result) for run in view.runs), strict=True)
    for side, value in zip(sides, (view.source, view.result), strict=True):
        rank = ir.RankedTensorType(value.type).rank
        assert sorted(itertools.chain(*side)) == list(range(rank))


def test_projection() -> None:
    wanted = {
        "transpose": (2, 0, 1),
        "cast": (0, 1, 2),
        "expand": None,
        "reshape": None,
        "broadcast": (0, 2),
        "generic that repeats and transposes": (2, 0),
        "generic that reads one element of a dim": (0, None, 1),
        "slice that drops dims": (0, None, 1),
    }
    for name, dims in wanted.items():
        view, _module = read(CASES[name][0])
        assert view is not None and view.projection == dims, name


def test_keeps_order() -> None:
    moved = {"transpose", "generic that repeats and transposes"}
    for name, (line, _) in CASES.items():
        view, _module = read(line)
        assert view is not None and view.keeps_order == (name not in moved), name


def test_what_is_known_at_run_time_only() -> None:
    module = parsed("tensor.cast %x : tensor<2x3x4xf32> to tensor<?x3x4xf32>")
    text = str(module).replace(
        "return",
        """%c = arith.constant 1 : index
      %n = tensor.dim %cast, %c : tensor<?x3x4xf32>
      %s = tensor.extract_slice %cast[%n, 1, 0] [1, 2, 4] [1, %n, 1]
        : tensor<?x3x4xf32> to tensor<2x4xf32>
      return""",
    )
    with module.context:
        module = ir.Module.parse(text)
        (op,) = collect(module.operation, lambda op: op.name == "tensor.extract_slice")
        view = view_of(op)
    assert view is not None
    assert [(run.start, run.step) for run in view.runs] == [(None, 1), (1, None), (0, 1)]
    assert [run.result for run in view.runs] == [(), (0,), (1,)]


@pytest.mark.parametrize(
    "line",
    [
        # What the result held before.
        REPEAT % ("a, b, c", "2x3x4xf32", "out"),
        "tensor.cast %x : tensor<*xf32> to tensor<2x3x4xf32>",
        "tensor.cast %x : tensor<2x3xf32> to tensor<*xf32>",
        "tensor.concat dim(0) %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>",
    ],
)
def test_no_view(line: str) -> None:
    module = parsed(line)
    names = (*OPS, "tensor.concat")
    (op,) = collect(module.operation, lambda op: op.name in names, bodies=False)
    assert view_of(op) is None and repeat_of(op) is None


def test_views_above() -> None:
    text = """
      func.func @f(%x: tensor<2x12xf32>, %init: tensor<4x2x3xf32>) -> tensor<?x2x3xf32> {
        %a = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 4]
          : tensor<2x12xf32> into tensor<2x3x4xf32>
        %b = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs(%init : tensor<4x2x3xf32>)
          permutation = [2, 0, 1]
        %c = tensor.cast %b : tensor<4x2x3xf32> to tensor<?x2x3xf32>
        return %c : tensor<?x2x3xf32>
      }"""
    with ir.Context():
        module = ir.Module.parse(text)
        (end,) = collect(module.operation, lambda op: op.name == "func.return")
        value = end.operands[0]
        names = [view.op.name for view in views_above(value, (*IN_PLACE, "linalg.transpose"))]
        assert names == ["tensor.cast", "linalg.transpose", "tensor.expand_shape"]
        assert below_views(value, IN_PLACE).owner.name == "linalg.transpose"
        x = below_views(value, (*IN_PLACE, "linalg.transpose"))
        assert list(views_above(x, IN_PLACE)) == []
