"""Prefill as attn-compile configures it for CUDA, beside IREE alone and PyTorch's kernels.

Each case is attention on tensors that come in as arguments, compiled by IREE alone and with
the passes, V row-major and V^T. `run` checks every result against float32 and times it
beside PyTorch's FlashAttention and cuDNN in the same process: the GPU's time for an attention,
of all its kernels, copies and fills, from CUPTI through torch's profiler, the median over calls
of several attentions on tensors of their own. What a call takes beside that is left out: IREE
3.13 maps the memory of results anew in each, about 1.6 ms a GB.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.attention import V_T, K, Operand, V, fresh_attention
from bench.attention_case import Case, listed_cases, reference
from bench.device import gpu, load, to_iree, to_torch, torch_type
from bench.harness import Manifest, attn_compile
from bench.results import Row, row
from bench.timing import COUNTS, FEW, MANY, backends, ms, on_device, relative_error

# Above this error numbers are wrong, and not timed.
WRONG = 0.1
# Keys that attention over an unknown number is checked at, with the case's rows.
LENGTHS = (1, 7, 16, 777, 1333, 4096)
# Seconds that a case may take.
CASE_SECONDS = 60
VARIANTS = ("iree", "attnpass", "attnpass V^T")


def cases() -> list[Case]:
    return listed_cases(Path(__file__).with_suffix(".txt"))


def arch(case: Case, variant: str) -> str:
    """What to compile for: IREE alone does not compile attention for sm_90."""
    if not case.is_narrow:
        return "sm_80"
    return "sm_89" if variant == "iree" else "sm_90"


def variants(case: Case) -> tuple[str, ...]:
    """Those that are compared. IREE alone is compared where there are times; over an unknown
    number of keys without a mask it takes minutes for wrong numbers."""
    alone = case.timed and (bool(case.seen) or not case.dynamic)
    return VARIANTS[0 if alone else 1 :]


def module(case: Case, transposed: bool) -> str:
    """MLIR text: function `one`; `few` and `many` attentions, each on tensors of its own, of whose
    results only a corner is returned, so that transfers take no time."""
    keys, rows = ("?", "?") if case.dynamic else (case.keys, case.rows)
    group, letter = (f"{case.group}x", "g, ") if case.group > 1 else ("", "")
    q = f"tensor<{case.heads}x{group}{rows}x{case.head}x{case.dtype}>"
    k = f"tensor<{case.heads}x{keys}x{case.head}x{case.dtype}>"
    size = f"{case.head}x{keys}" if transposed else f"{keys}x{case.head}"
    v = f"tensor<{case.heads}x{size}x{case.values}>"
    kind = case.output
    out = f"tensor<{case.heads}x{group}{rows}x{case.head}x{kind}>"
    mask = f"tensor<{rows}x{keys}xi1>" if case.seen else ""
    shared = [("%scale", "f32", ""), *([("%mask", mask, "m, k2")] if mask else [])]
    query, value = f"b, {letter}m, k1", V_T if transposed else V
    rank = 4 if group else 3

    def read(value: str, given: str) -> tuple[str, str, str]:
        """What attention reads of a value, its type, and the text that makes it."""
        if not case.cast or given.endswith(f"x{kind}>"):
            return value, given, ""
        wide = f"{given.rpartition('x')[0]}x{kind}>"
        return f"{value}w", wide, f"  {value}w = arith.extf {value} : {given} to {wide}\n"

    def function(name: str, count: int) -> str:
        own = [
            f"%{x}{i}: {kind}"
            for x, kind in zip("qkv", (q, k, v), strict=True)
            for i in range(count)
        ]
        arguments = ", ".join(own) + (f", %mask: {mask}" if mask else "")
        body = f"  %dim = arith.constant {2 if group else 1} : index\n"
        body += f"  %scale = arith.constant {case.head**-0.5} : f32\n"
        for i in range(count):
            if case.dynamic:
                body += f"  %rows{i} = tensor.dim %q{i}, %dim : {q}\n"
            given: list[Operand] = []
            for of, own_type, dims in (("q", q, query), ("k", k, K), ("v", v, value)):
                operand, wide, cast = read(f"%{of}{i}", own_type)
                body += cast
                given.append((operand, wide, dims))
            body += fresh_attention(
                f"%o{i}",
                [*given, *shared],
                out,
                f"%rows{i}" if case.dynamic else "",
                written=f"b, {letter}m, n",
                dims=f"b, {letter}m, n, k1, k2",
            )
            body += "\n"
        if name == "one":
            results, kinds = "%o0", out
        else:
            corner = f"tensor<1x{'1x' if group else ''}1x8x{kind}>"
            zeros, ones = ("0, " * rank)[:-2], ("1, " * rank)[:-2]
            for i in range(count):
                body += f"  %c{i} = tensor.extract_slice %o{i}[{zeros}] [{ones[:-1]}8] [{ones}]"
                body += f" : {out} to {corner}\n"
            results = ", ".join(f"%c{i}" for i in range(count))
            kinds = ", ".join([corner] * count)
        head = f"func.func @{name}({arguments}) -> ({kinds}) {{\n"
        return f"{head}{body}  return {results} : {kinds}\n}}\n"

    counts = {"one": 1, **({"few": FEW, "many": MANY} if case.timed else {})}
    return "\n".join(function(name, count) for name, count in counts.items())


def settings(case: Case) -> dict[str, Any]:
    return asdict(case)


def compile(folder: Path, wanted: list[Case], _: argparse.Namespace) -> None:
    """Writes a .vmfb for each case and variant, and what the passes said."""
    from attnpass.report.records import report_from_dict

    manifest, source, report = Manifest(folder), folder / "source.mlir", folder / "report.json"
    for case in wanted:
        for variant in variants(case):
            source.write_text(module(case, variant.endswith("V^T")))
            ours = ["--attn-disable"] if variant == "iree" else _widened(case)
            target = ["--iree-hal-target-device=cuda", f"--iree-cuda-target={arch(case, variant)}"]
            entry = manifest.add(case.name, variant)
            flags = [*ours, *target, f"--attn-report={report}"]
            entry["failed"] = attn_compile(source, folder / entry["file"], *flags)
            if not entry["failed"]:
                said = report_from_dict(json.loads(report.read_text()))
                entry["configured"] = bool(said.found("configured"))
                entry["notes"] = [str(one) for one in said.found("not-configured")][:1]
            manifest.write()
            print(case.name, variant, entry["failed"] or entry["notes"], flush=True)


def _widened(case: Case) -> list[str]:
    """The flag for the default passes, with 8-bit operands widened wherever they are."""
    from attnpass.pipeline import default_pipeline

    if not case.is_narrow:
        return []
    passes = default_pipeline("cost", kernels="never", products="never")
    return [f"--attn-pipeline={passes.replace('attn-widen', 'attn-widen{mode=always}')}"]


def run(folder: Path, case: Case, _: argparse.Namespace) -> Iterator[Row]:
    """A row of each peer and variant, at each of LENGTHS where the number of keys is unknown."""
    config = gpu()
    entries = [entry for entry in Manifest(folder).of(case.name) if not entry["failed"]]
    # IREE's wrong kernels may end the process.
    entries.sort(key=lambda entry: entry["way"] == "iree")
    contexts = {entry["way"]: load(config, folder / entry["file"]) for entry in entries}
    lengths = LENGTHS if case.dynamic and not case.timed else (case.keys,)
    for keys in lengths:
        of = replace(case, keys=keys)
        q, k, v, mask = tensors(of)
        query = q[0].view(case.heads, case.group, *q[0].shape[-2:])
        seen = mask[0][None, None] if mask else None
        exact = "float64" if case.dtype == "f32" else "float32"
        right = reference(case, query, k[0], v[0], seen, exact=exact).view(q[0].shape).cpu().numpy()
        if case.timed and not case.seen:
            yield from peers(q, k, v, right, case)
        placed = {
            name: [to_iree(config.device, x) for x in values]
            for name, values in (("q", q), ("k", k), ("v", v), ("mask", mask))
        }
        turned = [to_iree(config.device, x.transpose(1, 2)) for x in v]
        for entry in entries:
            way = entry["way"]
            found: dict[str, Any] = {"keys": keys} if len(lengths) > 1 else {}
            found["configured"] = entry["configured"]
            given = placed | ({"v": turned} if way.endswith("V^T") else {})
            try:
                found |= measure(contexts[way], of, given, right)
            except Exception as error:
                found["failed"] = str(error)[:200]
            yield row(case.name, way, found)


def measure(functions: Any, case: Case, given: dict[str, list[Any]], right: Any) -> dict[str, Any]:
    """The error of `one` and, where the case is timed and right, the milliseconds."""

    def call(which: str) -> Any:
        own = [x for name in ("q", "k", "v") for x in given[name][: COUNTS[which]]]
        return functions[which](*own, *given["mask"])

    out = torch_type(case.output)
    found = {"error": relative_error(host(call("one"), out), right)}
    if not case.timed or not found["error"] < WRONG:
        return found
    return {**found, "ms": ms(on_device(lambda which: call(which)[-1].to_host()))}


def host(result: Any, kind: Any) -> Any:
    """float32 numpy of a result of torch type `kind`."""
    return to_torch(result, kind).float().cpu().numpy()


def tensors(case: Case) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Qs, Ks, Vs and at most one mask on the GPU, rounded to their types."""
    import torch

    torch.manual_seed(0)

    def random(*sizes: int, kind: str) -> Any:
        return torch.randn(sizes, device="cuda").to(torch_type(kind))

    count = range(MANY if case.timed else 1)
    rows, keys = (case.heads * case.group, case.rows, case.head), (case.heads, case.keys, case.head)
    q = [random(*rows, kind=case.dtype) for _ in count]
    if case.group > 1:
        q = [x.view(case.heads, case.group, case.rows, case.head) for x in q]
    k = [random(*keys, kind=case.dtype) for _ in count]
    v = [random(*keys, kind=case.values) for _ in count]
    mask = torch.ones(case.rows, case.keys, dtype=torch.bool, device="cuda")
    if case.seen == "lower":
        mask = mask.tril()
    elif case.seen:
        mask[:, max(1, case.keys * 3 // 4) :] = False
    return q, k, v, [mask] if case.seen else []


def peers(q: list[Any], k: list[Any], v: list[Any], right: Any, case: Case) -> Iterator[Row]:
    """Rows of PyTorch's kernels that take the case, in bf16 where it has 8-bit operands, which
    they do not take."""
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    kind = torch.bfloat16 if case.is_narrow else q[0].dtype
    own = [
        [x.to(kind).reshape(1, -1, *x.shape[-2:]) for x in each]
        for each in zip(q, k, v, strict=True)
    ]
    grouped = case.group > 1
    # In f32 the last one is the only one.
    names = ("efficient",) if case.dtype == "f32" else ("FA2", "cuDNN")
    for name, backend in backends(*names).items():
        try:
            with sdpa_kernel(backend), torch.no_grad():

                def call(which: str) -> None:
                    for each in own[: COUNTS[which]]:
                        scaled_dot_product_attention(*each, enable_gqa=grouped)
                    torch.cuda.synchronize()

                got = scaled_dot_product_attention(*own[0], enable_gqa=grouped)
                got = got.float().cpu().numpy().reshape(right.shape)
                found = {"ms": ms(on_device(call)), "error": relative_error(got, right)}
                yield row(case.name, name, found)
        except RuntimeError as error:
            print(f"{case.name}, {name}: {str(error)[:100]}")
