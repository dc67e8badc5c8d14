"""Measures a projection into attention on a CUDA GPU: V^T written by it, its configuration.

    python tools/bench_projection.py compile build/projection      (needs attnpass)
    python tools/bench_projection.py run build/projection --json projection.json
                                  (needs a GPU, torch and iree-base-runtime only)

Each timed case is `x @ Wv -> heads -> attention`: 32 heads of 128, 4096 rows, model width 4096,
compiled by IREE as it is (its own V transpose on, which computes wrong numbers where the
projection is generic), with V as it is and with V^T, without and with precompiled kernels;
`attnpass` and `kernels` are what the passes choose by price. With 8-bit Q, K and V the
projection's result is scaled and rounded to that. The others check every form of projection that
the passes rewrite and configure. Errors are relative L2 distances to float32 on the same rounded
Q, K and V; times as in bench_configure.py, the variants of a case taking turns, and what of a
time is for what. PyTorch computes in 16 bits, V not rounded.
"""

# pyright: reportMissingImports=false
# (torch is on the GPU machine only)

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_configure as bench
from iree_device import load, to_iree
from projection_forms import SCALE, Case, argument_types, inputs_of, module_text, tensor

SHARED = ("k", "w", "beta")
TILES = "attn-pad-heads,attn-tile-dynamic,attn-mask-dynamic-keys,attn-pad-keys"
V_T = "attn-propagate-layout{mode=always operands=v}"
PLAIN = f"{V_T},{TILES},attn-configure{{contractions=false}},attn-hardware-exp2,attn-shared-memory"
UNCONFIGURED = "attnpass V^T, projection not configured"
# The flags of each variant.
VARIANTS = {
    "iree": ["--attn-disable"],
    "attnpass, V as it is": ["--attn-mode=never"],
    UNCONFIGURED: [f"--attn-pipeline={PLAIN}"],
    "attnpass V^T": ["--attn-mode=always"],
    "attnpass": [],
    "kernels, V as it is": ["--attn-mode=never", "--attn-kernels=cost"],
    "kernels, V^T": ["--attn-mode=always", "--attn-kernels=cost"],
    "kernels": ["--attn-kernels=cost"],
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
# Calls of a variant, and layers of a call.
TURNS = 25
REPETITIONS = {"few": bench.FEW, "many": bench.MANY}
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
    for name, count in (("one", 1), ("few", bench.FEW), ("many", bench.MANY)):
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


def file_name(of: Case, variant: str) -> str:
    return f"{of.name}_{of.keys}.{list(VARIANTS).index(variant)}.vmfb"


def compile_all(folder: Path) -> None:
    """Writes a .vmfb for each case and variant, and manifest.json with what was configured."""
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for of in (*TIMED, *NUMBERS):
        source = folder / "source.mlir"
        source.write_text(module(of, of in TIMED))
        for variant, flags in VARIANTS.items():
            if not is_wanted(of, variant):
                continue
            path = folder / file_name(of, variant)
            command = [sys.executable, "-m", "attnpass.cli.attn_compile", str(source), *flags]
            command += ["--iree-hal-target-device=cuda", f"--iree-cuda-target={arch(of, variant)}"]
            command += ["-o", str(path), f"--attn-report={folder / 'report.json'}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            entry = {"case": dataclasses.asdict(of), "variant": variant, "file": path.name}
            entry["failed"] = first_error(done.stderr) if done.returncode else ""
            notes = [] if entry["failed"] else contractions_in(folder / "report.json")
            entry["contraction"] = notes[:1]
            entries.append(entry)
            print(path.name, variant, entry["failed"], str(entry["contraction"])[:90], flush=True)
    (folder / "manifest.json").write_text(json.dumps(entries, indent=1))


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


def first_error(said: str) -> str:
    """The first error that a compiler tells, without its place."""
    line = next((line for line in said.splitlines() if "error: " in line), said[-200:])
    return line.rpartition("error: ")[2]


def contractions_in(report: Path) -> list[str]:
    """What a report says of products' configurations, in words."""
    from attnpass.report.records import report_from_dict

    records = report_from_dict(json.loads(report.read_text()))
    return [str(one) for one in records.found("configured", "not-configured", of="contraction")]


def run_all(folder: Path, json_path: Path) -> None:
    """Checks all, times what is timed; writes rows as they come."""
    import torch
    from iree import runtime

    torch.backends.cuda.matmul.allow_tf32 = False
    config = runtime.Config("cuda")
    manifest = json.loads((folder / "manifest.json").read_text())
    rows: list[dict[str, Any]] = []
    for of in (*TIMED, *NUMBERS):
        entries = [entry for entry in manifest if Case(**entry["case"]) == of]
        for row in run(config, of, entries, folder):
            rows.append({"case": f"{of.name}_{of.keys}", **row})
            print(json.dumps(rows[-1]), flush=True)
        result = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": rows}
        json_path.write_text(json.dumps(result, indent=1) + "\n")


def run(config: Any, of: Case, entries: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """A row for each peer and each variant of a case: its error, milliseconds and what they are
    for, or why there are none."""
    given = inputs(of, bench.MANY if of in TIMED else 1)
    right = reference(of, given)
    rows, calls = peers(of, given) if of in TIMED else ({}, {})
    given = {name: place(config.device, value) for name, value in given.items()}
    for entry in entries:
        name = entry["variant"]
        rows[name] = {"configured": any("is configured" in note for note in entry["contraction"])}
        try:
            if entry["failed"]:
                raise RuntimeError(entry["failed"])
            functions = load(config, folder / entry["file"])
            rows[name]["error"] = error_of(functions, of, given, right)
        except Exception as error:
            rows[name]["failed"] = str(error)[:200]
            continue
        if of in TIMED:
            calls[name] = caller(functions, given)
    for name, found in bench.kernels_in_turns(calls, TURNS).items():
        spent = statistics.median(sum(seconds for _, seconds in kernels) for kernels in found)
        rows[name]["ms"] = bench.ms(spent)
        if name in VARIANTS:
            rows[name]["microseconds"] = by_purpose(found)
    return [{"variant": name, **row} for name, row in rows.items()]


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


def torch_type(name: str) -> Any:
    """torch's name of an element type."""
    import torch

    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    return kinds.get(name) or torch.float8_e4m3fn


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
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    right = reference(of, given, rounded=False)
    kind = torch_type(of.dtype)
    queries, keys = [q.to(kind)[None] for q in given["q"]], given["k"].to(kind)[None]
    backends = {"FA2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
    rows: dict[str, Any] = {}
    calls: dict[str, Any] = {}

    def one(i: int) -> Any:
        v = values(of, given["x"][i], given)
        return scaled_dot_product_attention(queries[i], keys, v[None])

    for name, backend in backends.items():

        def layers(count: int, backend: Any = backend) -> Any:
            with sdpa_kernel(backend), torch.no_grad():
                results = [one(i) for i in range(count)]
            torch.cuda.synchronize()
            return results[-1]

        calls[name] = lambda which, layers=layers: layers(REPETITIONS[which])
        got = layers(1).float().cpu().numpy()
        rows[name] = {"error": bench.relative_error(got, right)}
    return rows, calls


def error_of(functions: Any, of: Case, given: dict[str, Any], right: Any) -> float:
    """`given` holds arrays on IREE's device."""
    own = {n: given[n] for n in given if n not in SHARED}
    shared = {n: given[n] for n in given if n in SHARED}
    # `one` of a case that is not timed is the module as it is.
    arguments = [own[n][0] if n in own else shared[n] for n in inputs_of(of)]
    if of in TIMED:
        arguments = [*(own[n][0] for n in own), *shared.values()]
    return bench.relative_error(
        bench.host(functions["one"](*arguments), torch_type(of.dtype)), right
    )


def caller(functions: Any, given: dict[str, Any]) -> Callable[[str], None]:
    """A call of `few` or `many`, which waits for its end."""
    own = [given[name] for name in given if name not in SHARED]
    shared = [given[name] for name in given if name in SHARED]

    def call(which: str) -> None:
        repeated = [values[i] for i in range(REPETITIONS[which]) for values in own]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("projection.json"))
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folder)
    else:
        run_all(arguments.folder, arguments.json)


if __name__ == "__main__":
    main()
