"""Checks and times attn-hardware-exp2 and `--iree-cuda-target=sm_90` on a Hopper GPU.

    python tools/check_cuda_math.py compile build/math           (needs attnpass; no GPU)
    python tools/check_cuda_math.py run build/math --json tools/results/cuda_math_h200.json
                                        (needs a GPU, torch and iree-base-runtime only)

Each case is one attention, compiled in some of these variants: by iree-compile as it is
("stock"), by attn-compile with IREE's own kernel ("off"),
with the pass ("on"), and with the pass for a target of its own ("sm_90"; "sm_80", where fp8
casts are integer arithmetic). Two whole models, a Llama layer and its decode step, run in all
of them. The error is the relative L2 distance to attention in float64
on the same rounded inputs. A dispatch is timed as the slope between modules that repeat it
few and many times, so that calling costs drop out. Casts are compared bit by bit with
ml_dtypes, on every f16 number and around every rounding border.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import make_llama_layer
from iree_device import load, to_iree, to_torch

FEW, MANY = 4, 24
F16 = ("f16", "f16", "f16")
BF16 = ("bf16", "bf16", "bf16")
F32 = ("f32", "f32", "f32")
FP8 = ("f8E4M3FN", "f8E4M3FN", "f16")
E5M2 = ("f8E5M2", "f8E5M2", "f16")
MIXED = ("f8E4M3FN", "f16", "f16")
# variant -> (target, flags)
VARIANTS = {
    "stock": ("sm_89", ["--attn-disable"]),
    "off": ("sm_89", ["--attn-hardware-exp2=false"]),
    "on": ("sm_89", []),
    "sm_80": ("sm_80", []),
    "sm_90": ("sm_90", []),
}
# The instruction that an 8-bit and a 16-bit kernel takes, and its name in a configuration.
INSTRUCTIONS = {
    "f16": "NV_MMA_SYNC_F32_16x8x16_F16",
    "bf16": "NV_MMA_SYNC_F32_16x8x16_BF16",
    "f8E4M3FN": "NV_MMA_SYNC_F32_16x8x32_F8E4M3FN",
}
CASTS = ("f8E4M3FN", "f8E5M2")
MODELS = ("prefill", "decode")


@dataclass(frozen=True)
class Case:
    """`types` are the element types of Q and K, of V, and of the result.

    `mask` is "", "i1" (random), "f16" (random, added) or "causal"; `sharp` multiplies Q, so
    that the softmax spans many powers of two; `tuned` takes 128 rows and 64 keys a step with
    the head dim whole, four subgroups, instead of IREE's default tiles.
    """

    types: tuple[str, str, str]
    batch: int = 4
    rows: int = 256
    keys: int = 256
    head: int = 64
    mask: str = ""
    dynamic: bool = False
    transposed: bool = False
    sharp: float = 1.0
    tuned: bool = False
    timed: bool = False
    variants: tuple[str, ...] = ("off", "on", "sm_90")

    @property
    def name(self) -> str:
        words = ["-".join(dict.fromkeys(self.types[:2])), f"{self.batch}x{self.rows}x{self.keys}"]
        words += [f"d{self.head}", *([self.mask] if self.mask else [])]
        words += [word for word in ("dynamic", "transposed", "tuned") if getattr(self, word)]
        return "_".join([*words, *([f"sharp{self.sharp:g}"] if self.sharp != 1 else [])])


def cases() -> list[Case]:
    fp8 = ("on", "sm_80", "sm_90")
    found = [Case(types) for types in (F16, BF16, F32, MIXED)]
    found += [Case(types, variants=fp8) for types in (FP8, E5M2)]
    found += [Case(F16, mask=mask) for mask in ("i1", "f16", "causal")]
    found += [Case(FP8, mask="causal", variants=fp8), Case(BF16, mask="i1")]
    found += [Case(types, rows=257, keys=301) for types in (F16, F32)]
    found += [Case(types, rows=1, keys=1024) for types in (F16, F32)]
    unknown = ("stock", "off", "on", "sm_90")
    found += [Case(F16, rows=200, keys=328, dynamic=True, variants=unknown)]
    found += [Case(F32, rows=200, keys=328, dynamic=True, variants=unknown)]
    found += [Case(FP8, rows=257, keys=301, variants=fp8)]
    found += [Case(FP8, rows=200, keys=328, dynamic=True, variants=("on", "sm_90"))]
    found += [Case(F16, sharp=30.0), Case(F32, sharp=30.0), Case(FP8, sharp=8.0, variants=fp8)]
    both = ("off", "on", "sm_90")
    for head in (128, 64):
        large = {"batch": 32, "rows": 4096, "keys": 4096, "head": head, "timed": True}
        found += [Case(F16, **large, variants=both)]
        found += [Case(F16, **large, tuned=True, variants=both)]
        found += [Case(F16, **large, tuned=True, transposed=True, variants=both)]
    large = {"batch": 32, "rows": 4096, "keys": 4096, "head": 128, "timed": True, "tuned": True}
    for transposed in (False, True):
        found += [Case(BF16, **large, transposed=transposed, variants=("off", "on"))]
        found += [Case(MIXED, **large, transposed=transposed, variants=("off", "on"))]
        found += [Case(FP8, **large, transposed=transposed, variants=("on", "sm_90"))]
    return found


def module_text(case: Case) -> str:
    """`main(q, k, v[, mask])`: attention as the passes see it."""
    b, m, n, d = case.batch, case.rows, case.keys, case.head
    ms, ns = ("?", "?") if case.dynamic else (str(m), str(n))
    qk, kind, out = case.types
    q, k = f"tensor<{b}x{ms}x{d}x{qk}>", f"tensor<{b}x{ns}x{d}x{qk}>"
    v = f"tensor<{b}x{d}x{ns}x{kind}>" if case.transposed else f"tensor<{b}x{ns}x{d}x{kind}>"
    o = f"tensor<{b}x{ms}x{d}x{out}>"
    scale = "f32" if qk.startswith("f8") else qk
    mask = {"": "", "f16": "f16"}.get(case.mask, "i1")
    maps = ["(b, m, k1)", "(b, k2, k1)", "(b, n, k2)" if case.transposed else "(b, k2, n)", "()"]
    maps += [*(["(m, k2)"] if mask else []), "(b, m, n)"]
    shown = ", ".join(f"affine_map<(b, m, n, k1, k2) -> {words}>" for words in maps)
    arguments = f"%q: {q}, %k: {k}, %v: {v}"
    if case.mask in ("i1", "f16"):
        arguments += f", %given: tensor<{ms}x{ns}x{'i8' if case.mask == 'i1' else 'f16'}>"
    sizes = ""
    if case.dynamic:
        sizes = f"%m = tensor.dim %q, %c1 : {q}\n  %n = tensor.dim %k, %c1 : {k}"
    decomposition, information = _configuration(case) if case.tuned else ("", "")
    operands = "%q, %k, %v, %scale" + (", %mask" if mask else "")
    types = f"{q}, {k}, {v}, {scale}" + (f", tensor<{ms}x{ns}x{mask}>" if mask else "")
    return f"""
#both = affine_map<(i, j) -> (i, j)>
func.func @main({arguments}) -> {o} {{
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i8
  %scale = arith.constant {d**-0.5:e} : {scale}
  {sizes}
  {_mask(case, ms, ns)}
  %e = tensor.empty({"%m" if case.dynamic else ""}) : {o}
  %r = iree_linalg_ext.attention <indexing_maps = [{shown}]{decomposition}>{information}
      ins({operands} : {types}) outs(%e : {o}) {{
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }} -> {o}
  return %r : {o}
}}
"""


def _mask(case: Case, rows: str, keys: str) -> str:
    """The ops that make %mask; nothing for none, an alias for a mask that is added."""
    if case.mask in ("", "f16"):
        return (
            "%mask = tensor.cast %given : {0} to {0}".format(f"tensor<{rows}x{keys}xf16>")
            if (case.mask)
            else ""
        )
    kind = f"tensor<{rows}x{keys}xi1>"
    given = f"ins(%given : tensor<{rows}x{keys}xi8>)" if case.mask == "i1" else ""
    maps, arguments = ("[#both, #both]", "%a: i8, ") if given else ("[#both]", "")
    test = "arith.cmpi ne, %a, %zero : i8" if given else "arith.cmpi sge, %i, %j : index"
    return f"""%blank = tensor.empty({"%m, %n" if case.dynamic else ""}) : {kind}
  %mask = linalg.generic {{indexing_maps = {maps}, iterator_types = ["parallel", "parallel"]}}
      {given} outs(%blank : {kind}) {{
  ^bb0({arguments}%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = {test}
    linalg.yield %seen : i1
  }} -> {kind}"""


def _configuration(case: Case) -> tuple[str, str]:
    """Attention's decomposition_config and compilation_info, as text."""
    kinds = [f"#iree_gpu.mma_layout<{INSTRUCTIONS[kind]}>" for kind in case.types[:2]]
    thread = "#iree_gpu.derived_thread_config"
    product = (
        "lowering_config = #iree_gpu.lowering_config<{{mma_kind = {0}, promote_operands = {1}, "
        "promotion_types = [{2}], subgroup_basis = [[1, 4, 1, 1, 1], {3}]}}>"
    )
    first = product.format(kinds[0], [0, 1], f"{thread}, {thread}", [0, 1, 3, 4])
    second = product.format(kinds[1], [1], thread, [0, 1, 2, 4])
    return (
        f", decomposition_config = {{qk_attrs = {{{first}}}, pv_attrs = {{{second}}}}}",
        "{compilation_info = #iree_codegen.compilation_info<lowering_config = "
        f"#iree_gpu.lowering_config<{{promote_operands = [0, 1, 2], promotion_types = "
        f"[{thread}, {thread}, {thread}], reduction = [0, 0, 0, 0, 64], "
        f"workgroup = [1, 128, {case.head}, 0, 0]}}>, translation_info = "
        "#iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> "
        "workgroup_size = [128, 1, 1] subgroup_size = 32, {iree_codegen.denormal_fp_math_f32 = "
        '#iree_codegen.denormal_fp_math<"preserve-sign">}>>}',
    )


def cast_text(source: str, target: str, count: int) -> str:
    """`main(x)`: `count` numbers from one type to another."""
    name = "truncf" if target.startswith("f8") else "extf"
    return f"""
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<{count}x{source}>) -> tensor<{count}x{target}> {{
  %e = tensor.empty() : tensor<{count}x{target}>
  %r = linalg.generic {{indexing_maps = [#i, #i], iterator_types = ["parallel"]}}
      ins(%x : tensor<{count}x{source}>) outs(%e : tensor<{count}x{target}>) {{
  ^bb0(%a: {source}, %o: {target}):
    %c = arith.{name} %a : {source} to {target}
    linalg.yield %c : {target}
  }} -> tensor<{count}x{target}>
  return %r : tensor<{count}x{target}>
}}
"""


def compile_all(folder: Path) -> None:
    """Writes CASE.VARIANT.REPEATS.vmfb, and the casts with what they should give."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source.mlir"
    for case in cases():
        source.write_text(module_text(case))
        for variant in case.variants:
            for repeats in (FEW, MANY) if case.timed else (1,):
                _compile(source, folder / f"{case.name}.{variant}.{repeats}.vmfb", variant, repeats)
        print(case.name, flush=True)
    for name in CASTS:
        given, codes = _cast_data(name)
        given.tofile(folder / f"cast_{name}.given")
        codes.tofile(folder / f"cast_{name}.codes")
        for variant in ("sm_80", "sm_90"):
            source.write_text(cast_text("f32", name, given.size))
            _compile(source, folder / f"cast_{name}.{variant}.vmfb", variant, 1)
            source.write_text(cast_text(name, "f32", 256))
            _compile(source, folder / f"cast_back_{name}.{variant}.vmfb", variant, 1)
    for name in MODELS:
        model = getattr(make_llama_layer, name)()
        source.write_text(model.text)
        save_arrays(folder / f"{name}.npz", model)
        for variant in VARIANTS:
            _compile(source, folder / f"{name}.{variant}.vmfb", variant, 1)
    source.unlink()


def save_arrays(path: Path, model: Any) -> None:
    """A model's arguments (`in0` and so on) and the results it has to give (`out0`, ...)."""
    import numpy as np

    arrays = {f"in{i}": array for i, array in enumerate(model.inputs)}
    np.savez(path, **arrays, **{f"out{i}": array for i, array in enumerate(model.outputs)})


def _compile(source: Path, target: Path, variant: str, repeats: int) -> None:
    arch, flags = VARIANTS[variant]
    command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source), *flags]
    command += ["--iree-hal-target-device=cuda", f"--iree-cuda-target={arch}", "-o", str(target)]
    command += [f"--iree-hal-benchmark-dispatch-repeat-count={repeats}"] if repeats > 1 else []
    subprocess.run(command, check=True, timeout=300, stderr=subprocess.DEVNULL)


def _cast_data(name: str) -> tuple[Any, Any]:
    """f32 numbers, and their codes in the format `name` (NaN as 0x7F)."""
    import ml_dtypes
    import numpy as np

    kind = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}[name]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    codes = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    borders = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(borders, np.float32(side)) for side in (-np.inf, np.inf)]
    given = np.concatenate([halves, borders, *near]).astype(np.float32)
    given = given[: given.size // 4 * 4]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = given.astype(kind)
    return given, np.where(np.isnan(rounded), np.uint8(0x7F), rounded.view(np.uint8))


def run_all(folder: Path, path: Path) -> None:
    """Runs each case in a worker, which the next case outlives should it crash."""
    names = [case.name for case in cases()] + [f"cast_{name}" for name in CASTS] + [*MODELS]
    log = path.with_suffix(".lines")
    log.unlink(missing_ok=True)
    done = 0
    while done < len(names):
        command = [sys.executable, __file__, "work", str(folder), "--json", str(log)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([*command, f"--first={done}"], check=False, timeout=200)
        lines = log.read_text().splitlines() if log.exists() else []
        if len(lines) == done:
            lines.append(json.dumps({"case": names[done], "failed": "the process died"}))
            log.write_text("\n".join(lines) + "\n")
        done = len(lines)
        rows = [json.loads(line) for line in lines]
        path.write_text(json.dumps({"device": _device(), "rows": rows}, indent=1) + "\n")


def work(folder: Path, log: Path, first: int) -> None:
    """Runs the cases from number `first` on, until one fails."""
    from iree import runtime

    config = runtime.Config("cuda")
    jobs: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (case.name, lambda case=case: _run(case, folder, config)) for case in cases()
    ]
    jobs += [(f"cast_{name}", lambda name=name: _run_cast(name, folder, config)) for name in CASTS]
    jobs += [(name, lambda name=name: _run_model(name, folder, config)) for name in MODELS]
    for name, job in jobs[first:]:
        row: dict[str, Any] = {"case": name}
        try:
            row |= job()
        except Exception as problem:
            row["failed"] = f"{type(problem).__name__}: {problem}"[:300]
        print(json.dumps(row), flush=True)
        with log.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        if "failed" in row:
            # A kernel's fault stays with the process.
            sys.exit(3)


def _run(case: Case, folder: Path, config: Any) -> dict[str, Any]:
    import torch

    given = _inputs(case)
    wanted = _reference(case, *given)
    q, k, v, *mask = given
    v = v.transpose(1, 2).contiguous() if case.transposed else v
    device = [to_iree(config.device, tensor) for tensor in (q, k, v, *mask)]
    row: dict[str, Any] = asdict(case)
    outputs = {}
    for variant in case.variants:
        counts = (FEW, MANY) if case.timed else (1,)
        calls = {
            n: load(config, folder / f"{case.name}.{variant}.{n}.vmfb")["main"] for n in counts
        }
        got = to_torch(calls[counts[0]](*device), _kinds()[case.types[2]])
        outputs[variant] = got
        kept = [0, case.batch - 1] if case.timed else list(range(case.batch))
        error = (got[kept].double() - wanted).norm() / wanted.norm()
        row[variant] = {"error": float(error)}
        if case.timed:
            seconds = _slope({n: lambda f=f: f(*device) for n, f in calls.items()})
            row[variant]["ms"] = round(seconds * 1e3, 4)
    if {"on", "sm_90"} <= set(outputs):
        row["sm_90_equals_on"] = bool(torch.equal(outputs["on"], outputs["sm_90"]))
    if case.timed and case.types in (F16, BF16):
        row["torch_fa2"] = _flash(q, k, given[2])
    return row


def _run_cast(name: str, folder: Path, config: Any) -> dict[str, Any]:
    """Counts of codes and numbers that differ from what ml_dtypes gives."""
    import numpy as np
    import torch

    given = torch.from_numpy(np.fromfile(folder / f"cast_{name}.given", np.float32))
    codes = np.fromfile(folder / f"cast_{name}.codes", np.uint8)
    kind = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}[name]
    every = torch.arange(256, dtype=torch.uint8).view(kind)
    row: dict[str, Any] = {"numbers": codes.size}
    for variant in ("sm_80", "sm_90"):
        call = load(config, folder / f"cast_{name}.{variant}.vmfb")["main"]
        got = np.array(call(to_iree(config.device, given)).to_host()).view(np.uint8)
        # Any code of NaN is one.
        nan = (got & 0x7F) > (0x7C if name == "f8E5M2" else 0x7E)
        wrong = np.where(nan, np.uint8(0x7F), got) != codes
        back = load(config, folder / f"cast_back_{name}.{variant}.vmfb")["main"]
        numbers = np.array(back(to_iree(config.device, every)).to_host()).view(np.float32)
        same = np.array_equal(numbers, every.float().numpy(), equal_nan=True)
        row[variant] = {"wrong_codes": int(wrong.sum()), "exact_back": bool(same)}
    return row


def _run_model(name: str, folder: Path, config: Any) -> dict[str, Any]:
    """Each variant's worst relative error over the model's results."""
    import numpy as np

    arrays = np.load(folder / f"{name}.npz")
    given = [arrays[key].astype(np.float32) for key in arrays if key.startswith("in")]
    wanted = [arrays[key] for key in arrays if key.startswith("out")]
    row: dict[str, Any] = {}
    for variant in VARIANTS:
        results = load(config, folder / f"{name}.{variant}.vmfb")["main"](*given)
        results = results if isinstance(results, tuple | list) else [results]
        pairs = zip((result.to_host() for result in results), wanted, strict=True)
        errors = [np.linalg.norm(got - want) / np.linalg.norm(want) for got, want in pairs]
        row[variant] = {"error": float(max(errors))}
    return row


def _inputs(case: Case) -> list[Any]:
    """q, k, v (batch, length, head) and the mask, if it is given, on the GPU."""
    import torch

    torch.manual_seed(len(case.name) + case.rows)
    qk, kind, _ = (_kinds()[name] for name in case.types)
    b, m, n, d = case.batch, case.rows, case.keys, case.head
    q, k, v = (torch.randn(b, size, d, device="cuda") for size in (m, n, n))
    found = [(q * case.sharp).to(qk), k.to(qk), v.to(kind)]
    if case.mask == "i1":
        seen = torch.rand(m, n, device="cuda") < 0.7
        seen[:, 0] = True
        found.append(seen.to(torch.int8))
    elif case.mask == "f16":
        found.append(torch.randn(m, n, device="cuda").to(torch.float16))
    return found


def _reference(case: Case, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Attention in float64; of the first and the last batch where the case is large."""
    import torch

    batches = []
    for batch in [0, case.batch - 1] if case.timed else range(case.batch):
        scores = q[batch].double() @ k[batch].double().T * case.head**-0.5
        if case.mask == "causal":
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        elif case.mask == "i1":
            scores = scores.masked_fill(mask == 0, -math.inf)
        elif case.mask == "f16":
            scores = scores + mask.double()
        batches.append(torch.softmax(scores, -1) @ v[batch].double())
    return torch.stack(batches)


def _flash(q: Any, k: Any, v: Any) -> dict[str, float]:
    """PyTorch's FlashAttention on the same tensors: milliseconds, median of 7."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    times = []
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.no_grad():
        for _ in range(8):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(20):
                scaled_dot_product_attention(q[None], k[None], v[None])
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 20)
    return {"ms": round(statistics.median(times[1:]) * 1e3, 4)}


def _kinds() -> dict[str, Any]:
    import torch

    return {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f32": torch.float32,
        "f8E4M3FN": torch.float8_e4m3fn,
        "f8E5M2": torch.float8_e5m2,
    }


def _slope(calls: dict[int, Callable[[], Any]], repeats: int = 7) -> float:
    """Seconds a dispatch: the difference between many and few repeats, medians of each."""
    times: dict[int, list[float]] = {count: [] for count in calls}
    for _ in range(repeats):
        for count, call in calls.items():
            start = time.perf_counter()
            call()
            times[count].append(time.perf_counter() - start)
    few, many = (statistics.median(times[count]) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def _device() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("what", choices=["compile", "run", "work"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("tools/results/cuda_math_h200.json"))
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "compile":
        compile_all(options.folder)
    elif options.what == "run":
        run_all(options.folder, options.json)
    else:
        work(options.folder, options.json, options.first)


if __name__ == "__main__":
    main()
