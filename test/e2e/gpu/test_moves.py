"""Copies and transposes as loops of ours, and sums down columns, interpreted in numpy."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from gpu_module import behind_pass, lower, lowered, run_gpu_module
from helpers import rel_error

from attnpass import Report
from attnpass.gpu.moves import Moves
from attnpass.gpu.short_rows import ShortRows
from attnpass.passes import Pass

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "--iree-opt-level=O2")
_KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i8": np.int8}


def _type(shape: tuple[int, ...], kind: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{kind}>"


def _numbers(shape: tuple[int, ...], kind: str) -> np.ndarray:
    return (30 * np.random.default_rng(3).standard_normal(shape)).astype(_KINDS[kind])


def _configured(text: str, kernels: Pass) -> tuple[str, int]:
    """A module behind a pass over its kernels, and how many it has changed."""
    configured, records = behind_pass(text, kernels, CUDA)
    return configured, len(records)


def _run(text: str, kernels: Pass, inputs: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """The result of a module behind a pass over its kernels, and how many it has changed."""
    configured, count = _configured(text, kernels)
    (found,) = run_gpu_module(lower(configured), inputs)
    return found, count


@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((2, 33, 70), (0, 2, 1), "f16"),
        ((65, 129), (1, 0), "f32"),
        ((20, 5, 3, 40), (3, 1, 2, 0), "bf16"),
        ((64, 96), (1, 0), "i8"),
    ],
)
def test_transposes(shape: tuple[int, ...], order: tuple[int, ...], kind: str) -> None:
    """Tiles that are whole, and others, with dims between; elementwise ops read what is turned and
    what is not."""
    made = tuple(shape[dim] for dim in order)
    whole, loops = _type(made, kind), [f"d{at}" for at in range(len(order))]
    across = ", ".join(f"d{order.index(dim)}" for dim in range(len(order)))
    sums = "arith.addi" if kind == "i8" else "arith.addf"
    maps = [across, loops[-1], ", ".join(loops)]
    text = f"""
func.func @main(%x: {_type(shape, kind)}, %b: {_type(made[-1:], kind)}) -> {whole} {{
  %space = tensor.empty() : {whole}
  %made = linalg.generic {{
      indexing_maps = [{", ".join(f"affine_map<({', '.join(loops)}) -> ({one})>" for one in maps)}],
      iterator_types = [{", ".join(['"parallel"'] * len(order))}]}}
      ins(%x, %b : {_type(shape, kind)}, {_type(made[-1:], kind)}) outs(%space : {whole}) {{
  ^bb0(%c: {kind}, %d: {kind}, %old: {kind}):
    %y = {sums} %c, %d : {kind}
    linalg.yield %y : {kind}
  }} -> {whole}
  return %made : {whole}
}}"""
    x, bias = _numbers(shape, kind), _numbers(made[-1:], kind)
    found, count = _run(text, Moves(), [x, bias])
    assert count == 1 and np.array_equal(found, x.transpose(order) + bias)


@pytest.mark.parametrize(
    ("shape", "dim", "parts", "kind"),
    [
        ((90, 103), 1, (5, 67), "f16"),
        ((90, 103), 1, (4, 66), "i8"),
    ],
)
def test_copies(shape: tuple[int, ...], dim: int, parts: tuple[int, int], kind: str) -> None:
    """What is cut out and joined: lines of no whole vectors; the second part is more than a
    workgroup's, and does not fill the last."""
    sizes = [(*shape[:dim], size, *shape[dim + 1 :]) for size in (*parts, sum(parts))]
    one, two, both = (_type(each, kind) for each in sizes)
    whole, rank = _type(shape, kind), len(shape)
    at = ", ".join("3" if each == dim else "0" for each in range(rank))
    size = ", ".join(map(str, sizes[1]))
    text = f"""
func.func @main(%x: {whole}, %y: {one}) -> {both} {{
  %cut = tensor.extract_slice %x[{at}] [{size}] [{", ".join("1" * rank)}] : {whole} to {two}
  %both = tensor.concat dim({dim}) %y, %cut : ({one}, {two}) -> {both}
  return %both : {both}
}}"""
    x, y = _numbers(shape, kind), _numbers(sizes[0], kind)
    found, count = _run(text, Moves(), [x, y])
    cut = np.take(x, range(3, 3 + parts[1]), dim)
    assert count >= 2 and np.array_equal(found, np.concatenate((y, cut), dim))


def test_joined_dims() -> None:
    """Lines that lie behind one another are one, of whole vectors."""
    whole, part = _type((30, 20, 7, 6), "f16"), _type((30, 10, 7, 6), "f16")
    text = f"""
func.func @main(%x: {whole}) -> {part} {{
  %cut = tensor.extract_slice %x[0, 3, 0, 0] [30, 10, 7, 6] [1, 1, 1, 1] : {whole} to {part}
  return %cut : {part}
}}"""
    x = _numbers((30, 20, 7, 6), "f16")
    found, count = _run(text, Moves(), [x])
    assert count == 1 and np.array_equal(found, x[:, 3:13])


@pytest.mark.parametrize(
    ("shape", "order", "kind", "unknown"),
    [
        ((5, 7, 3, 2, 32), (2, 0, 3, 1, 4), "f16", ()),
        ((33, 9, 3, 6), (0, 2, 1, 3), "f16", ()),
        ((4, 7, 3, 20), (2, 1, 0, 3), "f32", ()),
        ((9, 50, 3, 24), (0, 2, 1, 3), "i8", ()),
        ((5, 7, 3, 2, 32), (2, 0, 3, 1, 4), "bf16", (0,)),
        ((6, 37, 4, 64), (0, 2, 1, 3), "f16", (0, 1)),
    ],
)
def test_lines_in_another_order(
    shape: tuple[int, ...], order: tuple[int, ...], kind: str, unknown: tuple[int, ...]
) -> None:
    """As vectors: lines of whole ones and of short ones, dims of unknown size; what is added along
    the lines, and to each of them, and casts."""
    sizes = ["?" if dim in unknown else str(size) for dim, size in enumerate(shape)]
    given = f"tensor<{'x'.join(sizes)}x{kind}>"
    made = f"tensor<{'x'.join(sizes[dim] for dim in order)}x{kind}>"
    loops = [f"d{at}" for at in range(len(order))]
    across = [f"d{order.index(dim)}" for dim in range(len(order))]
    sums = "arith.addi" if kind == "i8" else "arith.addf"
    fixed = next(dim for dim in range(len(shape)) if dim not in unknown)
    listed = [", ".join(one) for one in (loops, across, loops[-1:], [across[fixed]])]
    whole, *maps = [f"affine_map<({listed[0]}) -> ({one})>" for one in (listed[0], *listed[1:])]
    dims = [f"  %n{dim} = tensor.dim %x, %c{dim} : {given}" for dim in order if dim in unknown]
    sides = [_type(shape[-1:], kind), _type((shape[fixed],), kind)]
    text = f"""
func.func @main(%x: {given}, %b: {sides[0]}, %s: {sides[1]}) -> {made} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
{chr(10).join(dims)}
  %space = tensor.empty({", ".join(f"%n{dim}" for dim in order if dim in unknown)}) : {made}
  %made = linalg.generic {{
      indexing_maps = [{", ".join([*maps, whole])}],
      iterator_types = [{", ".join(['"parallel"'] * len(order))}]}}
      ins(%x, %b, %s : {given}, {sides[0]}, {sides[1]}) outs(%space : {made}) {{
  ^bb0(%c: {kind}, %d: {kind}, %e: {kind}, %old: {kind}):
    %y = {sums} %c, %d : {kind}
    %z = {sums} %y, %e : {kind}
    linalg.yield %z : {kind}
  }} -> {made}
  return %made : {made}
}}"""
    x, bias, more = (_numbers(each, kind) for each in (shape, shape[-1:], (shape[fixed],)))
    found, count = _run(text, Moves(), [x, bias, more])
    each = more.reshape([-1 if dim == fixed else 1 for dim in range(len(shape))])
    assert count == 1 and np.array_equal(found, (x + bias + each).transpose(order))


def test_parts_in_another_order() -> None:
    """Of lines that begin at vectors, and that do not."""
    part, apart, made = (
        _type(sizes, "f16") for sizes in ((4, 9, 64), (4, 9, 2, 32), (4, 2, 9, 32))
    )
    x = _numbers((4, 9, 200), "f16")
    for first in (64, 33):
        text = f"""
func.func @main(%x: tensor<4x9x200xf16>) -> {made} {{
  %cut = tensor.extract_slice %x[0, 0, {first}] [4, 9, 64] [1, 1, 1]
      : tensor<4x9x200xf16> to {part}
  %apart = tensor.expand_shape %cut [[0], [1], [2, 3]] output_shape [4, 9, 2, 32]
      : {part} into {apart}
  %space = tensor.empty() : {made}
  %made = linalg.transpose ins(%apart : {apart}) outs(%space : {made}) permutation = [0, 2, 1, 3]
  return %made : {made}
}}"""
        found, count = _run(text, Moves(), [x])
        wanted = x[:, :, first : first + 64].reshape(4, 9, 2, 32).transpose(0, 2, 1, 3)
        assert count and np.array_equal(found, wanted)


def test_both_ways() -> None:
    """One tensor is read as it lies, and turned."""
    text = """
func.func @main(%x: tensor<40x40xf32>) -> tensor<40x40xf32> {
  %space = tensor.empty() : tensor<40x40xf32>
  %made = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>,
                       affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<40x40xf32>, tensor<40x40xf32>) outs(%space : tensor<40x40xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<40x40xf32>
  return %made : tensor<40x40xf32>
}"""
    x = _numbers((40, 40), "f32")
    found, count = _run(text, Moves(), [x])
    assert count == 1 and np.array_equal(found, x.T - x)


@pytest.mark.parametrize(("lead", "width"), [(3, 1), (2, 2), (8, 8)])
def test_vectors_lie_at_multiples(lead: int, width: int) -> None:
    """What is bound of a buffer may begin at any element: a part behind a short one."""
    one, two, both = (_type((size,), "f16") for size in (lead, 1536, lead + 1536))
    whole, part = _type((4, 24, 32), "f16"), _type((4, 16, 24), "f16")
    text = f"""
func.func @main(%x: {whole}, %y: {one}) -> {both} {{
  %cut = tensor.extract_slice %x[0, 8, 8] [4, 16, 24] [1, 1, 1] : {whole} to {part}
  %flat = tensor.collapse_shape %cut [[0, 1, 2]] : {part} into {two}
  %both = tensor.concat dim(0) %y, %flat : ({one}, {two}) -> {both}
  return %both : {both}
}}"""
    configured, count = _configured(text, Moves())
    stores = re.findall(r"vector\.store .*vector<(\d+)xf16>", configured)
    assert count == 1 and {*map(int, stores)} == ({width} if width > 1 else set())


@pytest.mark.parametrize("channels", [24, 20, 21, 6761])
def test_taps(channels: int) -> None:
    """A convolution of each channel by itself, whose taps are read by index: 8 or 4 neighbours a
    thread, in a workgroup that is not full; of odd channels a thread makes one element, or where
    there are many several along a line of pixels."""
    x, w = f"tensor<2x6x7x{channels}xf16>", f"tensor<2x3x{channels}xf16>"
    out = f"tensor<2x5x5x{channels}xf16>"
    steps, total = "", "%zero"
    for at, (p, q) in enumerate(itertools.product(range(2), range(3))):
        steps += f"""
    %y{at} = arith.addi %i, %c{p} : index
    %x{at} = arith.addi %j, %c{q} : index
    %a{at} = tensor.extract %x[%b, %y{at}, %x{at}, %c] : {x}
    %w{at} = tensor.extract %w[%c{p}, %c{q}, %c] : {w}
    %f{at} = arith.extf %a{at} : f16 to f32
    %g{at} = arith.extf %w{at} : f16 to f32
    %m{at} = arith.mulf %f{at}, %g{at} : f32
    %s{at} = arith.addf {total}, %m{at} : f32"""
        total = f"%s{at}"
    loops = "(b, i, j, c) -> (b, i, j, c)"
    indices = [f"%{name} = linalg.index {at} : index" for at, name in enumerate("bijc")]
    numbers = [f"%c{number} = arith.constant {number} : index" for number in range(3)]
    text = f"""
func.func @main(%x: {x}, %w: {w}) -> {out} {{
  %zero = arith.constant 1.0 : f32
  {chr(10).join(numbers)}
  %space = tensor.empty() : {out}
  %made = linalg.generic {{indexing_maps = [affine_map<{loops}>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} outs(%space : {out}) {{
  ^bb0(%old: f16):
  {chr(10).join(indices)}
    {steps}
    %t = arith.truncf {total} : f32 to f16
    linalg.yield %t : f16
  }} -> {out}
  return %made : {out}
}}"""
    random = np.random.default_rng(4)
    image, taps = (
        random.standard_normal(shape).astype(np.float16)
        for shape in ((2, 6, 7, channels), (2, 3, channels))
    )
    report = Report()
    (found,) = run_gpu_module(lowered(text, CUDA, report=report), [image, taps])
    made = [one for one in report.found("fitted") if "what it reads" in one.reason]
    wide = image.astype(np.float64)
    wanted = np.ones(found.shape) + sum(
        wide[:, p : p + 5, q : q + 5] * taps[p, q].astype(np.float64)
        for p, q in itertools.product(range(2), range(3))
    )
    assert len(made) == 1 and rel_error(found, wanted) < 1e-3


def test_places_as_numbers() -> None:
    """Those below zero, and those that are told by a size outside of the body."""
    text = """
func.func @main(%x: tensor<41x70xf32>, %p: tensor<?xf32>) -> tensor<41x67xf32> {
  %zero = arith.constant 0 : index
  %fifty = arith.constant 50 : index
  %more = tensor.dim %p, %zero : tensor<?xf32>
  %space = tensor.empty() : tensor<41x67xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(b, n) -> (b, n)>],
      iterator_types = ["parallel", "parallel"]} outs(%space : tensor<41x67xf32>) {
  ^bb0(%o: f32):
    %b = linalg.index 0 : index
    %n = linalg.index 1 : index
    %k = arith.addi %n, %more : index
    %v = tensor.extract %x[%b, %n] : tensor<41x70xf32>
    %w = tensor.extract %x[%b, %k] : tensor<41x70xf32>
    %d = arith.subi %n, %fifty : index
    %e = arith.index_cast %d : index to i64
    %f = arith.sitofp %e : i64 to f32
    %y = arith.mulf %v, %w : f32
    %z = arith.addf %y, %f : f32
    linalg.yield %z : f32
  } -> tensor<41x67xf32>
  return %made : tensor<41x67xf32>
}"""
    x = _numbers((41, 70), "f32")
    found, count = _run(text, Moves(), [x, np.zeros(2, np.float32)])
    wide = x.astype(np.float64)
    assert count == 1
    assert rel_error(found, wide[:, :67] * wide[:, 2:69] + np.arange(67) - 50) < 1e-6


@pytest.mark.parametrize(
    ("shape", "dims", "kind"),
    [
        ((333, 200), (0,), "f16"),
        # No more subgroups than lanes down a column: IREE 3.13 would lose the others.
        ((140, 576, 64), (1,), "bf16"),
        ((4, 5, 64), (0, 1), "f32"),
        ((17, 12, 49), (0, 2), "f16"),
        ((3, 40, 7, 72), (1, 2), "f32"),
        # Lines that no vectors divide, rows that lanes do not, a few numbers and one sum.
        ((130, 101), (0,), "f32"),
        ((37, 49), (1,), "f16"),
        ((3, 1370), (1,), "bf16"),
        ((41, 30), (0, 1), "f32"),
    ],
)
def test_sums(shape: tuple[int, ...], dims: tuple[int, ...], kind: str) -> None:
    """Sums of squares down columns, and over dims around those that stay."""
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    sums = _type(tuple(shape[dim] for dim in kept), "f32")
    loops = ", ".join(f"d{dim}" for dim in range(len(shape)))
    result = ", ".join(f"d{dim}" for dim in kept)
    kinds = ", ".join('"reduction"' if dim in dims else '"parallel"' for dim in range(len(shape)))
    wide = f"arith.extf %a : {kind} to f32" if kind != "f32" else "arith.addf %a, %zero : f32"
    text = f"""
func.func @main(%x: {_type(shape, kind)}) -> {sums} {{
  %zero = arith.constant 0.0 : f32
  %space = tensor.empty() : {sums}
  %none = linalg.fill ins(%zero : f32) outs(%space : {sums}) -> {sums}
  %sum = linalg.generic {{
      indexing_maps = [affine_map<({loops}) -> ({loops})>, affine_map<({loops}) -> ({result})>],
      iterator_types = [{kinds}]}} ins(%x : {_type(shape, kind)}) outs(%none : {sums}) {{
  ^bb0(%a: {kind}, %s: f32):
    %b = {wide}
    %c = arith.mulf %b, %b : f32
    %t = arith.addf %c, %s : f32
    linalg.yield %t : f32
  }} -> {sums}
  return %sum : {sums}
}}"""
    x = _numbers(shape, kind)
    found, count = _run(text, ShortRows(), [x])
    assert count == 1 and rel_error(found, (x.astype(np.float64) ** 2).sum(dims)) < 1e-6


def test_places_in_order() -> None:
    """How many numbers of a row are less than each of it: one tensor that is read at two loops."""
    kind, ranks = _type((3, 150), "f32"), _type((3, 150), "i32")
    maps = ", ".join(f"affine_map<(b, i, j) -> (b, {loop})>" for loop in "iji")
    text = f"""
func.func @main(%x: {kind}) -> {ranks} {{
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : {ranks}
  %n = linalg.fill ins(%zero : i32) outs(%e : {ranks}) -> {ranks}
  %s = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %x : {kind}, {kind}) outs(%n : {ranks}) {{
  ^bb0(%a: f32, %b: f32, %o: i32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %front = arith.cmpi ult, %j, %i : index
    %less = arith.cmpf olt, %b, %a : f32
    %same = arith.cmpf oeq, %b, %a : f32
    %tie = arith.andi %same, %front : i1
    %c = arith.ori %less, %tie : i1
    %d = arith.extui %c : i1 to i32
    %t = arith.addi %d, %o : i32
    linalg.yield %t : i32
  }} -> {ranks}
  return %s : {ranks}
}}"""
    x = np.round(_numbers((3, 150), "f32"), 1)
    found, count = _run(text, ShortRows(), [x])
    assert count == 1
    assert np.array_equal(found, x.argsort(1, kind="stable").argsort(1))


def test_sums_beside_what_they_add() -> None:
    """A gate's mean beside the gate (of squeeze and excitation): one kernel has both results."""
    whole, row = _type((41, 70), "f32"), _type((41,), "f32")
    loops, rows = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>"
    alone = "affine_map<(i) -> (i)>"
    text = f"""
func.func @main(%x: {whole}) -> ({whole}, {row}) {{
  %zero = arith.constant 0.0 : f32
  %size = arith.constant 70.0 : f32
  %e = tensor.empty() : {whole}
  %y = linalg.generic {{indexing_maps = [{loops}, {loops}],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {whole}) outs(%e : {whole}) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  }} -> {whole}
  %f = tensor.empty() : {row}
  %n = linalg.fill ins(%zero : f32) outs(%f : {row}) -> {row}
  %s = linalg.generic {{indexing_maps = [{loops}, {rows}],
      iterator_types = ["parallel", "reduction"]}} ins(%y : {whole}) outs(%n : {row}) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %o : f32
    linalg.yield %b : f32
  }} -> {row}
  %m = linalg.generic {{indexing_maps = [{alone}, {alone}],
      iterator_types = ["parallel"]}} ins(%s : {row}) outs(%f : {row}) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.divf %a, %size : f32
    linalg.yield %b : f32
  }} -> {row}
  return %y, %m : {whole}, {row}
}}"""
    x = _numbers((41, 70), "f32")
    configured, count = _configured(text, ShortRows())
    squares, means = run_gpu_module(lower(configured), [x])
    assert count == 1 and configured.count("hal.executable.export") == 1
    assert np.array_equal(squares, x * x)
    assert rel_error(means, (x.astype(np.float64) ** 2).mean(1)) < 1e-6


def test_norms_down_columns() -> None:
    """What is centered, and divided by its length, over a dim in front of lines of 35."""
    whole, mean, gains = _type((3, 40, 35), "f32"), _type((3, 35), "f32"), _type((40,), "f32")
    maps = ", ".join(
        f"affine_map<(b, c, n) -> ({dims})>" for dims in ("b, c, n", "b, n", "b, n", "c", "b, c, n")
    )
    sums = "[affine_map<(b, n, c) -> (b, c, n)>, affine_map<(b, n, c) -> (b, n)>]"
    centers = "affine_map<(b, n, c) -> (b, n)>"
    kinds = 'iterator_types = ["parallel", "parallel", "reduction"]'
    text = f"""
func.func @main(%x: {whole}, %g: {gains}) -> {whole} {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 40.0 : f32
  %e = tensor.empty() : {mean}
  %n = linalg.fill ins(%zero : f32) outs(%e : {mean}) -> {mean}
  %s = linalg.generic {{indexing_maps = {sums}, {kinds}}} ins(%x : {whole}) outs(%n : {mean}) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %o : f32
    linalg.yield %b : f32
  }} -> {mean}
  %v = linalg.generic {{indexing_maps = [affine_map<(b, n, c) -> (b, c, n)>, {centers}, {centers}],
      {kinds}}} ins(%x, %s : {whole}, {mean}) outs(%n : {mean}) {{
  ^bb0(%a: f32, %m: f32, %o: f32):
    %d = arith.divf %m, %count : f32
    %c = arith.subf %a, %d : f32
    %q = arith.mulf %c, %c : f32
    %b = arith.addf %q, %o : f32
    linalg.yield %b : f32
  }} -> {mean}
  %f = tensor.empty() : {whole}
  %y = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%x, %s, %v, %g : {whole}, {mean}, {mean}, {gains}) outs(%f : {whole}) {{
  ^bb0(%a: f32, %m: f32, %w: f32, %k: f32, %o: f32):
    %d = arith.divf %m, %count : f32
    %c = arith.subf %a, %d : f32
    %r = math.sqrt %w : f32
    %q = arith.divf %c, %r : f32
    %t = arith.mulf %q, %k : f32
    linalg.yield %t : f32
  }} -> {whole}
  return %y : {whole}
}}"""
    x, gain = _numbers((3, 40, 35), "f32"), _numbers((40,), "f32")
    configured, count = _configured(text, ShortRows())
    (found,) = run_gpu_module(lower(configured), [x, gain])
    wide = x.astype(np.float64) - x.mean(1, keepdims=True, dtype=np.float64)
    wanted = wide / np.linalg.norm(wide, axis=1, keepdims=True) * gain[:, None]
    assert count == 1 and configured.count("hal.executable.export") == 1
    assert rel_error(found, wanted) < 1e-5
