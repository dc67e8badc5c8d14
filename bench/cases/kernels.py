"""The precompiled attention kernels inside IREE modules on a Hopper GPU: checked and timed.

`compile` writes a .vmfb for each case and for each number of repeats. `run` compares every
case with attention in float64 on the same rounded inputs, and times the large ones beside
PyTorch's FlashAttention and cuDNN in the same process. Inside IREE a dispatch is timed as the
slope between modules that repeat it few and many times, so that calling costs drop out.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.attention import V_T, K, Operand, V, fresh_attention
from bench.attention_case import Case, listed_cases, reference
from bench.device import gpu, load, to_iree, to_torch, torch_type
from bench.results import Row, row
from bench.timing import backends, captured, ms, slopes

FEW, MANY = 4, 24
# Short kernels are repeated more often, so that the difference is well above a call's jitter.
MANY_SHORT = 404
# The length of the products that make V, where something does.
PROJECTED = 256
DEVICE = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")


def cases() -> list[Case]:
    return listed_cases(Path(__file__).with_suffix(".txt"))


def many(case: Case) -> int:
    """How often the longer of two calls repeats a case."""
    short = case.flops < 4e10 and case.bytes < 2e8
    return MANY_SHORT if short else MANY


def module_text(case: Case) -> str:
    """`main(q, k, v)`: attention as the passes see it."""
    b, g, m, n, d = case.heads, case.group, case.rows, case.keys, case.head
    c = case.columns
    few = case.is_decode or case.latent
    dynamic = "" if not case.dynamic else "bn" if few else "bgmn"
    if case.dynamic and not few and case.values.startswith("f8") and case.keys % 16 == 0:
        dynamic = "bgm"  # kernels for 8 bits want to know the keys
    named = zip("bgmn", (b, g, m, n), strict=True)
    bs, gs, ms, ns = ("?" if dim in dynamic else str(size) for dim, size in named)
    transposed = case.layout == "transposed"
    q = f"tensor<{bs}x{gs}x{ms}x{d}x{case.dtype}>"
    k = f"tensor<{bs}x{ns}x{d}x{case.kept}>"
    v = f"tensor<{bs}x{f'{c}x{ns}' if transposed else f'{ns}x{c}'}x{case.values}>"
    o = f"tensor<{bs}x{gs}x{ms}x{c}x{case.output}>"
    mask, argument = "", ""
    read = [("%k", k, K), ("%v", v, V_T if transposed else V), ("%scale", "f32", "")]
    value_argument, project = f", %v: {v}", ""
    if case.projected:
        value_argument, project = _projection(case, v)
    if case.latent:
        value_argument, project = "", _slice(case, k, v)
    if case.mask:
        shape = "x".join(
            dict(zip("bgmn", (bs, gs, ms, ns), strict=True))[x] for x in case.mask_dims
        )
        given = "i8" if case.mask == "i1" else case.mask
        argument = f", %given: tensor<{shape}x{given}>"
        name = "%mask" if case.mask == "i1" else "%given"
        dims = ", ".join(case.mask_dims).replace("n", "k2")
        read.append((name, f"tensor<{shape}x{case.mask}>", dims))
        if case.mask == "i1":
            mask = f"""
  %mask = arith.trunci %given : tensor<{shape}xi8> to tensor<{shape}xi1>"""
    if case.causal:
        seen = "%ahead"
        window = ""
        if case.behind:
            seen = "%seen"
            window = f"""
    %behind = arith.constant {case.behind} : index
    %last = arith.addi %j, %behind : index
    %near = arith.cmpi sge, %last, %i : index
    %seen = arith.andi %ahead, %near : i1"""
        kind = f"tensor<{ms}x{ns}xi1>"
        read.append(("%mask", kind, "m, k2"))
        mask = f"""
  %blank = tensor.empty({", ".join(f"%{dim}" for dim in dynamic if dim in "mn")}) : {kind}
  %mask = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} outs(%blank : {kind}) {{
  ^bb0(%out: i1):
    %row = linalg.index 0 : index
    %shift = arith.constant {case.offset} : index
    %i = arith.addi %row, %shift : index
    %j = linalg.index 1 : index
    %ahead = arith.cmpi sge, %i, %j : index{window}
    linalg.yield {seen} : i1
  }} -> {kind}"""
    sizes = ""
    if case.dynamic:
        sizes = f"""
  %b = tensor.dim %q0, %c0 : {q}
  %g = tensor.dim %q0, %c1 : {q}
  %m = tensor.dim %q0, %c2 : {q}
  %n = tensor.dim %k, %c1 : {k}"""
    cap = ""
    if case.cap:
        cap = f"""
    %c = arith.constant {case.cap:.9e} : f32
    %ss = arith.divf %s, %c : f32
    %st = math.tanh %ss : f32
    %sc = arith.mulf %st, %c : f32"""
    if case.sink:
        argument += f", %sink: tensor<{bs}x{gs}xf32>"
    made = partial(_sink_attention, case) if case.sink else fresh_attention
    body = "".join(
        made(
            f"%q{step + 1}",
            [(f"%q{step}", q, "b, g, m, k1"), *read],
            o,
            ", ".join(f"%{dim}" for dim in dynamic if dim != "n"),
            written="b, g, m, n",
            dims="b, g, m, n, k1, k2",
            body=cap,
            score="%sc" if case.cap else "%s",
        )
        for step in range(case.steps)
    )
    return f"""func.func @main(%q0: {q}, %k: {k}{value_argument}{argument}) -> {o} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %scale = arith.constant {case.head**-0.5:.9e} : f32{sizes}{mask}{project}{body}
  return %q{case.steps} : {o}
}}
"""


def _projection(case: Case, v: str) -> tuple[str, str]:
    """Arguments and text that make V: x (keys, 256) by w (256, heads * head)."""
    heads, keys, head, kind = case.heads, case.keys, case.head, case.values
    x, w = f"tensor<{keys}x{PROJECTED}xf16>", f"tensor<{PROJECTED}x{heads * head}xf16>"
    wide, narrow = (f"tensor<{keys}x{heads * head}x{of}>" for of in ("f32", kind))
    apart = f"tensor<{keys}x{heads}x{head}x{kind}>"
    return (
        f", %left: {x}, %right: {w}",
        f"""
  %zero = arith.constant 0.0 : f32
  %p0 = tensor.empty() : {wide}
  %p1 = linalg.fill ins(%zero : f32) outs(%p0 : {wide}) -> {wide}
  %p2 = linalg.matmul ins(%left, %right : {x}, {w}) outs(%p1 : {wide}) -> {wide}
  %p3 = tensor.empty() : {narrow}
  %p4 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%p2 : {wide}) outs(%p3 : {narrow}) {{
  ^bb0(%p5: f32, %p6: {kind}):
    %p7 = arith.truncf %p5 : f32 to {kind}
    linalg.yield %p7 : {kind}
  }} -> {narrow}
  %p8 = tensor.expand_shape %p4 [[0], [1, 2]] output_shape [{keys}, {heads}, {head}]
      : {narrow} into {apart}
  %p9 = tensor.empty() : {v}
  %v = linalg.transpose ins(%p8 : {apart}) outs(%p9 : {v}) permutation = [1, 0, 2]""",
    )


def _sink_attention(
    case: Case,
    result: str,
    inputs: Sequence[Operand],
    kind: str,
    sizes: str,
    *,
    dims: str,
    **_: str,
) -> str:
    """`fresh_attention` with %sink, as attn-raise writes it."""
    wide = re.sub(r"x[a-z]+\d+>", "xf32>", kind)
    rows = re.sub(r"x\d+xf32>", "xf32>", wide)
    every, row, head = (
        f"affine_map<(b, g, m, n) -> ({read})>" for read in ("b, g, m, n", "b, g, m", "b, g")
    )
    of_rows = [text.replace("g, m, n)", "g, m)", 1) for text in (row, head)]
    order = [read for *_, read in inputs] + ["b, g, m, n", *["b, g, m"] * 2]
    maps = ", ".join(f"affine_map<({dims}) -> ({read})>" for read in order)
    names, kinds = (", ".join(one[place] for one in inputs) for place in (0, 1))
    loops = 'iterator_types = ["parallel", "parallel", "parallel"'
    narrow = case.output != "f32"
    return f"""
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %log = arith.constant 1.44269502 : f32
  %eo = tensor.empty({sizes}) : {wide}
  %er = tensor.empty({sizes}) : {rows}
  %out0 = linalg.fill ins(%zero : f32) outs(%eo : {wide}) -> {wide}
  %most0 = linalg.fill ins(%lowest : f32) outs(%er : {rows}) -> {rows}
  %sum0 = linalg.fill ins(%zero : f32) outs(%er : {rows}) -> {rows}
  %r:3 = iree_linalg_ext.online_attention <indexing_maps = [{maps}]>
      ins({names} : {kinds}) outs(%out0, %most0, %sum0 : {wide}, {rows}, {rows}) {{
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  }} -> {wide}, {rows}, {rows}
  %total = linalg.generic {{indexing_maps = [{of_rows[0]}, {of_rows[0]}, {of_rows[1]},
      {of_rows[0]}], {loops}]}} ins(%r#1, %r#2, %sink : {rows}, {rows}, tensor<{_heads_type(kind)}>)
      outs(%er : {rows}) {{
  ^bb0(%m0: f32, %l: f32, %s: f32, %o: f32):
    %a0 = arith.mulf %s, %log : f32
    %a1 = arith.subf %a0, %m0 : f32
    %a2 = math.exp2 %a1 : f32
    %a3 = arith.addf %l, %a2 : f32
    linalg.yield %a3 : f32
  }} -> {rows}
  %en = tensor.empty({sizes}) : {kind}
  {result} = linalg.generic {{indexing_maps = [{every}, {row}, {every}], {loops}, "parallel"]}}
      ins(%r#0, %total : {wide}, {rows}) outs(%en : {kind}) {{
  ^bb0(%x: f32, %l: f32, %o: {case.output}):
    %y = arith.divf %x, %l : f32
    {f"%z = arith.truncf %y : f32 to {case.output}" if narrow else ""}
    linalg.yield {"%z" if narrow else "%y"} : {case.output}
  }} -> {kind}"""


def _heads_type(kind: str) -> str:
    """Of a tensor of the numbers of heads in `kind`."""
    return "x".join([*kind.removeprefix("tensor<").split("x")[:2], "f32"])


def _slice(case: Case, k: str, v: str) -> str:
    """Text that makes V of the first columns of K."""
    batch, keys = ("%b", "%n") if case.dynamic else (case.heads, case.keys)
    return f"""
  %v = tensor.extract_slice %k[0, 0, 0] [{batch}, {keys}, {case.columns}] [1, 1, 1] : {k} to {v}"""


def settings(case: Case) -> dict[str, Any]:
    return asdict(case)


def compile(folder: Path, wanted: list[Case], _: argparse.Namespace) -> None:
    """Writes the .vmfb files; stops at the first case that does not compile."""
    names = folder / "kernels.json"
    taken = json.loads(names.read_text()) if names.exists() else {}
    for case in wanted:
        source = folder / "source.mlir"
        source.write_text(module_text(case))
        if not case.own:
            passes = ["--attn-propagate-layout=target=sm_90"] if case.projected else []
            passes += ["--attn-use-kernels=target=sm_90 mode=always"]
            passes[-1] += " elsewhere=iree" if case.elsewhere else ""
            passes[-1] += f" kernel={case.forced}" if case.forced else ""
            command = [sys.executable, "-m", "attnpass.cli.attn_opt", str(source), *passes]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            beside = "iree_linalg_ext.attention" in text
            if "hal.dispatch.extern" not in text or beside != bool(case.elsewhere):
                raise SystemExit(f"{case.name}: no kernel was taken")
            taken[case.name] = re.findall(r'hal.dispatch.extern "(\w+)"', text)[0]
            names.write_text(json.dumps(taken, indent=1))
            if case.elsewhere == "older":  # look for another device than there is
                text = text.replace("constant 9 : i32", "constant 8 : i32")
            source.write_text(text)
        for repeats in (FEW, many(case)) if case.timed else (1,):
            _compile(source, folder / f"{case.name}.{repeats}.vmfb", repeats, case)
        print(case.name, flush=True)
        source.unlink()


def _compile(source: Path, target: Path, repeats: int, case: Case) -> None:
    flags = [*DEVICE, f"--iree-hal-benchmark-dispatch-repeat-count={repeats}"]
    tool = [str(Path(sys.executable).with_name("iree-compile"))]
    casts = case.projected or case.is_narrow
    if case.configured or casts:
        tool = [sys.executable, "-m", "attnpass.cli.attn_compile", "--attn-target=sm_90"]
        tool += ["--attn-kernels=never", "--attn-products=never"]
    if casts:  # of 8 bits want the attnpass pass, and an architecture that has them
        flags += ["--iree-cuda-target=sm_90", "--attn-pipeline=attn-hardware-exp2"]
    subprocess.run([*tool, str(source), *flags, "-o", str(target)], check=True, timeout=300)


def run(
    folder: Path, case: Case, options: argparse.Namespace, beside: Sequence[str] = ("FA2", "cuDNN")
) -> Iterator[Row]:
    """A row of the kernel (or of IREE's code, where that is left to do it), and of its peers: of
    PyTorch's kernels those `beside`."""
    import torch

    if options.numbers and case.timed:
        return
    config = gpu()
    taken = json.loads((folder / "kernels.json").read_text())
    q, k, v = _inputs(case)
    mask = _mask(case)
    transposed = v.transpose(1, 2).contiguous() if case.layout == "transposed" else v
    given = [q, k, transposed]
    if case.latent:
        given = [q, k]
    if case.projected:
        x, w = _factors(case)
        given[2:], v = [x, w], _projected(case, x, w)
    device = [to_iree(config.device, tensor) for tensor in given]
    if mask is not None:
        device.append(to_iree(config.device, mask.to(torch.uint8) if case.mask == "i1" else mask))
    sinks = _sinks(case)
    if sinks is not None:
        device.append(to_iree(config.device, sinks))
    full = _full_mask(case, mask)
    wanted = reference(case, q, k, v, full, _heads(case), sinks=sinks)
    names = (FEW, many(case)) if case.timed else (1,)
    start = time.perf_counter()
    functions = {
        count: load(config, folder / f"{case.name}.{count}.vmfb")["main"] for count in names
    }
    output = functions[names[0]](*device)
    found: dict[str, Any] = {"first_call_ms": ms(time.perf_counter() - start, 1)}
    found |= {"kernel": taken[case.name]} if case.name in taken else {}
    kind = torch_type(case.output)
    got = to_torch(output, kind)
    part = got[_heads(case)]
    found["error"] = relative_error(part, wanted)
    seen = torch.isfinite(wanted)
    if not bool(torch.isfinite(part)[seen].all()) or bool(part[~seen].nan_to_num().any()):
        found["failed"] = "not finite, or something where no key is seen"
    # Twice the same answer: a race would show.
    again = to_torch(functions[names[-1]](*device), kind)
    found["same_again"] = bool(torch.equal(got.nan_to_num(), again.nan_to_num()))
    ways: dict[str, Way] = {}
    if case.timed:
        ways["iree"] = Way(case, {n: lambda f=f: f(*device) for n, f in functions.items()})
        with torch.no_grad():
            ways |= _torch_ways(case, q, k, v, full, wanted, sinks, beside)
            able = {name: way.calls for name, way in ways.items() if not way.failed}
            for name, seconds in slopes(able, repeats=7).items():
                ways[name].found.update(_speed(ways[name].case, seconds))
        found |= ways.pop("iree").found
    torch.cuda.empty_cache()
    yield row(case.name, "iree", found)
    for name, way in ways.items():
        yield row(case.name, name, {"failed": way.failed} if way.failed else way.found)


def _inputs(case: Case) -> tuple[Any, Any, Any]:
    """q (heads, group, rows, head), k and v (heads, keys, head), in the case's type."""
    import torch

    torch.manual_seed(len(case.name) + case.rows)
    shapes = [
        (case.heads, case.group, case.rows, case.head),
        (case.heads, case.keys, case.head),
        (case.heads, case.keys, case.columns),
    ]
    types = (case.dtype, case.kept, case.values)
    growth = torch.linspace(0.1, 8, case.keys, device="cuda")[:, None] if case.growing else 1
    sizes = (case.cap / 2 or 1, growth, 1)
    tensors = [
        torch.randn(shape, device="cuda") * size for shape, size in zip(shapes, sizes, strict=True)
    ]
    for tensor in tensors if case.poisoned else []:
        tensor[1::2] = math.nan
    q, k, v = (tensor.to(torch_type(kind)) for tensor, kind in zip(tensors, types, strict=True))
    return q, k, k[..., : case.columns] if case.latent else v


def _factors(case: Case) -> list[Any]:
    """What V is a product of."""
    import torch

    shapes = (case.keys, PROJECTED), (PROJECTED, case.heads * case.head)
    x, w = (torch.randn(shape, device="cuda") for shape in shapes)
    return [x.half(), (w * PROJECTED**-0.5).half()]


def _projected(case: Case, x: Any, w: Any) -> Any:
    """V (heads, keys, head) in its type, of the product in float32."""
    import torch

    kind = torch.float8_e4m3fn if case.values.startswith("f8") else torch.float16
    product = (x.double() @ w.double()).float().to(kind)
    return product.view(case.keys, case.heads, case.head).transpose(0, 1).contiguous()


def _sinks(case: Case) -> Any:
    """Scores (heads, group) that belong to no key: small, and the first and the last far above and
    below all others; None without."""
    import torch

    if not case.sink:
        return None
    found = 3 * torch.randn(case.heads, case.group, device="cuda")
    if not case.timed:
        found[0, 0], found[-1, -1] = 6e4, -6e4
    return found


def _mask(case: Case) -> Any:
    """The mask that is passed in: of its type, in the shape of `mask_dims`; None without one."""
    import torch

    if not case.mask:
        return None
    sizes = dict(zip("bgmn", (case.heads, case.group, case.rows, case.keys), strict=True))
    shape = [sizes[dim] for dim in case.mask_dims]
    seen = torch.rand(shape, device="cuda") < 0.7
    seen[..., 0] = True
    if "m" in case.mask_dims and case.rows > 5 and not case.timed:
        seen[..., 5, :] = False
    if case.mask == "i1":
        return seen
    bias = torch.randn(shape, device="cuda").masked_fill(~seen, -math.inf)
    return bias.to(torch_type(case.mask))


def _full_mask(case: Case, mask: Any) -> Any:
    """A mask with dims (b, g, m, n), some of size one; a window as truth values."""
    import torch

    if case.behind:
        row = torch.arange(case.rows, device="cuda")[:, None] + case.offset
        key = torch.arange(case.keys, device="cuda")[None]
        return ((key <= row) & (key >= row - case.behind))[None, None]
    if mask is None:
        return None
    given = iter(mask.shape)
    return mask.reshape([next(given) if dim in case.mask_dims else 1 for dim in "bgmn"])


def _heads(case: Case) -> list[int]:
    """The heads of K and V that are compared: the first and the last, for long ones of many rows.
    (Of few, errors of two heads differ by 10% from those of all.)"""
    return [0, case.heads - 1] if case.timed and not case.is_decode else list(range(case.heads))


def relative_error(output: Any, wanted: Any) -> float:
    """||output - wanted|| / ||wanted|| in float64; not numbers count as 0."""
    wanted = wanted.nan_to_num()
    return float((output.double().nan_to_num() - wanted).norm() / wanted.norm())


@dataclass(frozen=True)
class Way:
    """A way to compute a case: calls that repeat it as often as their key says, and what was found
    of it; or why there is none."""

    case: Case
    calls: dict[int, Callable[[], Any]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


def _way(case: Case, call: Callable[[], Any], error: float) -> Way:
    return Way(case, {n: captured(call, n) for n in (FEW, many(case))}, {"error": error})


def _speed(case: Case, seconds: float) -> dict[str, float]:
    speed = {"ms": ms(seconds), "TFLOPS": round(case.flops / seconds / 1e12, 1)}
    return speed | ({"GBps": round(case.bytes / seconds / 1e9)} if case.is_decode else {})


def _torch_ways(
    case: Case,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    wanted: Any,
    sinks: Any,
    beside: Sequence[str],
) -> dict[str, Way]:
    """FlashAttention and cuDNN on the same tensors; 8-bit inputs in bf16, which they take."""
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if case.own:
        return {}
    ways: dict[str, Way] = {}
    if case.is_narrow and not case.is_decode and sinks is None and find_spec("cudnn"):
        ways |= _narrow_ways(case, q, k, v, wanted)
    if case.is_narrow:
        q, k, v = (tensor.to(torch.bfloat16) for tensor in (q, k, v))
        mask = mask.to(torch.bfloat16) if case.mask == "f16" else mask
        case = replace(case, dtype="bf16", cache="", value="")  # and twice the bytes
    flat = q.flatten(0, 1)[None]
    pair = k[None], v[None]
    if sinks is not None:
        return _rescaled_ways(case, flat, pair, wanted, sinks)

    if mask is not None:
        mask = mask.expand(case.heads, case.group, case.rows, case.keys).flatten(0, 1)[None]

    def call() -> Any:
        return scaled_dot_product_attention(
            flat, *pair, mask, is_causal=mask is None and case.causal, enable_gqa=case.group > 1
        )

    if case.latent:
        return {"torch_products": _by_products(case, q.flatten(1, 2), k, wanted)}
    if case.cap:
        return _flex_ways(case, flat, pair, wanted)
    names = beside if mask is None else (*beside, "efficient")
    names = ("efficient",) if case.dtype == "f32" else names
    for short, kind in backends(*names).items():
        name = f"torch_{short.lower()}"
        try:
            with sdpa_kernel(kind):
                output = call()[0].unflatten(0, q.shape[:2])
                error = relative_error(output[_heads(case)], wanted)
                ways[name] = _way(case, call, error)
        except RuntimeError as problem:
            ways[name] = Way(case, failed=str(problem)[:200])
    return ways


def _narrow_ways(case: Case, q: Any, k: Any, v: Any, wanted: Any) -> dict[str, Way]:
    """cuDNN's own attention for e4m3, by its frontend: heads behind rows, a result in e4m3."""
    import cudnn
    import torch

    if {case.dtype, case.kept, case.values} != {"f8E4M3FN"} or case.mask or case.behind:
        return {}
    kind, wide = cudnn.data_type.FP8_E4M3, cudnn.data_type.FLOAT
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        handle=handle, io_data_type=kind, intermediate_data_type=wide, compute_data_type=wide
    )

    def placed(tensor: Any) -> Any:
        # Copies know bytes, not every 8-bit type.
        turned = tensor.view(torch.uint8).transpose(0, 1).contiguous()
        return turned.view(torch.float8_e4m3fn)

    def described(tensor: Any, name: str) -> Any:
        rows, heads, head = tensor.shape
        stride = [tensor.numel(), head, heads * head, 1]
        return graph.tensor(name=name, dim=[1, heads, rows, head], stride=stride, data_type=kind)

    given = [placed(one) for one in (q.flatten(0, 1), k, v)]
    described_ones = [described(one, name) for one, name in zip(given, "qkv", strict=True)]
    result = torch.empty_like(given[0])
    one_number = {"dim": [1] * 4, "stride": [1] * 4, "data_type": wide}
    scales = {"descale_s": 1 / 256, "scale_s": 256.0}
    scales |= dict.fromkeys(("descale_q", "descale_k", "descale_v", "scale_o"), 1.0)
    numbers = {name: graph.tensor(name=name, **one_number) for name in scales}
    query, key, value = described_ones
    output, _, *largest = graph.sdpa_fp8(
        q=query, k=key, v=value, **numbers, is_inference=True, attn_scale=case.head**-0.5,
        use_causal_mask=case.causal,
    )  # fmt: skip
    rows, heads, head = result.shape
    output.set_output(True).set_dim([1, heads, rows, head]).set_data_type(kind)
    output.set_stride([result.numel(), head, heads * head, 1])
    for found in largest:
        found.set_output(True).set_dim([1] * 4).set_stride([1] * 4).set_data_type(wide)
    for step in (graph.validate, graph.build_operation_graph):
        step()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    space = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
    tensors = dict(zip(described_ones, given, strict=True)) | {output: result}
    for name, number in scales.items():
        tensors[numbers[name]] = torch.full([1] * 4, number, device="cuda")
    tensors |= {found: torch.zeros([1] * 4, device="cuda") for found in largest}

    def call() -> Any:
        cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
        graph.execute(tensors, space, handle)
        return result

    own = call().view(torch.uint8).transpose(0, 1).contiguous().view(torch.float8_e4m3fn)
    error = relative_error(own.float().unflatten(0, q.shape[:2])[_heads(case)], wanted)
    return {"cudnn_e4m3": _way(case, call, error)}


def _rescaled_ways(case: Case, flat: Any, pair: Any, wanted: Any, sinks: Any) -> dict[str, Way]:
    """Attention without sinks, of repeated K and V, times sigmoid(lse - sink): where there is no
    window."""
    import torch

    if case.behind or case.dtype == "f32":
        return {}
    ops, causal = torch.ops.aten, case.causal
    repeated = [one.repeat_interleave(case.group, 1) for one in pair]

    def by_flash() -> Any:
        return ops._scaled_dot_product_flash_attention(flat, *repeated, 0.0, causal)[:2]

    def by_cudnn() -> Any:
        found = ops._scaled_dot_product_cudnn_attention(flat, *repeated, None, True, 0.0, causal)
        return found[0], found[1].view(flat.shape[:-1])

    def call(attend: Callable[[], Any]) -> Any:
        output, total = attend()
        share = torch.sigmoid(total - sinks.view(1, -1, 1))[..., None]
        return output * share.to(output.dtype)

    ways = {}
    for name, attend in {"torch_fa2": by_flash, "torch_cudnn": by_cudnn}.items():
        whole = partial(call, attend)
        error = relative_error(whole()[0].unflatten(0, sinks.shape)[_heads(case)], wanted)
        ways[name] = _way(case, whole, error)
    return ways


def _by_products(case: Case, q: Any, k: Any, wanted: Any) -> Way:
    """Two products and a softmax, for head dims that PyTorch's kernels lack."""
    import torch

    def call() -> Any:
        scores = torch.bmm(q, k.transpose(1, 2)) * case.head**-0.5
        return torch.bmm(torch.softmax(scores, -1), k[..., : case.columns])

    output = call().unflatten(1, (case.group, case.rows))[_heads(case)]
    return _way(case, call, relative_error(output, wanted))


def _flex_ways(case: Case, flat: Any, pair: Any, wanted: Any) -> dict[str, Way]:
    """FlexAttention, compiled, for soft-caps, which SDPA has not; compiling takes long, so that
    only the plain and causal cases of 4096 and 16384 rows have this."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.mask or case.behind or case.group > 1 or case.rows < 4096:
        return {}

    def capped(score: Any, *_: Any) -> Any:
        return case.cap * torch.tanh(score / case.cap)

    def seen(_b: Any, _h: Any, row: Any, key: Any) -> Any:
        return row >= key

    sizes = (None, None, case.rows, case.keys)
    mask = create_block_mask(seen, *sizes, device="cuda") if case.causal else None
    compiled: Any = torch.compile(flex_attention)

    def call() -> Any:
        return compiled(flat, *pair, score_mod=capped, block_mask=mask)

    try:
        shape = (case.heads, case.group, case.rows, case.head)
        error = relative_error(call()[0].view(shape)[_heads(case)], wanted)
    except Exception as problem:  # where there is no compiler
        return {"torch_flex": Way(case, failed=str(problem)[:200])}
    return {"torch_flex": _way(case, call, error)}
