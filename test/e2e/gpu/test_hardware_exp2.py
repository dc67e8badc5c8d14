"""attn-lower-cuda and CUDA targets, as far as a machine without a GPU can tell: the PTX
that comes out, and the numbers of the fp8 arithmetic on llvm-cpu.

Numbers and times on a GPU: bench/results/cuda_math_h200.json.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    ALL_RUN,
    compile_and_run,
    has_gpu,
    in_turns,
    rel_error,
    renamed,
    run_module,
    symbol,
    thinned,
)
from iree.compiler import ir
from iree.compiler.api import Output, Session, Source

import attnpass
from attnpass.codegen.ptx import Machine
from attnpass.errors import CompileError
from attnpass.gpu.lower_cuda.hardware_math import LoweredKernel
from attnpass.report.records import Report

GPU = has_gpu()
FP8 = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def random_inputs(kind: type) -> list[np.ndarray]:
    """q, k and v of 33 rows and 41 keys."""
    random = np.random.default_rng(3)
    return [random.standard_normal((2, n, 64)).astype(kind) for n in (33, 41, 41)]


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = np.exp(q @ k.transpose(0, 2, 1) / 8.0)
    return scores / scores.sum(-1, keepdims=True) @ v


def attention(kinds: str, rows: str = "128", keys: str = "128", mask: str = "") -> str:
    """2 heads of 64; `kinds` are the element types of Q and K, V, and the result."""
    qk, v, out = kinds.split()
    scale = "f32" if qk.startswith("f8") else qk
    tensors = {
        "q": f"tensor<2x{rows}x64x{qk}>",
        "k": f"tensor<2x{keys}x64x{qk}>",
        "v": f"tensor<2x{keys}x64x{v}>",
    }
    maps = ["(b, m, k1)", "(b, k2, k1)", "(b, k2, n)", "()"]
    if mask:
        tensors["mask"] = f"tensor<{rows}x{keys}x{mask}>"
        maps.append("(m, k2)")
    maps.append("(b, m, n)")
    result = f"tensor<2x{rows}x64x{out}>"
    shown = ", ".join(f"affine_map<(b, m, n, k1, k2) -> {m}>" for m in maps)
    names = ["%q", "%k", "%v", "%scale", *(["%mask"] if mask else [])]
    kinds = [tensors["q"], tensors["k"], tensors["v"], scale, *([tensors["mask"]] if mask else [])]
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in tensors.items())
    dim = f"%c1 = arith.constant 1 : index\n  %d = tensor.dim %q, %c1 : {tensors['q']}"
    return f"""
func.func @main({arguments}) -> {result} {{
  %scale = arith.constant 0.125 : {scale}
  {dim if rows == "?" else ""}
  %e = tensor.empty({"%d" if rows == "?" else ""}) : {result}
  %r = iree_linalg_ext.attention <indexing_maps = [{shown}]>
      ins({", ".join(names)} : {", ".join(kinds)}) outs(%e : {result}) {{
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }} -> {result}
  return %r : {result}
}}
"""


def compile_cuda(text: str, folder: Path, target: str, **kwargs: object) -> tuple[str, Report]:
    """The PTX of every kernel of a module, and the report."""
    report = Report()
    flags = [
        "--iree-hal-target-device=cuda",
        f"--iree-cuda-target={target}",
        f"--iree-hal-dump-executable-binaries-to={folder}",
    ]
    attnpass.compile_str(text, extra_args=flags, report=report, **kwargs)
    return "\n".join(path.read_text() for path in folder.glob("*.ptx")), report


# Types that stand for others: fp8's kernels are held below, those of bf16 are those of f16.
KINDS = ["f16 f16 f16", "bf16 bf16 bf16", "f32 f32 f32", "f8E4M3FN f16 f16"]


@pytest.mark.parametrize("kinds", thinned(KINDS))
def test_exp2_is_one_instruction(kinds: str, tmp_path: Path) -> None:
    text = attention(kinds)
    ours, _ = compile_cuda(text, tmp_path / "ours", "sm_89")
    stock, _ = compile_cuda(text, tmp_path / "stock", "sm_89", hardware_exp2=False)
    assert "ex2.approx" not in stock
    assert "ex2.approx.ftz.f32" in ours
    # The polynomial is gone with it.
    assert len(ours.splitlines()) < len(stock.splitlines())


def said_of(report: Report, words: str) -> set[str]:
    """The functions of a module of whose kernels the report says these words."""
    found = [one for one in report.found("lowered") if words in one.reason]
    return {one.op.function.partition("_dispatch_")[0] for one in found}


def functions_with(ptx: str, *words: str) -> set[str]:
    """The functions of a module that have a kernel with all these words in its PTX."""
    _, *parts = re.split(r"\.entry (\w+)", ptx)
    bodies = zip(parts[::2], parts[1::2], strict=True)
    return {
        name.partition("_dispatch_")[0]
        for name, body in bodies
        if all(word in body for word in words)
    }


def test_shapes_and_masks(tmp_path: Path) -> None:
    shapes = {
        "odd": ("127", "131", "i1"),
        "unknown": ("?", "?", "f16"),
        "one_row": ("1", "256", ""),
    }
    if ALL_RUN:
        shapes |= {"even": ("128", "128", "i1"), "no_mask": ("?", "?", "")}
    texts = [renamed(attention("f16 f16 f16", *shape), name) for name, shape in shapes.items()]
    ptx, report = compile_cuda("".join(texts), tmp_path, "sm_80")
    assert said_of(report, "ex2.approx.ftz.f32") == {*shapes}
    assert functions_with(ptx, "ex2.approx.ftz.f32") == {*shapes}


@pytest.mark.parametrize("kinds", ["f8E4M3FN f8E4M3FN f16", "f8E5M2 f8E5M2 f8E5M2"])
def test_full_fp8_compiles(kinds: str, tmp_path: Path) -> None:
    """Rows that tiles divide, and others: of one type each."""
    word = "e4m3x2" if "E4M3" in kinds else "e5m2x2"
    names = dict(in_turns([("whole", "128"), ("odd", "77")], int(word == "e5m2x2"), 2))
    text = "".join(renamed(attention(kinds, rows, rows), name) for name, rows in names.items())
    ptx, _ = compile_cuda(text, tmp_path / "89", "sm_89")
    instructions = f"cvt.rn.satfinite.{word}.f32", "ex2.approx.ftz.f32"
    assert functions_with(ptx, *instructions) == {*names}
    ptx, report = compile_cuda(text, tmp_path / "80", "sm_80")
    assert "satfinite" not in ptx
    assert said_of(report, "integer arithmetic") == {*names}


def test_fp8_compiles_without_hardware_exp2(tmp_path: Path) -> None:
    text = attention("f8E4M3FN f8E4M3FN f16")
    ptx, _ = compile_cuda(text, tmp_path, "sm_89", hardware_exp2=False)
    assert "cvt.rn.satfinite.e4m3x2.f32" in ptx
    assert "ex2.approx" not in ptx


# `test_in_process` holds sm_90's instructions.
@pytest.mark.parametrize("target", ["sm_90a", "sm_100", *(["sm_90"] if ALL_RUN else [])])
def test_targets_that_iree_does_not_describe(target: str, tmp_path: Path) -> None:
    ptx, report = compile_cuda(attention("f8E4M3FN f8E4M3FN f16"), tmp_path, target)
    assert f".target {target}\n" in ptx
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32" in ptx
    assert f"IREE 3.13 does not describe {target}" in report.notes[0]


def test_kernels_of_sm_90_are_those_of_sm_80(tmp_path: Path) -> None:
    """Described as it is, Hopper gets the same instructions, and so the same numbers."""
    bodies = []
    for target in ("sm_80", "sm_90"):
        ptx, _ = compile_cuda(attention("f16 f16 f16"), tmp_path / target, target, kernels="never")
        # PTX 8.3 and later name the parameter space of kernels.
        bodies.append(ptx[ptx.index(".entry") :].replace("param::entry", "param"))
    assert bodies[0] == bodies[1]


def test_in_process(tmp_path: Path) -> None:
    """The hook alone, on a session of the caller's, describes the target and runs the pass."""
    session = Session()
    flags = (
        "--iree-hal-target-device=cuda",
        "--iree-cuda-target=sm_90",
        f"--iree-hal-dump-executable-binaries-to={tmp_path}",
    )
    session.set_flags(*flags)
    text = attention("f8E4M3FN f8E4M3FN f16").encode() + b"\0"
    for on in (True, False):
        invocation = session.invocation()
        assert invocation.parse_source(Source.wrap_buffer(session, text))
        hook = attnpass.pipeline_hook() if on else attnpass.pipeline_hook("canonicalize")
        if not on:
            with pytest.raises(CompileError):
                hook.execute(invocation)
            continue
        hook.execute(invocation).output_vm_bytecode(Output.open_membuffer())
        (ptx,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
        assert ".target sm_90\n" in ptx
        assert "cvt.rn.satfinite.e4m3x2.f32" in ptx


@pytest.mark.skipif(not GPU, reason="no CUDA device")
@pytest.mark.parametrize("kinds", ["f16 f16 f16", "f32 f32 f32"])
def test_numbers_on_a_gpu(kinds: str) -> None:
    name = kinds.split()[0]
    kind, tolerance = {"f16": (np.float16, 1e-3), "f32": (np.float32, 1e-6)}[name]
    data = attnpass.compile_str(
        attention(kinds, "?", "?"),
        extra_args=["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
    )
    assert data is not None
    q, k, v = random_inputs(kind)
    got = run_module(data, [q, k, v], driver="cuda")
    assert rel_error(got, reference(q, k, v)) < tolerance


def test_a_mask_for_an_unknown_number_of_keys_changes_nothing() -> None:
    text = attention("f32 f32 f32", "?", "?")
    q, k, v = random_inputs(np.float32)
    plain = compile_and_run(text, [q, k, v])
    masked = compile_and_run(
        text, [q, k, v], mode="cost", pipeline="attn-mask-dynamic-keys{target=sm_80}"
    )
    wanted = reference(q, k, v)
    assert rel_error(plain, wanted) < 1e-6
    assert rel_error(masked, wanted) < 1e-6


def casts(source: str, target: str, count: int) -> str:
    name = "truncf" if target.startswith("f8") else "extf"
    return f"""
func.func @main(%x: tensor<{count}x{source}>) -> tensor<{count}x{target}> {{
  %e = tensor.empty() : tensor<{count}x{target}>
  %r = linalg.generic {{iterator_types = ["parallel"],
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>]}}
      ins(%x : tensor<{count}x{source}>) outs(%e : tensor<{count}x{target}>) {{
  ^bb0(%a: {source}, %o: {target}):
    %c = arith.{name} %a : {source} to {target}
    linalg.yield %c : {target}
  }} -> tensor<{count}x{target}>
  return %r : tensor<{count}x{target}>
}}
"""


# What a program may do with fp8 numbers: the types it reads and makes, and the body.
COMPUTED = {
    "sum": ("T T", "T", "%c = arith.addf %a0, %a1 : T"),
    "larger": ("T T", "T", "%p = arith.cmpf ogt, %a0, %a1 : T\n%c = arith.select %p, %a0, %a1 : T"),
    "root": ("T", "T", "%p = math.absf %a0 : T\n%c = math.sqrt %p : T"),
    "from whole": ("i8", "T", "%c = arith.sitofp %a0 : i8 to T"),
    "to whole": ("T", "i8", "%c = arith.fptosi %a0 : T to i8"),
    "of bits": ("i8", "f32", "%p = arith.bitcast %a0 : i8 to T\n%c = arith.extf %p : T to f32"),
}


def computed(name: str, kind: str) -> str:
    given, result, body = (text.replace("T", kind) for text in COMPUTED[name])
    kinds = given.split()
    arguments = [f"%x{i}: tensor<64x{kind}>" for i, kind in enumerate(kinds)]
    scalars = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds))
    values = ", ".join(f"%x{i}" for i in range(len(kinds)))
    types = ", ".join(f"tensor<64x{kind}>" for kind in kinds)
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(kinds) + 1))
    return f"""
func.func @main({", ".join(arguments)}) -> tensor<64x{result}> {{
  %e = tensor.empty() : tensor<64x{result}>
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({values} : {types}) outs(%e : tensor<64x{result}>) {{
  ^bb0({scalars}, %o: {result}):
    {body}
    linalg.yield %c : {result}
  }} -> tensor<64x{result}>
  return %r : tensor<64x{result}>
}}
"""


@cache
def compiled_arithmetic() -> bytes:
    """All programs of 64 and 256 numbers, one function each."""
    texts = {symbol(name, kind): computed(name, kind) for name in COMPUTED for kind in FP8}
    texts |= {symbol(name, wide): casts(name, wide, 256) for name in FP8 for wide in ("f16", "f32")}
    return for_cpu("".join(renamed(text, name) for name, text in texts.items()))


def for_cpu(text: str) -> bytes:
    """What a machine without fp8 instructions runs, for llvm-cpu."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        kernel = LoweredKernel(Machine(80, 76))
        kernel.rewrite(module.operation)
        assert not kernel.kept
        text = str(module)
    assert not re.search(r"(arith|math)\.(?!bitcast|select|constant).*f8E", text)
    data = attnpass.compile_str(
        text,
        extra_args=[
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=generic",
        ],
    )
    assert data is not None
    return data


@pytest.mark.parametrize("name", FP8)
def test_narrowing_rounds_as_ml_dtypes(name: str) -> None:
    """Every f16 number and, around each rounding border, the nearest f32 numbers."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    codes = np.arange(256, dtype=np.uint8).view(FP8[name]).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    borders = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(borders, np.float32(side)) for side in (-np.inf, np.inf)]
    tiny = np.array([1e-38, -1e-45, 3.4e38, -3.4e38, 464, 465, 61439.99, 61440, 65535], np.float32)
    given = np.concatenate([halves, borders, *near, tiny]).astype(np.float32)
    got = run_module(for_cpu(casts("f32", name, given.size)), [given]).view(FP8[name])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = given.astype(FP8[name])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(got[number].view(np.uint8), wanted[number].view(np.uint8))


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("wide", ["f16", "f32"])
def test_widening_is_exact(name: str, wide: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    got = run_module(compiled_arithmetic(), [codes.view(FP8[name])], symbol(name, wide))
    wanted = codes.view(FP8[name]).astype(got.dtype)
    np.testing.assert_array_equal(got, wanted)
    assert np.array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("kind", FP8)
@pytest.mark.parametrize("name", COMPUTED)
def test_arithmetic_on_fp8(name: str, kind: str) -> None:
    """Each op rounds once, as numpy's does that computes in f32."""
    random, small = np.random.default_rng(0), FP8[kind]
    whole = random.integers(-100, 100, 64).astype(np.int8)
    x, y = (random.uniform(-100, 100, 64).astype(small) for _ in range(2))
    inputs, wanted = {
        "sum": ([x, y], (x.astype(np.float32) + y.astype(np.float32)).astype(small)),
        "larger": ([x, y], np.maximum(x, y)),
        "root": ([x], np.sqrt(np.abs(x.astype(np.float32))).astype(small)),
        "from whole": ([whole], whole.astype(np.float32).astype(small)),
        "to whole": ([x], x.astype(np.float32).astype(np.int8)),
        "of bits": ([x.view(np.int8)], x.astype(np.float32)),
    }[name]
    got = run_module(compiled_arithmetic(), inputs, symbol(name, kind))
    got = got.view(small) if wanted.dtype == small else got
    np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
