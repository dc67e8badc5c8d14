"""attn-vectorize-windows on llvm-cpu: right numbers from loops over images of any type, size, step
and gap, and from what stands behind them. All forms stand in one module."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from helpers import compile_text, on_cpu, rel_error, run_module, runs_here

from attnpass import Report

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# A CPU with registers of 64 bytes.
WIDE = "x86-64-v4"


@dataclass(frozen=True)
class Image:
    """A convolution of `images` (None: any number, 3 here) of `channels` and `pixels` with `count`
    filters of `kernel` taps, `step` and `gap` apart; each channel by itself where `count` is 0, and
    so many of both in each of some `groups`.
    `behind`: the largest of a sum with a bias and 0 is computed behind it; `started`: sums begin at
    a bias; `computed`: the factors are absolute values of what is given. `loops`: what the report
    says of it."""

    name: str
    pixels: tuple[int, ...]
    kernel: tuple[int, ...]
    channels: int
    count: int
    step: int = 1
    gap: int = 1
    kind: str = "f32"
    images: int | None = 1
    groups: int = 0
    started: bool = False
    computed: bool = False
    behind: bool = False
    loops: bool = True

    @property
    def result(self) -> list[int]:
        sizes = zip(self.pixels, self.kernel, strict=True)
        return [(size - (taps - 1) * self.gap - 1) // self.step + 1 for size, taps in sizes]

    @property
    def filters(self) -> tuple[int, ...]:
        """The sizes of the weights in front of the taps."""
        filters = (self.count, self.channels) if self.count else (self.channels,)
        return (self.groups, *filters) if self.groups else filters

    @property
    def op(self) -> str:
        if self.groups:
            return "conv_2d_ngchw_gfchw"
        if not self.count:
            return "depthwise_conv_2d_nchw_chw"
        return ("conv_1d_ncw_fcw", "conv_2d_nchw_fchw", "conv_3d_ncdhw_fcdhw")[len(self.kernel) - 1]

    def text(self) -> str:
        groups, dims = [self.groups] * bool(self.groups), len(self.pixels)

        def tensor(*sizes: int | str, kind: str = "f32") -> str:
            return f"tensor<{'x'.join(map(str, sizes))}x{kind}>"

        lead = [self.images or "?", *groups]
        x = tensor(*lead, self.channels, *self.pixels, kind=self.kind)
        w = tensor(*self.filters, *self.kernel, kind=self.kind)
        count = self.count or self.channels
        r, b = tensor(*lead, count, *self.result), tensor(count)
        names = ", ".join(f"d{n}" for n in range(dims + len(lead) + 1))
        same = f"affine_map<({names}) -> ({names})>"
        bias = f"affine_map<({names}) -> (d{len(lead)})>"
        kinds = ", ".join(['"parallel"'] * (dims + len(lead) + 1))
        factors = "%xa, %wa" if self.computed else "%x, %w"

        def absolute(name: str, kind: str) -> str:
            rank, element = kind.count("x"), self.kind
            dims = ", ".join(f"d{n}" for n in range(rank))
            whole = f"affine_map<({dims}) -> ({dims})>"
            loops = ", ".join(['"parallel"'] * rank)
            return f"""%{name}e = tensor.empty() : {kind}
  %{name}a = linalg.generic {{indexing_maps = [{whole}, {whole}], iterator_types = [{loops}]}}
      ins(%{name} : {kind}) outs(%{name}e : {kind}) {{
  ^bb0(%a: {element}, %o: {element}):
    %y = math.absf %a : {element}
    linalg.yield %y : {element}
  }} -> {kind}"""

        start = f"linalg.fill ins(%zero : f32) outs(%e : {r}) -> {r}"
        if self.started:
            rest = [dim for dim in range(dims + len(lead) + 1) if dim != len(lead)]
            start = f"linalg.broadcast ins(%b : {b}) outs(%e : {r}) dimensions = {rest}"
        text = f"""
func.func @{self.name}(%x: {x}, %w: {w}, %b: {b}) -> {r} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  {"" if self.images else f"%n = tensor.dim %x, %first : {x}"}
  %e = tensor.empty({"" if self.images else "%n"}) : {r}
  %f = {start}
  {absolute("x", x) if self.computed else ""}
  {absolute("w", w) if self.computed else ""}
  %p = linalg.{self.op} {{dilations = dense<{self.gap}> : vector<{dims}xi64>,
      strides = dense<{self.step}> : vector<{dims}xi64>}} ins({factors} : {x}, {w})
      outs(%f : {r}) -> {r}
"""
        if not self.behind:
            return text + f"  return %p : {r}\n}}\n"
        return f"""{text}
  %h = linalg.generic {{indexing_maps = [{same}, {bias}, {same}], iterator_types = [{kinds}]}}
      ins(%p, %b : {r}, {b}) outs(%e : {r}) {{
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %y = arith.maximumf %s, %zero : f32
    linalg.yield %y : f32
  }} -> {r}
  return %h : {r}
}}
"""

    def check(self, vmfb: bytes) -> None:
        random = np.random.default_rng(len(self.name))
        kind, lead = TYPES[self.kind], [self.images or 3, *[self.groups] * bool(self.groups)]
        sizes = (*lead, self.channels, *self.pixels)
        x = random.standard_normal(sizes, np.float32).astype(kind)
        w = random.standard_normal((*self.filters, *self.kernel), np.float32).astype(kind)
        b = random.standard_normal(self.count or self.channels, np.float32)
        given = [x, w, b]
        if self.computed:
            x, w = np.abs(x), np.abs(w)
        wanted = np.zeros((*lead, len(b), *self.result))
        terms = "goc,bgc...->bgo..." if self.groups else "oc,bc...->bo..."
        for tap in itertools.product(*map(range, self.kernel)):
            cut = tuple(
                slice(at * self.gap, at * self.gap + (size - 1) * self.step + 1, self.step)
                for at, size in zip(tap, self.result, strict=True)
            )
            seen = x[(*[slice(None)] * (len(lead) + 1), *cut)].astype(np.float64)
            weights = w[(..., *tap)].astype(np.float64)
            wanted += np.einsum(terms if self.count else "c,bc...->bc...", weights, seen)
        if self.behind or self.started:
            wanted += b.reshape(-1, *[1] * len(self.pixels))
        wanted = np.maximum(wanted, 0) if self.behind else wanted
        assert rel_error(run_module(vmfb, given, self.name), wanted) < 2e-6, self.name


IMAGES = (
    Image("three", (18, 34), (3, 3), 8, 16),
    # Vectors that overlap, rests of one vector, rows of one channel and of one line.
    Image("odd", (17, 30), (3, 3), 5, 14, behind=True),
    Image("lines", (12, 27), (3, 5), 3, 2),
    Image("prime", (7, 41), (2, 3), 4, 13, behind=True),
    Image("long", (5, 300), (3, 3), 4, 8),
    # Of the last two vectors, which go together as those before, one overlaps.
    Image("overlap", (5, 62), (3, 3), 4, 8),
    # Steps and gaps.
    Image("steps", (33, 57), (3, 3), 4, 8, step=2, behind=True),
    Image("even_steps", (20, 34), (2, 2), 4, 6, step=2),
    # What sums begin with stands in a tensor.
    Image("started", (18, 34), (3, 3), 4, 6, groups=2, started=True),
    Image("gaps", (22, 36), (3, 3), 4, 8, gap=2),
    Image("both", (41, 60), (3, 3), 4, 8, step=2, gap=3),
    # Many taps, short types, images of any number.
    Image("large", (13, 40), (9, 9), 2, 8),
    Image("half", (18, 34), (3, 3), 8, 16, kind="f16", behind=True),
    Image("brain", (18, 45), (3, 3), 4, 12, step=2, kind="bf16"),
    Image("images", (18, 34), (3, 3), 4, 8, images=2, behind=True),
    Image("any_images", (18, 34), (3, 3), 4, 8, images=None),
    Image("line", (133,), (3,), 8, 16, behind=True),
    Image("line_steps", (134,), (4,), 4, 8, step=2),
    # Lines of more pixels than what is behind has in registers are cut, if into equal parts.
    Image("long_line", (1002,), (3,), 8, 16, behind=True),
    Image("long_steps", (1201,), (3,), 4, 8, step=2, behind=True),
    Image("long_lines", (4, 1026), (3, 3), 4, 8, behind=True),
    Image("long_prime", (1011,), (3,), 8, 16, behind=True, loops=False),
    Image("solid", (5, 10, 18), (3, 3, 3), 4, 8),
    # Channels by themselves.
    Image("apart", (34, 34), (3, 3), 24, 0, behind=True),
    Image("apart_large", (22, 62), (7, 7), 6, 0),
    Image("apart_steps", (31, 65), (5, 5), 6, 0, step=2),
    Image("apart_half", (30, 30), (3, 3), 8, 0, kind="bf16", images=None),
    Image("apart_line", (1, 231), (1, 31), 8, 0),
    Image("computed", (18, 34), (3, 3), 6, 16, computed=True),
    Image("computed_apart", (18, 34), (3, 3), 8, 0, computed=True),
    Image("groups", (18, 34), (3, 3), 4, 6, groups=3, behind=True),
    # Vectors that are longer than a line.
    Image("seven", (9, 9), (3, 3), 6, 10, behind=True),
    Image("seven_steps", (15, 15), (3, 3), 3, 10, step=2, kind="bf16"),
    Image("fourteen", (16, 16), (3, 3), 6, 10, images=None),
    Image("apart_seven", (9, 9), (3, 3), 12, 0),
    Image("apart_thirteen", (17, 17), (5, 5), 5, 0, kind="f16"),
    # Vectors of several groups, of which the last has fewer.
    Image("seven_vectors", (4, 114), (3, 3), 4, 8),
    # Every second pixel of many channels, lines that fill no vectors.
    Image("many_steps", (33, 57), (3, 3), 8, 8, step=2, loops=False),
    Image("short", (7, 7), (3, 3), 16, 16, loops=False),
)


WAYS = [("host", "O2"), ("haswell", "O3"), (WIDE, "O0")]


@pytest.mark.parametrize(("cpu", "level"), WAYS)
def test_windows(cpu: str, level: str) -> None:
    report, images = Report(), on_cpu(IMAGES, cpu, WAYS)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-opt-level={level}"]
    text = "".join(image.text() for image in images)
    vmfb = compile_text(text, mode="cost", flags=flags, report=report)
    assert not report.found("fallback")
    loops = [one for one in report.found("loops") if one.details["lanes"] == "pixels"]
    kernels = sorted(one.op.function.partition("_dispatch_")[0] for one in loops)
    assert kernels == sorted(image.name for image in images if image.loops)
    for image in images if runs_here(cpu) else ():
        image.check(vmfb)
