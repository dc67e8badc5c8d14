"""A projection into attention on a CUDA GPU: V^T written by it, its configuration.

Each timed case is `x @ Wv -> heads -> attention`: 32 heads of 128, 4096 rows, model width 4096,
compiled by IREE as it is (its own V transpose on, which computes wrong numbers where the
projection is generic), with V as it is and with V^T, without and with precompiled kernels;
`attnpass` and `kernels` are what the passes choose by price. With 8-bit Q, K and V the
projection's result is scaled and rounded to that. The others check every form of projection that
the passes rewrite and configure. Errors are relative L2 distances to float32 on the same rounded
Q, K and V; times as in configure.py, the variants of a case taking turns, and what of a time is
for what. PyTorch computes in 16 bits, V not rounded.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.cases.configure import host
from bench.cases.projection_forms import (
    SCALE,
    Case,
    argument_types,
    inputs_of,
    module_text,
    tensor,
)
from bench.device import gpu, load, to_iree, torch_type
from bench.harness import Manifest, attn_compile
from bench.results import Row, row
from bench.timing import COUNTS, MANY, backends, kernels_in_turns, ms, relative_error

SHARED = ("k", "w", "beta")
TILES = "attn-fit-tiles"
V_T = "attn-propagate-layout{mode=always operands=v}"
PLAIN = f"{V_T},{TILES},attn-configure{{contractions=false}},attn-lower-cuda"
UNCONFIGURED = "attnpass V^T, projection not configured"
# Attention alone is compared: products are IREE's, with the tiles of attnpass.
PRODUCTS = "--attn-products=never"
OWN = ("--attn-kernels=never", PRODUCTS)
# The flags of each variant.
VARIANTS = {
    "iree": ["--attn-disable"],
    "attnpass, V as it is": ["--attn-mode=never", *OWN],
    UNCONFIGURED: [f"--attn-pipeline={PLAIN}"],
    "attnpass V^T": ["--attn-mode=always", *OWN],
    "attnpass": [*OWN],
    "kernels, V as it is": ["--attn-mode=never", PRODUCTS],
    "kernels, V^T": ["--attn-mode=always", PRODUCTS],
    "kernels": [PRODUCTS],
}
# Compiled for a Hopper GPU by name; IREE takes no such name.
KERNELS = ("kernels, V as it is", "kernels, V^T", "kernels")
# What kernels are for, by a part of their names.
PURPOSES = {
    "attention": "attention",
    "matmul": "projection",
    "contract": "projection",
    "transpose": "transposition",
    "elementwise": "casts",
}
# Calls of a variant.
TURNS = 25
CHECKED = ("iree", "attnpass, V as it is", "attnpass V^T")


def case(form: str, dtype: str = "f16", batch: int = 1, size: int = 4096, **more: Any) -> Case:
    shape = {"heads": size // 128, "kv_heads": size // 128, "head": 128, "model": size}
    return Case(form, dtype, batch, **{**shape, "rows": size, "keys": size, **more})


TIMED = (
    *(case("repeated", batch=batch) for batch in (1, 4)),
    case("generic"),
    case("repeated", "bf16"),
    *(case("repeated", batch=batch, narrow="f8E4M3FN") for batch in (1, 4)),
)
NUMBERS = (
    *(case(form, dtype, 1, 2048) for form in ("matmul", "generic") for dtype in ("f16", "bf16")),
    *(case(form, "f16", 4, 1024) for form in ("batched", "repeated", "split", "matmul")),
    case("repeated", "bf16", 4, 1024),
    case("repeated", "f16", 2, 1024, keys=2048, bias=True),
    case("packed", "f16", 4, 1024),
    case("split", "f16", 1, 2048),
)


def module(of: Case, timed: bool) -> str:
    """MLIR text: function `one`; where it is timed, `few` and `many` of it, each with a query
    and an x of its own, returning corners."""
    text = module_text(of)
    if not timed:
        return text.replace("@main", "@one")
    shapes, kinds = inputs_of(of), argument_types(of)
    result = tensor(shapes["q"], of.dtype)
    corner = tensor([1, 1, 8], of.dtype)
    parts = [text.replace("func.func @main", "func.func private @main")]
    for name, count in COUNTS.items():
        own = [f"%{n}{i}: {kinds[n]}" for i in range(count) for n in shapes if n not in SHARED]
        arguments = ", ".join([*own, *(f"%{n}: {kinds[n]}" for n in shapes if n in SHARED)])
        body = ""
        for i in range(count):
            given = ", ".join(f"%{n}" if n in SHARED else f"%{n}{i}" for n in shapes)
            types = ", ".join(kinds.values())
            body += f"  %r{i} = func.call @main({given}) : ({types}) -> {result}\n"
            body += f"  %c{i} = tensor.extract_slice %r{i}[0, 0, 0] [1, 1, 8] [1, 1, 1]"
            body += f" : {result} to {corner}\n"
        values = ["%r0"] if name == "one" else [f"%c{i}" for i in range(count)]
        returns = ", ".join([result] if name == "one" else [corner] * count)
        parts.append(
            f"func.func @{name}({arguments}) -> ({returns}) {{\n{body}"
            f"  return {', '.join(values)} : {returns}\n}}\n"
        )
    return "\n".join(parts)


@dataclass(frozen=True)
class Named:
    """A case of this bench; many forms differ in the number of keys alone."""

    of: Case
    is_timed: bool

    @property
    def name(self) -> str:
        return f"{self.of.name}_{self.of.keys}"


def settings(case: Named) -> dict[str, Any]:
    return asdict(case.of)


def cases() -> list[Named]:
    return [Named(of, of in TIMED) for of in (*TIMED, *NUMBERS)]


def compile(folder: Path, wanted: list[Named], _: argparse.Namespace) -> None:
    """Writes a .vmfb for each case and variant, and what of products was configured."""
    manifest, source, report = Manifest(folder), folder / "source.mlir", folder / "report.json"
    for case in wanted:
        source.write_text(module(case.of, case.is_timed))
        for variant, flags in VARIANTS.items():
            if not is_wanted(case.of, variant):
                continue
            entry = manifest.add(case.name, variant)
            target = f"--iree-cuda-target={arch(case.of, variant)}"
            flags = [*flags, "--iree-hal-target-device=cuda", target, f"--attn-report={report}"]
            entry["failed"] = attn_compile(source, folder / entry["file"], *flags)
            entry["contraction"] = [] if entry["failed"] else contractions_in(report)[:1]
            manifest.write()
            print(case.name, variant, entry["failed"], entry["contraction"], flush=True)


def is_wanted(of: Case, variant: str) -> bool:
    if variant == UNCONFIGURED:
        return of in TIMED and of.form == "repeated" and of.operands == "f16"
    return of in TIMED or variant in CHECKED


def arch(of: Case, variant: str) -> str:
    """What a variant is compiled for: the GPU's own name where its kernels or its way with 8
    bits are wanted, else the code that runs on any since sm_80."""
    if variant == "iree":
        return "sm_89" if of.narrow else "sm_80"
    return "sm_90" if of.narrow or variant in KERNELS else "sm_80"


def contractions_in(report: Path) -> list[str]:
    """What a report says of products' configurations, in words."""
    from attnpass.report.records import report_from_dict

    records = report_from_dict(json.loads(report.read_text()))
    return [str(one) for one in records.found("configured", "not-configured", of="contraction")]


def run(folder: Path, case: Named, _: argparse.Namespace) -> Iterator[Row]:
    """A row for each peer and each variant of a case: its error, milliseconds and what they are
    for, or why there are none."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    config, of = gpu(), case.of
    given = inputs(of, MANY if case.is_timed else 1)
    right = reference(of, given)
    rows, calls = peers(of, given) if case.is_timed else ({}, {})
    given = {name: place(config.device, value) for name, value in given.items()}
    for entry in Manifest(folder).of(case.name):
        name = entry["way"]
        rows[name] = {"configured": any("is configured" in note for note in entry["contraction"])}
        try:
            if entry["failed"]:
                raise RuntimeError(entry["failed"])
            functions = load(config, folder / entry["file"])
            rows[name]["error"] = error_of(functions, of, given, right)
        except Exception as error:
            rows[name]["failed"] = str(error)[:200]
            continue
        if case.is_timed:
            calls[name] = caller(functions, given)
    if calls:
        for name, found in kernels_in_turns(calls, TURNS).items():
            spent = statistics.median(sum(seconds for _, seconds in kernels) for kernels in found)
            rows[name]["ms"] = ms(spent)
            if name in VARIANTS:
                rows[name]["microseconds"] = by_purpose(found)
    for name, found in rows.items():
        yield row(case.name, name, found)


def inputs(of: Case, count: int) -> dict[str, Any]:
    """Tensors on the GPU by argument name; those that each repetition has of its own in a list."""
    import torch

    torch.manual_seed(0)

    def random(name: str, shape: list[int]) -> Any:
        scale = shape[-1 if of.form == "generic" else -2] ** -0.5 if name == "w" else 1.0
        own = {"q": of.operands, "k": of.operands, "beta": "f32"}
        return (torch.randn(shape, device="cuda") * scale).to(torch_type(own.get(name, of.dtype)))

    return {
        name: random(name, shape) if name in SHARED else [random(name, shape) for _ in range(count)]
        for name, shape in inputs_of(of).items()
    }


def place(device: Any, value: Any) -> Any:
    """A tensor, or a list of them, on IREE's device."""
    if isinstance(value, list):
        return [place(device, one) for one in value]
    return to_iree(device, value)


def values(of: Case, x: Any, given: dict[str, Any]) -> Any:
    """V (heads, keys, head) in the type of `x`."""
    w = given["w"].to(x.dtype)
    v = x @ (w.T if of.form == "generic" else w)
    width = of.kv_heads * of.head
    v = v[..., 2 * width :] if of.form == "packed" else v
    v = v + given["beta"].to(x.dtype) if "beta" in given else v
    v = v.reshape(of.batch, of.keys, of.kv_heads, of.head)
    return v.transpose(1, 2).reshape(-1, of.keys, of.head)


def reference(of: Case, given: dict[str, Any], rounded: bool = True) -> Any:
    """The first repetition in float32, a head at a time, as numpy; V rounded to its type if that
    has 8 bits."""
    import torch

    v = values(of, given["x"][0].float(), given)
    if of.narrow and rounded:
        v = (v * SCALE).to(torch_type(of.narrow)).float()
    heads = []
    for q, k, of_head in zip(given["q"][0], given["k"], v, strict=True):
        weights = torch.softmax(q.float() @ k.float().T * of.head**-0.5, -1)
        heads.append(weights @ of_head)
    return torch.stack(heads).cpu().numpy()


def peers(of: Case, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows and calls of PyTorch's projection and attention in 16 bits."""
    import torch
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    right = reference(of, given, rounded=False)
    kind = torch_type(of.dtype)
    queries, keys = [q.to(kind)[None] for q in given["q"]], given["k"].to(kind)[None]
    rows: dict[str, Any] = {}
    calls: dict[str, Any] = {}

    def one(i: int) -> Any:
        v = values(of, given["x"][i], given)
        return scaled_dot_product_attention(queries[i], keys, v[None])

    for name, backend in backends("FA2", "cuDNN").items():

        def layers(count: int, backend: Any = backend) -> Any:
            with sdpa_kernel(backend), torch.no_grad():
                results = [one(i) for i in range(count)]
            torch.cuda.synchronize()
            return results[-1]

        calls[name] = lambda which, layers=layers: layers(COUNTS[which])
        got = layers(1).float().cpu().numpy()
        rows[name] = {"error": relative_error(got, right)}
    return rows, calls


def error_of(functions: Any, of: Case, given: dict[str, Any], right: Any) -> float:
    """`given` holds arrays on IREE's device."""
    own = {n: given[n] for n in given if n not in SHARED}
    shared = {n: given[n] for n in given if n in SHARED}
    # `one` of a case that is not timed is the module as it is.
    arguments = [own[n][0] if n in own else shared[n] for n in inputs_of(of)]
    if of in TIMED:
        arguments = [*(own[n][0] for n in own), *shared.values()]
    return relative_error(host(functions["one"](*arguments), torch_type(of.dtype)), right)


def caller(functions: Any, given: dict[str, Any]) -> Callable[[str], None]:
    """A call of `few` or `many`, which waits for its end."""
    own = [given[name] for name in given if name not in SHARED]
    shared = [given[name] for name in given if name in SHARED]

    def call(which: str) -> None:
        repeated = [values[i] for i in range(COUNTS[which]) for values in own]
        functions[which](*repeated, *shared)[-1].to_host()

    return call


def by_purpose(calls: list[list[tuple[str, float]]]) -> dict[str, float]:
    """Microseconds of a layer's kernels by what they are for, medians over calls."""
    times: dict[str, list[float]] = {}
    for kernels in calls:
        sums: dict[str, float] = {}
        for kernel, seconds in kernels:
            purpose = next((PURPOSES[part] for part in PURPOSES if part in kernel), "")
            sums[purpose] = sums.get(purpose, 0.0) + seconds * 1e6
        for purpose, spent in sums.items():
            times.setdefault(purpose, []).append(spent)
    return {name: round(statistics.median(spent), 1) for name, spent in times.items() if name}
