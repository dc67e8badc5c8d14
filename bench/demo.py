"""What `make run` shows: a grouped-query Llama layer, compiled with and without the passes.

Compiles a prefill and a decode step for llvm-cpu as iree-compile does and with the passes in
modes `always` and `cost`, runs all, checks the numbers, and prints for each attention what
was decided and why. Then times a longer prefill, compiled for this machine's CPU, with the
attention configured. Exits with 1 if a number is wrong.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

from attnpass import Report
from attnpass.pipeline import default_pipeline
from attnpass.report.text import sentences
from bench.models import llama
from bench.models.check import HOST, build, compile_model, loaded, worst_error
from bench.models.flow import read_flow
from bench.models.trace import Model
from bench.timing import call_seconds

TOLERANCE = 1e-5
CASES = {
    "prefill, 32 rows: V comes from a projection": llama.prefill,
    "decode, 1 row over 63 cached keys: V comes from the cache": llama.decode,
}
ROWS = 512
SIZES = llama.Sizes(model=256, heads=8, kv_heads=2, dim=64, hidden=512)
CONFIGURED = default_pipeline("cost", configure=True, hardware_exp2=False, shared_memory=False)
ROUNDS = 7


def main() -> int:
    started = time.perf_counter()
    print("A Llama layer (8 query heads over 2 key/value heads, rotary embedding, SwiGLU)")
    print("compiled for llvm-cpu by IREE alone and with attnpass, checked against numpy.")
    results = [show(title, make) for title, make in CASES.items()]
    results.append(show_speed())
    print(f"\n{'All numbers are right' if all(results) else 'WRONG NUMBERS'}; ", end="")
    print(f"{time.perf_counter() - started:.0f} s.")
    return 0 if all(results) else 1


def show(title: str, make: Callable[[], Model]) -> bool:
    """Compiles and runs one layer in all ways; returns whether all numbers are right."""
    model = make()
    print(f"\n== {title}\n")
    print(f"  {'compiled by':30s} {'dispatches':>10s} {'V map ends in':>14s} {'error':>9s}")
    good, reports = True, {}
    for name, mode in [
        ("iree-compile", None),
        ("attn-compile, mode always", "always"),
        ("attn-compile, mode cost", "cost"),
    ]:
        built = build(model, mode)
        flow = read_flow(built.flow)
        error = worst_error(built.vmfb, model)
        good &= error < TOLERANCE
        inner = ", ".join("k2" if t else "n" for t in flow.v_innermost)
        print(f"  {name:30s} {len(flow.dispatches):10d} {inner:>14s} {error:9.1e}")
        if mode:
            reports[mode] = built.report
    for report in reports.values():
        text = re.sub(r"(/\S*|<stdin>|-):(\d+):\d+", r"line \2", report.to_text())
        print("\n" + "".join(f"  {line}\n" for line in text.splitlines()), end="")
    return good


def show_speed() -> bool:
    """Times a prefill compiled for this CPU, in turns; returns whether the numbers are right."""
    model = llama.prefill(rows=ROWS, sizes=SIZES)
    report = Report()
    flags = [f"--attn-pipeline={CONFIGURED}"]
    programs = {
        "iree-compile": compile_model(model, None, cpu=HOST),
        "attn-compile, configured": compile_model(model, "cost", flags, report, HOST),
    }
    errors = {name: worst_error(program, model) for name, program in programs.items()}
    calls = {name: loaded(program, model.inputs) for name, program in programs.items()}
    print(f"\n== prefill, {ROWS} rows, head dim {SIZES.dim}, for this machine's CPU\n")
    print(f"  {'compiled by':30s} {'ms a layer':>10s} {'error':>24s}")
    for name, seconds in call_seconds(calls, ROUNDS).items():
        print(f"  {name:30s} {seconds * 1e3:10.1f} {errors[name]:24.1e}")
    for sentence in sentences(report):
        print(f"\n  {sentence}")
    return max(errors.values()) < TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
