"""Sums over several dims on CUDA: IREE takes the dims of both factors by their places."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy as np
import pytest
from attention_form import Form
from gpu_interpreter import Machine
from gpu_module import lower, run_gpu_module
from helpers import rel_error
from iree.compiler import ir, passmanager

import attnpass
from attnpass.gpu.hardware_exp2 import Kernel
from attnpass.gpu.lowered.ptx import Machine as Instructions
from attnpass.report.records import Report

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
TOLERANCE = {"f32": 3e-4, "f16": 5e-3, "bf16": 2e-2}
# Of loops: a and b are summed over, x and y a factor's own, z is of both and the result.
EXTENTS = {"a": 2, "b": 3, "x": 2, "y": 3, "z": 2}
SMALL = (("d", 4), ("e", 8), ("h", 2), ("m", 3), ("k", 8), ("l", 4), ("n", 8), ("b", 2))
FORMS = {
    "second_factor": Form("bmde", "bked"),
    "apart": Form("dbem", "ekbd", "nbk", "mbn"),
    "three_dims": Form("bmdeh", "bkhed"),
    "of_16_bits": Form("bdem", "bked", kinds=("f16",) * 4, sizes=(("d", 4), ("e", 64))),
    "rows_of_unknown_number": Form("bmde", "bked", dynamic="m"),
    "mask": Form("bmde", "bked", mask="mk", mask_kind="f32"),
    "two_key_dims": Form("bmde", "bkled", "blkn"),
}
# Of unknown sizes, rows or columns of products among them.
UNKNOWN = {
    "all": Form("bhmd", "bhkd", "bhkn", "bhmn", dynamic="bmdk"),
    "transposed": Form("bdhmg", "bhkd", "bhkn", "nghbm", dynamic="hmdk"),
    "two_head_dims": Form("bhmed", "dbhke", "kbnh", "bhmn", dynamic="bmd"),
}


def contraction(dims: Sequence[str], given: Sequence[str]) -> str:
    """A function of one product of vectors, whose operands' dims are letters, and those of loops.
    It is given, and gives, each in another order."""
    *operands, loops = dims

    def kind(dims: str) -> str:
        return f"vector<{'x'.join(str(EXTENTS[dim]) for dim in dims)}xf32>"

    def transposed(name: str, source: str, target: str) -> str:
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


def error_of(dims: Sequence[str], given: Sequence[str], rewritten: bool = True) -> float:
    """The error of what IREE makes of a product, after the kernel's rewrite or without it."""
    numbers = np.random.default_rng(0)
    arrays = [
        numbers.standard_normal([EXTENTS[dim] for dim in one]).astype(np.float32) for one in given
    ]
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(contraction(dims, given))
        if rewritten:
            Kernel(Instructions(90, 84)).rewrite(module.operation)
        passes = passmanager.PassManager.parse(
            "builtin.module(func.func(iree-llvmgpu-vector-lowering))", context
        )
        passes.run(module.operation)
        block = module.body.operations[0].regions[0].blocks[0]
        machine = Machine(lambda *_: np.zeros(0), (1, 1, 1), (), ())
        machine.values.update(zip(block.arguments, [one[None] for one in arrays], strict=True))
        (result,) = machine.block(block)
    left, right, out = given
    wanted = np.einsum(f"{left},{right}->{out}", *arrays[:2]) + arrays[2]
    return rel_error(result[0], wanted)


def compiled_for_gpu(form: Form, report: Report, **options: bool) -> str:
    flags = [*CUDA, "--compile-to=executable-configurations"]
    compiled = attnpass.compile_str(form.text("main"), extra_args=flags, report=report, **options)
    assert compiled is not None
    return compiled.decode()


@pytest.mark.parametrize("seed", range(20))
def test_what_iree_makes_of_a_product(seed: int) -> None:
    choices = random.Random(seed)
    dims = ["".join(choices.sample(one, len(one))) for one in ("abxz", "abyz", "xyz", "abxyz")]
    given = ["".join(choices.sample(one, len(one))) for one in dims[:3]]
    assert error_of(dims, dims[:3]) < 1e-6
    assert error_of(dims, given) < 1e-6


def test_what_iree_makes_of_a_product_as_it_is() -> None:
    """If IREE learns to pair dims by their loops, the rewrite has less to do."""
    loops = "xyzab"
    for dims, is_right in ((("abxz", "abyz", "xyz"), True), (("abxz", "bayz", "xyz"), False)):
        assert (error_of((*dims, loops), dims, rewritten=False) < 1e-6) == is_right


@pytest.mark.parametrize("hardware_exp2", [True, False])
@pytest.mark.parametrize("name", FORMS)
def test_attention(name: str, hardware_exp2: bool) -> None:
    form, report = FORMS[name], Report()
    form = dataclasses.replace(form, sizes=(*SMALL, *form.sizes))
    compiled = compiled_for_gpu(form, report, hardware_exp2=hardware_exp2)
    assert ("ex2.approx" in compiled) == hardware_exp2
    (result,) = run_gpu_module(lower(compiled), form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[form.kinds[0]]
    assert not report.events
    assert any("transposed in registers" in record.reason for record in report.found("repaired"))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_head_dims_of_unknown_size(name: str, kind: str) -> None:
    sizes = (("b", 2), ("h", 2), ("m", 3), ("g", 2), ("k", 8), ("n", 8), ("d", 6), ("e", 16))
    form = dataclasses.replace(UNKNOWN[name], kinds=(kind,) * 4, sizes=sizes)
    report = Report()
    (result,) = run_gpu_module(lower(compiled_for_gpu(form, report)), form.arguments())
    assert rel_error(result, form.wanted()[0]) < TOLERANCE[kind]
    assert not report.events
    assert any("one thread's" in record.reason for record in report.found("repaired"))


QUANTISED = """
func.func @main(%q: tensor<?x3x32xf32>, %k: tensor<3x32x3xf32>, %bytes: tensor<3x?xi8>, %factor: tensor<f32>) -> tensor<?x?xf32> {
  %scale = arith.constant 0.125 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %q, %c0 : tensor<?x3x32xf32>
  %width = tensor.dim %bytes, %c1 : tensor<3x?xi8>
  %qe = tensor.empty(%rows) : tensor<32x?x3xf32>
  %qt = linalg.transpose ins(%q : tensor<?x3x32xf32>) outs(%qe : tensor<32x?x3xf32>) permutation = [2, 0, 1]
  %ve = tensor.empty(%width) : tensor<3x?xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(k, n) -> (k, n)>, affine_map<(k, n) -> ()>, affine_map<(k, n) -> (k, n)>], iterator_types = ["parallel", "parallel"]} ins(%bytes, %factor : tensor<3x?xi8>, tensor<f32>) outs(%ve : tensor<3x?xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %f = arith.sitofp %a : i8 to f32
    %p = arith.mulf %f, %b : f32
    linalg.yield %p : f32
  } -> tensor<3x?xf32>
  %e = tensor.empty(%rows, %width) : tensor<?x?xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, d, e, k, n) -> (d, m, e)>, affine_map<(m, d, e, k, n) -> (k, d, e)>, affine_map<(m, d, e, k, n) -> (k, n)>, affine_map<(m, d, e, k, n) -> ()>, affine_map<(m, d, e, k, n) -> (m, n)>]> ins(%qt, %k, %v, %scale : tensor<32x?x3xf32>, tensor<3x32x3xf32>, tensor<3x?xf32>, f32) outs(%e : tensor<?x?xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(("rows", "width"), [(1, 32), (5, 24)])
def test_transposed_queries_of_unknown_sizes(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    q, k = (rng.standard_normal(shape, np.float32) for shape in ((rows, 3, 32), (3, 32, 3)))
    v, factor = rng.integers(-9, 9, (3, width)).astype(np.int8), np.array(0.25, np.float32)
    flags = [*CUDA, "--compile-to=executable-configurations"]
    compiled = attnpass.compile_str(QUANTISED, extra_args=flags)
    assert compiled is not None
    (got,) = run_gpu_module(lower(compiled.decode()), [q, k, v, factor])
    scores = np.einsum("med,kde->mk", q.astype(np.float64), k) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got, weights @ (v * 0.25)) < TOLERANCE["f32"]
