"""Writes the measured tables of README.md and docs/ from bench/results.

    python -m bench pages

Each block of a page is one function here, which gives its text; BLOCKS says where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench import pass_table
from bench.cases import blocks as gpu_blocks
from bench.cases.configure import WRONG
from bench.markdown import table, text_table, write_block
from bench.results import FOLDER, Results, Row, load

Ways = dict[str, Row]
# PyTorch's kernels by their names in the results.
PEERS = {"FA2": "FlashAttention-2", "cuDNN": "cuDNN", "efficient": "memory-efficient"}


# cells


def ms(row: Row | None) -> str:
    """Milliseconds to three digits behind the point, or why there are none."""
    if row is None or not row:
        return "-"
    if row.get("failed"):
        return "no kernel"
    if (row.get("error") or 0) > WRONG:
        return "wrong"
    return f"{row['ms']:.3f}" if row.get("ms", 0) > 0 else "-"


def three_digits(row: Row) -> str:
    return f"{row['ms']:.3g}" if row["ms"] < 1000 else f"{row['ms']:.0f}"


def short_time(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.0f} us"


def worst(rows: Iterable[Row]) -> str:
    return f"{max(row['error'] for row in rows):.1e}"


def on(results: Results, unit: str = "milliseconds") -> str:
    """The beginning of a caption: the machine and the unit."""
    return f"{results.about['machine']}, {unit}"


# README.md


def gains() -> str:
    """The table at the top of the README."""
    head = ["machine", "program", "IREE 3.13", "attnpass", "precompiled kernels", "PyTorch"]
    attention = "attention, 4096 rows and keys"
    lines = [
        *_whole_blocks(),
        _gpu_gain(f"{attention}, f16, 32 heads of 128", "f16_32x1_4096x4096_d128"),
        _gpu_gain(f"{attention}, f16, 4 heads of 1024", "f16_4x1_4096x4096_d1024"),
        _gpu_gain(f"{attention}, f32, 32 heads of 128", "f32_32x1_4096x4096_d128"),
        _layers_gain("BERT-base, 2 layers, 512 rows, padded, f32"),
        _layers_gain("decode step, 2048 wide, 4096 keys, f32"),
        _cpu_gain("512 rows and keys, 32 heads of 128", "32 heads, 512 x 512, d 128, f32"),
        _cpu_gain("4 rows, 4096 keys, 8 heads of 128", "8 heads, 4 x 4096, d 128, f32"),
    ]
    return text_table([*head, "run"], lines)


def _whole_blocks() -> list[list[str]]:
    run, lines = "blocks_h200", []
    names = {case.name: f"{case.words}, {case.kind}" for case in gpu_blocks.cases()}
    for case, ways in load(run).by_case().items():
        if "iree" not in ways:
            continue
        times = [_told(ways.get(way, {})) for way in ("iree", "attnpass", "kernels")]
        lines.append([_machine(run), names[case], *times, _peer(ways), _runs(run)])
    return lines


def _peer(ways: Ways) -> str:
    best = _best_of_pytorch(ways)
    return f"{three_digits(ways[best])} ({PYTORCH[best]})"


def _told(row: Row) -> str:
    """A time to three digits, or why there is none."""
    if row.get("failed"):
        return "fails"
    error = row.get("error", 0)
    is_wrong = error is None or error > WRONG
    return "wrong" if is_wrong else three_digits(row) if "ms" in row else "-"


def _gpu_gain(words: str, case: str) -> list[str]:
    """A line for attention on the H200."""
    run = "configure_f32_h200" if case.startswith("f32") else "configure_h200"
    rows = load(run).by_case()[case]
    peers = [
        f"{three_digits(rows[peer])} ({PEERS[peer]})"
        for peer in PEERS
        if "ms" in rows.get(peer, {})
    ]
    kernel = load("kernels_h200").by_case().get(case)
    ours = [three_digits(rows["iree"]), three_digits(rows["attnpass"])]
    ours.append(three_digits(kernel["iree"]) if kernel else "-")
    runs = _runs(run, *(["kernels_h200"] if kernel else []))
    return [_machine(run), words, *ours, ", ".join(peers) or "no fused kernel", runs]


def _layers_gain(case: str) -> list[str]:
    run = "models_on_cpu_emeraldrapids"
    cores = load(run).about["cores"]
    ways = load(run).by_case(where=lambda one: one["threads"] == cores)[case]
    times = [three_digits(ways[way]) for way in ("iree", "attnpass")]
    where = f"{_machine(run)}, {cores} cores"
    return [where, case, *times, "-", _peer(ways), _runs(run)]


def _cpu_gain(words: str, case: str) -> list[str]:
    run = "cpu_emeraldrapids"
    row = load(run).by_case(where=lambda one: one["threads"] == 1)[case]
    times = [three_digits(row["iree"]), three_digits(row["vectorized"]), "-"]
    words = f"attention, f32, {words}"
    where = f"{_machine(run)}, 1 core"
    return [where, words, *times, three_digits(row["torch"]), _runs(run)]


def _machine(run: str) -> str:
    return load(run).about["machine"].partition(" (")[0]


def _runs(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


# docs/how-it-decides.md


def value_layouts_alone() -> str:
    """Attention alone with V and with V^T."""
    cases = {
        "f16, head dim 64": "f16_32x1_4096x4096_d64",
        "f16, head dim 128": "f16_32x1_4096x4096_d128",
        "f16, head dim 256": "f16_16x1_4096x4096_d256",
        "f16, head dim 512": "f16_8x1_4096x4096_d512",
        "e4m3, head dim 128, widened to f16 (default)": "f8E4M3FN_32x1_4096x4096_d128",
        "f32, head dim 128": "f32_32x1_4096x4096_d128",
    }
    found = load("configure_h200").by_case() | load("configure_f32_h200").by_case()
    lines = [
        [name, *(ms(found[case][way]) for way in ("attnpass", "attnpass V^T"))]
        for name, case in cases.items()
    ]
    kernels = load("kernels_h200").by_case()
    shape = "f8E4M3FN_32x1_4096x4096_d128"
    eight = [ms(kernels[f"{shape}_{way}"]["iree"]) for way in ("forced", "vt")]
    lines.append(["e4m3, head dim 128, precompiled kernel for 8 bits", *eight])
    return table(["attention alone", "V", "V^T"], lines)


# docs/nvidia.md

# PyTorch's ways to run a block: eager, as a CUDA graph, compiled.
PYTORCH = {"torch": "eager", "torch graph": "graph", "torch compile": "compiled"}
# Of products that a kernel for few rows computes.
FEW_COLUMNS = 64
_PRODUCT_WAYS = ("iree", "kernel", "torch")
# What stands behind a product, by the words of its case.
BEHIND = {
    "bias": "bias",
    "bias gelu": "bias and GELU",
    "bias add": "bias and residual",
    "silu gated": "SiLU of one times another",
    "unknown rows": "rows known at run time",
}


def blocks_on_gpu(run: str = "blocks_h200") -> str:
    """Milliseconds of whole blocks by IREE, by attnpass and by PyTorch's ways; what of it the GPU
    works."""
    results = load(run)
    names = {case.name: case.words for case in gpu_blocks.cases()}
    lines = []
    for case, ways in results.by_case().items():
        if "iree" not in ways:
            continue
        times = [_told(ways.get(way, {})) for way in ("iree", "attnpass", "kernels", *PYTORCH)]
        ours, best = ways["kernels"], _best_of_pytorch(ways)
        spent = [f"{way['device_ms']:.3f}" for way in (ours, ways[best])]
        ratio = f"{ways[best]['ms'] / ours['ms']:.2f}"
        errors = f"{ours['error']:.0e} ({ways['torch']['error']:.0e})"
        lines.append([names[case], *times, ratio, *spent, errors])
    head = ["block", "IREE", "attnpass", "with kernels", "PyTorch", "as a graph", "compiled"]
    head += ["best of PyTorch / with kernels", "GPU, with kernels", "GPU, best of PyTorch"]
    words = "a call with its synchronisation; errors against float64, those of PyTorch in brackets"
    where = f"{on(results)}, {words}; torch {results.about['versions']['torch']}:\n\n"
    return where + table([*head, "error"], lines)


def other_blocks_on_gpu(run: str = "blocks_h200") -> str:
    """Milliseconds of layers of other models, beside PyTorch's CUDA graph."""
    results = load(run)
    names = {case.name: case.words for case in gpu_blocks.cases()}
    lines = []
    for case, ways in results.by_case().items():
        if "iree" in ways:
            continue
        both = [ways[way] for way in ("kernels", "torch graph")]
        spent = [f"{one['device_ms']:.3f}" for one in both]
        errors = f"{ways['kernels']['error']:.0e} ({ways['torch']['error']:.0e})"
        lines.append([names[case], *spent, *map(three_digits, both), errors])
    head = ["layer, f16 where none is said", "GPU", "GPU, PyTorch", "a call", "a call, PyTorch"]
    return f"{on(results)}:\n\n" + table([*head, "error"], lines)


def _best_of_pytorch(ways: Ways) -> str:
    return min((way for way in PYTORCH if "ms" in ways.get(way, {})), key=lambda w: ways[w]["ms"])


def product_kernels(run: str = "product_kernels_h200") -> str:
    """Microseconds of products of 16 bits by IREE's code, by precompiled kernels and by PyTorch;
    batches, few columns, and columns and depths that 8 does not divide, are in the results
    alone."""

    def is_told(case: str) -> bool:
        kind, shape, *behind = case.split()
        _, *sizes = map(int, shape.split("x"))
        few = sizes[0] <= FEW_COLUMNS or "beside" in behind
        return kind != "f32" and not few and len(sizes) == 2 and all(n % 8 == 0 for n in sizes)

    return _timed_products(run, is_told)


def f32_products() -> str:
    """The same of products of f32, and of batches of them."""
    return _timed_products(
        "product_kernels_h200", lambda case: case.startswith("f32 "), beside=True
    )


def _timed_products(run: str, is_told: Callable[[str], bool], beside: bool = False) -> str:
    """`beside` says whether PyTorch's errors stand beside the kernels'."""
    results, lines = load(run), []
    for case, ways in results.by_case("timed").items():
        if not is_told(case):
            continue
        kind, shape, *behind = case.split()
        words = [f"{kind} {shape.replace('x', ' x ')}"]
        words += [BEHIND[" ".join(behind)]] if behind else []
        times = [f"{ways[way]['us']:.0f}" if way in ways else "" for way in _PRODUCT_WAYS]
        ratio = f"{ways['torch']['us'] / ways['kernel']['us']:.2f}"
        errors = [f"{ways[way]['error']:.1e}" for way in ("kernel", "torch")]
        lines.append([", ".join(words), *times, ratio, *errors[: 1 + beside]])
    head = ["rows x columns x depth", "IREE", "kernel", "PyTorch"]
    head += ["PyTorch's time / kernel's", "error", *["PyTorch's"] * beside]
    where = f"{on(results, 'microseconds on the GPU')}; errors against float64:\n\n"
    return where + table(head, lines)


def products_together() -> str:
    """Microseconds of products of the same rows, and of few columns, beside PyTorch."""
    results = load("product_kernels_h200")
    lines = []
    for part in ("timed", "few"):
        for case, ways in results.by_case(part).items():
            _, shape, *behind = case.split()
            rows, *sizes = map(int, shape.split("x"))
            if len(sizes) > 2 or not (sizes[0] <= FEW_COLUMNS or "beside" in behind):
                continue
            columns = [str(sizes[0])]
            if "beside" in behind:
                columns += behind[behind.index("beside") + 1].split("x")
            words = [f"{rows} x {' + '.join(columns)} x {sizes[1]}"]
            words += ["biases"] if "bias" in behind else []
            words += ["from memory"] if part == "few" else []
            times = [f"{ways[way]['us']:.1f}" for way in ("kernel", "torch")]
            lines.append([", ".join(words), *times, f"{ways['kernel']['error']:.1e}"])
    head = ["f16, rows x columns x depth", "kernel", "PyTorch", "error"]
    return f"{on(results, 'microseconds on the GPU')}:\n\n" + table(head, lines)


def few_rows() -> str:
    """Microseconds of few rows by kernels and by PyTorch, by how weights lie."""
    results = load("product_kernels_h100")
    lines: dict[str, list[str]] = {}
    for case, ways in results.by_case("few").items():
        shape = case.split()[1]
        times = [f"{ways[way]['us']:.1f}" for way in ("kernel", "torch")]
        lines.setdefault(shape, [shape.replace("x", " x ")]).extend(times)
    head = ["rows x columns x depth", "(n, k): kernel", "PyTorch", "(k, n): kernel", "PyTorch"]
    where = f"{on(results, 'microseconds on the GPU')}, operands in memory:\n\n"
    return where + table(head, list(lines.values()))


# docs/notes/gpu.md


def prefill() -> str:
    """Milliseconds by case and variant, timed cases only, and the worst error of all."""
    rows = _checked("configure_h200")
    in_f16 = worst(row for row in rows if row["case"].startswith("f16"))
    told = f"float32 in f16, {len(rows)} results checked in all types: {in_f16}"
    return _prefill("configure_h200", told, ("attnpass", "attnpass V^T"), ("FA2", "cuDNN"))


def beside_on_gpu() -> str:
    """Norms, rotary embeddings, copies and casts at parts of the speed of PyTorch's copy."""
    results = load("beside_h200")
    found = results.by_case()
    most = found.pop("copy")["torch"]["GBps"]
    lines = []
    for case, ways in found.items():
        ours, peer = ways["attnpass"], ways["torch"]
        part = f"{ours['GBps'] / most:.2f}"
        times = [f"{one['us']:.{int(one['us'] < 20)}f}" for one in (ours, peer)]
        lines.append([case, f"{ours['megabytes']:.0f}", *times, part, f"{ours['error']:.0e}"])
    where = f"{on(results, 'microseconds on the GPU')}; a copy moves {most} GB/s:\n\n"
    head = ["op", "MB read and written", "attnpass", "PyTorch (eager)", "part of a copy's speed"]
    return where + table([*head, "error"], lines)


def f32() -> str:
    rows = _checked("configure_f32_h200")
    told = f"float64, {len(rows)} results checked: {worst(rows)}"
    return _prefill("configure_f32_h200", told, ("attnpass",), ("efficient",))


def _checked(run: str) -> list[Row]:
    """The results of the passes."""
    return [row for row in load(run).flat() if row["way"].startswith("attnpass")]


def _prefill(run: str, told: str, ours: Sequence[str], peers: Sequence[str]) -> str:
    results = load(run)
    where = f"{results.about['machine']}, torch {results.about['versions']['torch']}, milliseconds."
    text = f"{where} Worst error of the passes against {told}.\n\n"
    return text + _beside(results.by_case(), ours, peers)


def _beside(cases: dict[str, Ways], ours: Sequence[str], peers: Sequence[str]) -> str:
    """The times of IREE, of the passes and of PyTorch's kernels."""
    names = ("iree", *ours, *peers)
    lines = []
    for case, rows in cases.items():
        best = _least(rows, ours)
        if best is None:
            continue
        stock = rows.get("iree", {}).get("ms")
        ratio = "-" if stock is None else f"{stock / best:.2f}"
        lines.append([case, *(ms(rows.get(name)) for name in names), ratio])
    return table(["type, heads x group, rows x keys, head dim", *names, "iree / attnpass"], lines)


def _least(rows: Ways, names: Sequence[str]) -> float | None:
    return min((rows[name]["ms"] for name in names if "ms" in rows.get(name, {})), default=None)


# docs/notes/kernels.md


def _kernels(wanted: Callable[[Row], bool]) -> dict[str, Ways]:
    """The timed cases of kernels, each way with the case's settings."""
    results = load("kernels_h200")
    found = {}
    for case, ways in results.by_case().items():
        settings = results.cases[case]
        if settings["timed"] and "ms" in ways["iree"] and wanted(settings | ways["iree"]):
            found[case] = {name: settings | row for name, row in ways.items()}
    return found


def _is_decode(row: Row) -> bool:
    return row["rows"] * row["group"] <= 64


def _is_widened(row: Row) -> bool:
    """Whether operands of 8 bits are cast for a kernel of 16."""
    return "f8" in row["case"] and not row["own"] and "f8" not in row["kernel"]


def kernel_decode() -> str:
    """GB/s of K and V of the large caches; PyTorch reads those of 8 bits in 16."""
    large = 2**24

    def wanted(row: Row) -> bool:
        is_large = row["heads"] * row["keys"] * row["head"] >= large
        return _is_decode(row) and is_large and not row.get("latent")

    return _beside_peers(_kernels(wanted), "GBps")


def kernel_prefill() -> str:
    """TFLOPS of the products; PyTorch computes those of 8 bits in bf16."""

    def wanted(row: Row) -> bool:
        is_large = not _is_decode(row) and row["keys"] >= 512 and not row.get("cap")
        is_large = is_large and row["dtype"] != "f32"
        return is_large and not _is_widened(row) and not row.get("latent")

    return _beside_peers(_kernels(wanted), "TFLOPS")


def kernel_peers() -> str:
    """Every row of the bench `peers`, beside the fastest that there is for its types."""
    lines = []
    for case, ways in load("peers_h200").by_case().items():
        own = ways["iree"]
        names = [name for name in ("cudnn_e4m3", "torch_cudnn") if name in ways]
        peer = (names or [name for name in ways if name != "iree" and "ms" in ways[name]])[0]
        other = ways[peer]
        unit = "GBps" if "GBps" in own else "TFLOPS"
        rates = [
            f"{way[unit]:.0f} {unit.replace('GBps', 'GB/s')} ({short_time(way['ms'])})"
            for way in (own, other)
        ]
        ratio = f"{other['ms'] / own['ms']:.2f}"
        errors = f"{own['error']:.2e}", f"{own['error'] / other['error']:.2f}"
        lines.append([case, own["kernel"], rates[0], peer, rates[1], ratio, *errors])
    head = ["case", "kernel", "speed", "peer", "its speed", "its time / kernel's"]
    head += ["error", "of its"]
    return table(head, lines)


def kernel_floats() -> str:
    """TFLOPS in f32, beside memory-efficient attention's."""
    lines = []
    for case, rows in _kernels(lambda row: row["dtype"] == "f32" and not row["own"]).items():
        ways = [rows.get(name, {}) for name in ("iree", "torch_efficient")]
        cells = [f"{w['TFLOPS']} ({short_time(w['ms'])})" if "ms" in w else "-" for w in ways]
        ratio = f"{ways[1]['ms'] / ways[0]['ms']:.2f}" if "ms" in ways[1] else "-"
        errors = [f"{way['error']:.1e}" if "error" in way else "-" for way in ways]
        lines.append([case, *cells, ratio, *errors])
    head = ["case", "kernel", "memory-efficient", "its time / kernel's", "error", "its error"]
    return table(head, lines)


def widened() -> str:
    """TFLOPS of kernels of 16 bits and the casts of 8-bit operands in front of them."""
    return _beside_peers(_kernels(_is_widened), "TFLOPS")


def _beside_peers(cases: dict[str, Ways], speed: str) -> str:
    lines = []
    for case, rows in cases.items():
        if rows["iree"]["own"]:
            continue
        # cuDNN's own way for 8 bits, where it was measured.
        peer = "cudnn_e4m3" if "ms" in rows.get("cudnn_e4m3", {}) else "torch_cudnn"
        ways = [rows.get(name, {}) for name in ("iree", "torch_fa2", peer)]
        cells = [f"{way[speed]} ({short_time(way['ms'])})" if "ms" in way else "-" for way in ways]
        ratio = f"{ways[2]['ms'] / ways[0]['ms']:.2f}" if "ms" in ways[2] else "-"
        lines.append([case, *cells, ratio, f"{rows['iree']['error']:.1e}"])
    return table(["case", "kernel", "FA2", "cuDNN", "cuDNN's time / kernel's", "error"], lines)


def caps() -> str:
    """TFLOPS of the products with a soft-cap, beside FlexAttention's."""
    cases = _kernels(lambda row: not _is_decode(row) and bool(row.get("cap")))
    lines = []
    for case, rows in cases.items():
        if rows["iree"]["own"]:
            continue
        own = cases.get(case.replace("_cap", "_own_configured_cap"), {})
        ways = (rows["iree"], rows.get("torch_flex", {}), own.get("iree", {}))
        cells = [way.get("TFLOPS", "-") for way in ways]
        lines.append([case, *cells, f"{rows['iree']['error']:.1e}"])
    return table(["case", "kernel", "FlexAttention", "IREE, configured", "error"], lines)


def thresholds() -> str:
    """Microseconds of the kernel beside IREE's code as attnpass configures it."""
    cases = _kernels(lambda _: True)
    lines = []
    for case, rows in cases.items():
        if own := cases.get(f"{case}_own_configured"):
            times = (way["iree"]["ms"] for way in (rows, own))
            lines.append([case, *(f"{spent * 1e3:.1f}" for spent in times)])
    return table(["case", "kernel", "IREE, configured"], lines)


# docs/notes/cpu.md

STEPS = 8
WAITS = (
    "The same calls where both sides' threads wait in the same way between them, ms, medians "
    "(and the best calls):"
)
IN_A_CALL = (
    f"Attention {STEPS} times in a call, each with the last result as its queries, ms a step, "
    "threads as both come, and where both wait in the same way:"
)

MODELS_ON_CPU = tuple(path.stem for path in sorted(FOLDER.glob("models_on_cpu*.json")))
MODEL_WAYS = {
    "iree": "IREE",
    "attnpass": "arguments",
    "constants": "constants",
    "torch": "torch",
    "torch compile": "torch.compile",
}


def cpu() -> str:
    """A table for each machine and number of threads."""
    return "\n".join(_cpu_machine(load(path)) for path in sorted(FOLDER.glob("cpu*.json")))


def _cpu_machine(results: Results) -> str:
    about, versions = results.about, results.about["versions"]
    text = f"{about['note']}\n\n" if "note" in about else ""
    for threads in dict.fromkeys(row["threads"] for row in results.rows):
        rows = results.by_case(where=lambda row, of=threads: row["threads"] == of)
        found = {name: ways for name, ways in rows.items() if "" not in ways}
        text += (
            f"{about['machine']} (compiled for {about['cpu']}), threads: {threads}, "
            f"IREE {versions['iree']}, PyTorch {versions.get('torch', '-')}.\n\n"
            f"{_cpu_table(found)}\n"
        )
        waits = {n: ways for n, ways in found.items() if {"spinning", "sleeping"} <= {*ways}}
        if waits:
            text += f"{WAITS}\n\n{_waits_table(waits)}\n"
        steps = {n: ways for n, ways in found.items() if "torch steps" in ways}
        if steps:
            text += f"{IN_A_CALL}\n\n{_steps_table(steps)}\n"
    return text


def models_on_cpu() -> str:
    """A table for each machine and number of threads: ms, medians, and the best calls."""
    text = ""
    for name in MODELS_ON_CPU:
        results = load(name)
        text += f"{results.about['machine']}. {results.about.get('note', '')}\n\n"
        for threads in dict.fromkeys(row["threads"] for row in results.rows):
            rows = results.by_case(where=lambda row, of=threads: row["threads"] == of)
            lines = []
            for case, ways in rows.items():
                found = [ways.get(way, {}) for way in MODEL_WAYS]
                times = [f"{one['ms']:.4g} ({one['best']:.4g})" if one else "" for one in found]
                lines.append([case, *times, ", ".join(f"{w['error']:.0e}" for w in found if w)])
            heads = [f"layers, ms, threads: {threads}", *MODEL_WAYS.values(), "errors"]
            text += f"{table(heads, lines)}\n"
    return text.rstrip() + "\n"


def _cpu_table(cases: dict[str, Ways]) -> str:
    lines = []
    for name, row in cases.items():
        found = [row.get(way) for way in ("iree", "configured", "vectorized", "torch")]
        times = [f"{way['ms']:.4g}" if way else "" for way in found]
        ours = row["vectorized"]["ms"]
        gains = [f"{way['ms'] / ours:.2f}" if way else "" for way in (found[0], found[-1])]
        lines.append([name, *times, *gains, _errors(way for way in found if way)])
    head = ["attention, ms", "IREE", "configured", "vectorized", "PyTorch"]
    return table([*head, "over IREE", "over PyTorch", "errors"], lines)


def _errors(rows: Iterable[Row]) -> str:
    return ", ".join(f"{row['error']:.0e}" for row in rows)


def _waits_table(cases: dict[str, Ways]) -> str:
    """Ours and PyTorch with threads that sleep between calls, and with threads that spin."""
    lines = []
    for name, row in cases.items():
        cells: list[str] = []
        for pair in (("vectorized", "sleeping"), ("spinning", "torch")):
            ours, theirs = (row[way] for way in pair)
            cells += [f"{way['ms']:.3g} ({way['best']:.3g})" for way in (ours, theirs)]
            cells.append(f"{theirs['ms'] / ours['ms']:.2f} ({theirs['best'] / ours['best']:.2f})")
        lines.append([name, *cells])
    head = ["attention", "ours, sleeping", "PyTorch, sleeping", "gain"]
    return table([*head, "ours, spinning", "PyTorch, spinning", "gain"], lines)


def _steps_table(cases: dict[str, Ways]) -> str:
    lines = []
    for name, row in cases.items():
        names = ("iree", "vectorized", "torch", "spinning", "sleeping")
        iree, ours, torch, spinning, sleeping = (row[f"{way} steps"] for way in names)
        pairs = ((iree, ours), (torch, ours), (sleeping, ours), (torch, spinning))
        times = [f"{way['ms']:.3g}" for way in (iree, ours, torch)]
        gains = [f"{theirs['ms'] / mine['ms']:.2f}" for theirs, mine in pairs]
        lines.append([name, *times, *gains, _errors((iree, ours, torch))])
    head = ["attention", "IREE", "ours", "PyTorch", "over IREE", "over PyTorch"]
    return table([*head, "both sleeping", "both spinning", "errors"], lines)


# all


@dataclass(frozen=True)
class Block:
    """Text between two marks of a page, and the runs (files of bench/results) it is made of."""

    write: Callable[[], str]
    runs: tuple[str, ...] = ()

    def text(self) -> str:
        named = "".join(f"\n{_run(name)}" for name in self.runs)
        return self.write().rstrip() + "\n" + named


def _run(name: str) -> str:
    """The file that a table is made of, with its last run and those of rows from before."""
    found = load(name)
    last = (found.about["date"], found.about["commit"])
    # Rows of another run have what is not as it was in the last: a day, a commit, or both.
    before = {(one.get("date", last[0]), one.get("commit", last[1])) for one in found.rows}
    runs = [f"{day}, commit {commit}" for day, commit in (last, *sorted(before - {last}))]
    older = f"; rows from before: {'; '.join(runs[1:])}" if runs[1:] else ""
    return f"Run: `bench/results/{name}.json` ({runs[0]}{older}).\n"


CPUS = tuple(path.stem for path in sorted(FOLDER.glob("cpu*.json")))
BLOCKS: dict[tuple[str, str], Block] = {
    ("../README.md", "gains"): Block(gains),
    ("how-it-decides.md", "alone"): Block(
        value_layouts_alone, ("configure_h200", "configure_f32_h200", "kernels_h200")
    ),
    ("nvidia.md", "blocks"): Block(blocks_on_gpu, ("blocks_h200",)),
    ("nvidia.md", "products"): Block(product_kernels, ("product_kernels_h200",)),
    ("passes.md", "passes"): Block(pass_table.passes),
    ("notes/gpu.md", "prefill"): Block(prefill, ("configure_h200",)),
    ("notes/gpu.md", "other blocks"): Block(other_blocks_on_gpu, ("blocks_h200",)),
    ("notes/gpu.md", "blocks, H100"): Block(lambda: blocks_on_gpu("blocks_h100"), ("blocks_h100",)),
    ("notes/gpu.md", "other blocks, H100"): Block(
        lambda: other_blocks_on_gpu("blocks_h100"), ("blocks_h100",)
    ),
    ("notes/gpu.md", "f32"): Block(f32, ("configure_f32_h200",)),
    ("notes/gpu.md", "beside"): Block(beside_on_gpu, ("beside_h200",)),
    ("notes/kernels.md", "products"): Block(
        lambda: product_kernels("product_kernels_h100"), ("product_kernels_h100",)
    ),
    ("notes/kernels.md", "few rows"): Block(few_rows, ("product_kernels_h100",)),
    ("notes/kernels.md", "f32 products"): Block(f32_products, ("product_kernels_h200",)),
    ("notes/kernels.md", "together"): Block(products_together, ("product_kernels_h200",)),
    ("notes/kernels.md", "peers"): Block(kernel_peers, ("peers_h200",)),
    ("notes/kernels.md", "decode"): Block(kernel_decode, ("kernels_h200",)),
    ("notes/kernels.md", "prefill"): Block(kernel_prefill, ("kernels_h200",)),
    ("notes/kernels.md", "floats"): Block(kernel_floats, ("kernels_h200",)),
    ("notes/kernels.md", "widened"): Block(widened, ("kernels_h200",)),
    ("notes/kernels.md", "caps"): Block(caps, ("kernels_h200",)),
    ("notes/kernels.md", "thresholds"): Block(thresholds, ("kernels_h200",)),
    ("notes/cpu.md", "cpu"): Block(cpu, CPUS),
    ("notes/cpu.md", "models on cpu"): Block(models_on_cpu, MODELS_ON_CPU),
}


def write() -> None:
    for (page, name), block in BLOCKS.items():
        write_block(page, name, block.text())
