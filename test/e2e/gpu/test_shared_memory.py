"""attn-lower-cuda without a GPU: the numbers of rewritten kernels, in an interpreter of
lowered kernels that sees races, and the instructions in the PTX.

Numbers and times on a GPU: bench/cases/configure.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from attention_case import SCALE, SCORES, TOLERANCE, Case
from gpu_interpreter import TYPES, Race, run_kernel
from helpers import ALL_RUN, rel_error, thinned
from iree.compiler import ir

import attnpass
from attnpass.codegen.kernel import run_passes
from attnpass.ir import DYNAMIC, collect, defining_op
from attnpass.pipeline import default_pipeline
from attnpass.report.text import sentences

BEFORE = default_pipeline("cost", configure=True, hardware_exp2=True, shared_memory=False)
TILES = "lowering_config"
AHEAD = "fetches the tiles of 1 loop(s) ahead"
# Enough heads for the kernel tiles.
HEADS = 40
PLAIN = Case(HEADS, 128, 192, 64, "f16")


@dataclass(frozen=True)
class Form:
    """An attention, what the report says of its kernel, and what the kernel is called with where
    only its caller knows the keys: where V starts, how many keys and how many tiles of them."""

    case: Case
    said: str = AHEAD
    numbers: tuple[int, ...] = ()


FORMS = {
    "f16": Form(PLAIN),
    "bf16, V^T": Form(Case(HEADS, 128, 96, 128, "bf16", transposed="v")),
    "mask": Form(Case(HEADS, 128, 96, 128, "f16", "i1")),
    "mask of keys": Form(Case(HEADS, 128, 96, 128, "f16", "i1", masked="bk")),
    "added mask, odd rows": Form(Case(HEADS, 90, 128, 64, "bf16", "f32")),
    "six warps": Form(Case(HEADS, 96, 96, 96, "f16", transposed="v")),
    "head dim 256": Form(Case(HEADS, 128, 64, 256, "bf16")),
    "head dim 512": Form(Case(HEADS, 64, 64, 512, "f16"), "reads 128 fragment(s) in each step"),
    "head dim 1024": Form(Case(HEADS, 40, 32, 1024, "f16"), "reads 256 fragment(s) in each step"),
    "head dim 192, odd rows": Form(Case(HEADS, 200, 64, 192, "f16"), "drops 6 mask(s) of rows"),
    "soft-cap": Form(Case(HEADS, 128, 96, 128, "f16", score="cap")),
    "odd keys": Form(Case(HEADS, 128, 77, 64, "f16")),
    "unknown keys": Form(Case(HEADS, 128, 61, 64, "f16", dynamic="k"), numbers=(0, 150, 3)),
    "few rows, split": Form(Case(2, 8, 512, 128, "f16"), "reads 160 fragment(s) with ldmatrix"),
}


@dataclass(frozen=True)
class Projection:
    """A product of two matrices, and what its tile is: maps of (b, i, j, k) to its factors and
    its result; the sizes of these; numbers that are added to each `j`; the type of all, and what
    the result is rounded to instead."""

    factors: tuple[str, str]
    result: str
    sizes: tuple[int, int, int, int]
    kind: str = "f16"
    bias: bool = False
    narrow: str = ""

    def text(self) -> str:
        """With attention beside it, without which nothing is configured."""
        sizes = dict(zip("bijk", self.sizes, strict=True))
        dims = [d for d in "bijk" if d in self.result + "k"]
        maps, types = [], []
        for letters in (*self.factors, self.result, "j"):
            loops = dims if len(maps) < 3 else dims[:-1]
            shape = "x".join(str(sizes[d]) for d in letters)
            maps.append(f"affine_map<({', '.join(loops)}) -> ({', '.join(letters)})>")
            kind = self.narrow if letters == self.result and self.narrow else self.kind
            types.append(f"tensor<{shape}x{kind}>")
        place = maps[2].replace(", k)", ")", 1)
        left, right, result, added = types
        kind = self.narrow or self.kind
        wide = result.replace(kind, "f32")
        loops = ", ".join(['"parallel"'] * len(self.result))
        return f"""
#left = {maps[0]}
#right = {maps[1]}
#result = {maps[2]}
#added = {maps[3]}
#place = {place}
{Case(1, 16, 16, 16, "f32").text("main")}
func.func @projection(%l: {left}, %r: {right}, %c: {added}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : {wide}
  %start = linalg.fill ins(%zero : f32) outs(%none : {wide}) -> {wide}
  %sum = linalg.contract indexing_maps = [#left, #right, #result]
      ins(%l, %r : {left}, {right}) outs(%start : {wide}) -> {wide}
  %e = tensor.empty() : {result}
  %p = linalg.generic {{indexing_maps = [#place, #added, #place], iterator_types = [{loops}]}}
      ins(%sum, %c : {wide}, {added}) outs(%e : {result}) {{
  ^bb0(%a: f32, %b: {self.kind}, %o: {kind}):
    %t = arith.truncf %a : f32 to {kind}
    {f"%u = arith.addf %t, %b : {kind}" if self.bias else ""}
    linalg.yield {"%u" if self.bias else "%t"} : {kind}
  }} -> {result}
  return %p : {result}
}}
"""

    def wanted(self, given: Sequence[np.ndarray]) -> np.ndarray:
        """What the kernel shall compute of what it reads, in float64."""
        left, right, *bias = (array.astype(np.float64) for array in given)
        total = np.einsum(f"{','.join(self.factors)}->{self.result}", left, right)
        return total + bias[0] if bias else total


# As V^T is written, with more steps than buffers and with fewer; V as it is; each tile.
PROJECTIONS = {
    "V^T": Projection(("ki", "jk"), "ij", (1, 1024, 3072, 256)),
    "V^T, 32 deep": Projection(("ki", "bjk"), "bij", (2, 1024, 1024, 96)),
    "row-major, bias": Projection(("ik", "kj"), "ij", (1, 4096, 1024, 128), "bf16", bias=True),
    "rounded to 8 bits": Projection(("ki", "jk"), "ij", (1, 1024, 4096, 256), narrow="f8E4M3FN"),
    "128 x 128": Projection(("ik", "jk"), "ij", (1, 2048, 1408, 192)),
    "64 x 64": Projection(("ki", "jk"), "ij", (1, 128, 768, 192)),
}


def lowered(case: Case | Projection, folder: Path) -> str:
    """The module with its lowered kernels, as attn-compile makes it but for this pass."""
    path = folder / "lowered.mlir"
    narrow = isinstance(case, Projection) and case.narrow
    attnpass.compile_str(
        case.text("main") if isinstance(case, Case) else case.text(),
        pipeline=BEFORE,
        output_file=str(path),
        extra_args=[
            "--iree-hal-target-device=cuda",
            f"--iree-cuda-target={'sm_90' if narrow else 'sm_80'}",
            "--compile-to=executable-configurations",
        ],
    )
    return path.read_text()


def parsed(text: str) -> ir.Module:
    """A lowered module, before the pass."""
    context = ir.Context()
    context.load_all_available_dialects()
    return ir.Module.parse(text, context)


def rewritten(text: str) -> tuple[ir.Module, list[str]]:
    """A lowered module after the pass, and what that said."""
    module = parsed(text)
    return module, sentences(attnpass.run(module, "attn-shared-memory"))


class Kernel:
    """The one kernel of a module that has tensor-core products."""

    def __init__(self, module: ir.Module, numbers: Sequence[int] = ()):
        (self.function,) = (
            function
            for function in collect(module.operation, lambda op: op.name == "func.func")
            if collect(function, lambda op: op.name == "nvgpu.mma.sync")
        )
        # A module ends with the last handle to it.
        self.module, self.numbers = module, numbers

    def run(self, workgroups: Sequence[int] = (-1,)) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What it reads, random numbers, and what it writes, NaN where it writes nothing."""
        random = np.random.default_rng(1)
        spans = collect(self.function, lambda op: op.name == "hal.interface.binding.subspan")
        written = self._written()
        arrays = []
        for op in spans:
            kind = op.results[0].type
            shape = [self.numbers[-1] if size == DYNAMIC else size for size in kind.shape]
            array = random.standard_normal(shape).astype(np.float32)
            if isinstance(kind.element_type, ir.IntegerType):
                array = array > -0.5
            elif op in written:
                array[...] = np.nan
            arrays.append(array.astype(TYPES[str(kind.element_type)]))
        info = str(self.function.attributes["translation_info"])
        (threads,) = re.findall(r"workgroup_size = \[(\d+), 1, 1\]", info)
        # Each number is passed as two halves. Where V starts does not matter here.
        constants = [half for number in self.numbers for half in (number, 0)]
        run_kernel(self.function, arrays, int(threads), workgroups, constants)
        pairs = list(zip(spans, arrays, strict=True))
        given = [array for op, array in pairs if op not in written]
        return given, [array for op, array in pairs if op in written]

    def _written(self) -> set[ir.Operation]:
        found = set()
        for write in collect(self.function, lambda op: op.name == "vector.transfer_write"):
            op = defining_op(write.operands[1])
            if op is not None and op.name == "memref.assume_alignment":
                found.add(defining_op(op.operands[0]))
        return found


def wanted(case: Case, given: Sequence[np.ndarray], keys: int | None = None) -> np.ndarray:
    """What a kernel shall compute of what it reads, in float64; of so many keys, None: all."""
    # A mask may be bound in front of Q, K and V, and has another type.
    kinds = [TYPES[case.kind] == array.dtype for array in given]
    q, k, v = (x.astype(np.float64) for x, own in zip(given, kinds, strict=True) if own)
    masks = [x for x, own in zip(given, kinds, strict=True) if not own]
    if "v" in case.transposed:
        v = v.swapaxes(-1, -2)
    if case.dynamic:
        k, v = (array.reshape(len(q), -1, case.head)[:, :keys] for array in (k, v))
    elif case.masked == "bk":
        masks = [mask[:, None] for mask in masks]
    elif k.ndim > q.ndim:
        # Each part of the keys for itself.
        q = q[:, None]
    scores = q @ k.swapaxes(-1, -2) * SCALE
    if case.score:
        scores = SCORES[case.score][1](scores, 0, 0, 0)
    for mask in masks:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.int8 else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# What the others hold but for one word: all of them with ATTNPASS_EXAMPLES.
SOME = ("mask", "added mask, odd rows", "head dim 1024", "soft-cap", "unknown keys")


@pytest.mark.parametrize("name", FORMS if ALL_RUN else SOME)
def test_numbers_stay_the_same(name: str, tmp_path: Path) -> None:
    """To the last bit, and right: in the last workgroup."""
    form = FORMS[name]
    text = lowered(form.case, tmp_path)
    given, before = Kernel(parsed(text), form.numbers).run()
    module, notes = rewritten(text)
    assert form.said in " ".join(notes)
    after = Kernel(module, form.numbers).run()[1]
    for old, new in zip(before, after, strict=True):
        assert old.tobytes() == new.tobytes()
    result = after[0].astype(np.float64)
    if len(after) > 1:
        # Partial attention comes with its maximum and its sum.
        result /= after[2][..., None]
    done = ~np.isnan(result)
    assert done.any()
    keys = form.numbers[1] if form.numbers else None
    right = wanted(form.case, given, keys)
    assert rel_error(result[done], right[done]) < TOLERANCE[form.case.kind]


@pytest.mark.parametrize("name", thinned(PROJECTIONS))
def test_projections(name: str, tmp_path: Path) -> None:
    """To the last bit, and right, in the last workgroup; IREE's own lowering stands beside."""
    form = PROJECTIONS[name]
    module, notes = rewritten(text := lowered(form, tmp_path))
    assert AHEAD in " ".join(notes) and "orders the steps of 1 loop(s)" in " ".join(notes)
    given, (after,) = Kernel(module).run()
    before = parsed(text)
    with before.context:
        for function in collect(before.operation, lambda op: op.name == "func.func"):
            if collect(function, lambda op: "mma_kind" in str(op.attributes.get(TILES, ""))):
                assert not run_passes(function, "iree-llvmgpu-lower-executable-target")
    assert after.tobytes() == Kernel(before).run()[1][0].tobytes()
    result = after.astype(np.float64)
    done = ~np.isnan(result)
    assert rel_error(result[done], form.wanted(given)[done]) < TOLERANCE[form.narrow or form.kind]


def test_the_order_of_a_step(tmp_path: Path) -> None:
    """Products begin before all copies are started."""
    module, notes = rewritten(lowered(PROJECTIONS["V^T"], tmp_path))
    (loop,) = collect(Kernel(module).function, lambda op: op.name == "scf.for")
    names = [op.name for op in collect(loop, lambda op: op.name.startswith("nvgpu."))]
    assert "nvgpu.device_async_copy" in names[names.index("nvgpu.mma.sync") :]
    assert "orders the steps" in " ".join(notes)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return lowered(PLAIN, tmp_path_factory.mktemp("plain"))


def test_workgroups_follow_each_other(plain: str) -> None:
    """Nothing of one workgroup is left over in the next one."""
    module, _ = rewritten(plain)
    given, (got,) = Kernel(module).run((0, 1))
    assert rel_error(got[:2], wanted(PLAIN, given)[:2]) < TOLERANCE["f16"]


def test_buffers_that_do_not_start_at_16_bytes(plain: str) -> None:
    """One of 6 bytes in front of the others: ldmatrix and wide copies could not read them."""
    at = plain.index("%alloc = memref.alloc")
    kind = "memref<3xf16, #gpu.address_space<workgroup>>"
    odd = f"""%odd = memref.alloc() : {kind}
      %first = arith.constant 0 : index
      %zero = arith.constant dense<0.0> : vector<1xf16>
      vector.transfer_write %zero, %odd[%first] {{in_bounds = [true]}} : vector<1xf16>, {kind}
    """
    module, notes = rewritten(plain[:at] + odd + plain[at:])
    assert "not all of its shared buffers are multiples of 16 bytes long" in " ".join(notes)
    text = str(module)
    assert "nvgpu.ldmatrix" not in text and "nvgpu.device_async_copy" not in text


@pytest.mark.parametrize("name", ["gpu.barrier", "nvgpu.device_async_wait"])
def test_the_interpreter_sees_what_is_missing(name: str, plain: str) -> None:
    module, _ = rewritten(plain)
    (loop,) = collect(module.operation, lambda op: op.name == "scf.for")
    (missing,) = collect(loop, lambda op: op.name == name)
    missing.erase()
    with pytest.raises(Race):
        Kernel(module).run()


def test_instructions(tmp_path: Path) -> None:
    """What comes out for the GPU: transposing loads for V, none of 2 bytes, wide copies."""
    ptx = {}
    for on in (True, False):
        folder = tmp_path / str(on)
        attnpass.compile_str(
            PLAIN.text("main"),
            shared_memory=on,
            extra_args=[
                "--iree-hal-target-device=cuda",
                "--iree-cuda-target=sm_80",
                f"--iree-hal-dump-executable-binaries-to={folder}",
            ],
        )
        (ptx[on],) = (path.read_text() for path in folder.glob("*.ptx"))
    assert "ld.shared.b16" in ptx[False] and "ldmatrix" not in ptx[False]
    assert "ld.shared" not in ptx[True]
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx[True]
    assert "cp.async.cg.shared.global" in ptx[True]
    assert "st.shared.v4.b32" in ptx[True]
