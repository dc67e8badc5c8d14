"""Rotary embedding in the forms that models write, and weights of 4 bits, for CUDA, kernels
interpreted in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_module import lower, run_gpu_module
from helpers import pairwise, rel_error

import attnpass

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90")
ROWS, HEADS, WIDTH = 6, 2, 32
HALF = WIDTH // 2
KINDS = {"f16": np.float16, "f32": np.float32}


class Text:
    """A function of rows of heads x, and of cosines and sines (rows, half of a head)."""

    def __init__(self, kind: str, rows: str):
        self.kind, self.rows, self.lines, self.count = kind, rows, [], 0
        self.count_of_rows = "%rows" if rows == "?" else ""

    def type(self, *sizes: int, kind: str = "") -> str:
        return f"tensor<{'x'.join([self.rows, *map(str, sizes)])}x{kind or self.kind}>"

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def part(self, value: str, start: int, sizes: tuple[int, ...], whole: tuple[int, ...]) -> str:
        """From `start` along the last dim."""
        found, rows = self.name(), self.count_of_rows or self.rows
        starts = ", ".join(["0"] * len(sizes) + [str(start)])
        steps = ", ".join(["1"] * (len(sizes) + 1))
        wanted = ", ".join([rows, *map(str, sizes)])
        self.lines.append(
            f"{found} = tensor.extract_slice {value}[{starts}] [{wanted}] [{steps}] : "
            f"{self.type(*whole)} to {self.type(*sizes)}"
        )
        return found

    def made(self, sizes: tuple[int, ...], values: list[str], body: list[str]) -> str:
        """An elementwise op; of `values` cosines and sines have no dim of heads, and none behind
        their own."""
        found, space, out = self.name(), self.name(), self.type(*sizes)
        loops = [f"d{at}" for at in range(len(sizes) + 1)]
        maps, types = [], []
        for value in values:
            angle = value in ("%cos", "%sin")
            read = [loops[0], loops[2]] if angle else loops
            maps.append(f"affine_map<({', '.join(loops)}) -> ({', '.join(read)})>")
            types.append(self.type(HALF) if angle else out)
        maps.append(f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>")
        iterators = ", ".join(['"parallel"'] * len(loops))
        scalars = ", ".join(f"%a{at}: {self.kind}" for at in range(len(values) + 1))
        self.lines += [
            f"{space} = tensor.empty({self.count_of_rows}) : {out}",
            f"{found} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f"iterator_types = [{iterators}]}} ins({', '.join(values)} : {', '.join(types)}) "
            f"outs({space} : {out}) {{",
            f"^bb0({scalars}):",
            *(line.replace("KIND", self.kind) for line in body),
            f"linalg.yield %y : {self.kind}",
            f"}} -> {out}",
        ]
        return found

    def joined(self, values: list[str], sizes: tuple[int, ...], dim: int) -> str:
        found, one = self.name(), self.type(*sizes)
        whole = [*sizes]
        whole[dim - 1] *= len(values)
        self.lines.append(
            f"{found} = tensor.concat dim({dim}) {', '.join(values)} : "
            f"({', '.join([one] * len(values))}) -> {self.type(*whole)}"
        )
        return found

    def apart(self, value: str, sizes: tuple[int, ...], whole: tuple[int, ...]) -> str:
        """As `sizes`, by way of a shape in memory where the rows are unknown."""
        found = self.name()
        if not self.count_of_rows:
            self.lines.append(
                f"{found} = tensor.expand_shape {value} [[0], [1], [2, 3]] output_shape "
                f"{[ROWS, *sizes]} : {self.type(*whole)} into {self.type(*sizes)}"
            )
            return found
        numbers = [f"{found}_{at}" for at in range(len(sizes))]
        self.lines += [
            f"{name} = arith.constant {size} : index"
            for name, size in zip(numbers, sizes, strict=True)
        ]
        shape = f"tensor<{len(sizes) + 1}xindex>"
        self.lines += [
            f"{found}_s = tensor.from_elements {', '.join(['%rows', *numbers])} : {shape}",
            f"{found} = tensor.reshape {value}({found}_s) : ({self.type(*whole)}, {shape}) -> "
            f"{self.type(*sizes)}",
        ]
        return found

    def whole(self, result: str) -> str:
        x, angle = self.type(HEADS, WIDTH), self.type(HALF)
        rows = f"%zero = arith.constant 0 : index\n%rows = tensor.dim %x, %zero : {x}\n"
        body = "\n".join(self.lines)
        return (
            f"func.func @main(%x: {x}, %cos: {angle}, %sin: {angle}) -> {x} {{\n"
            f"{rows if self.count_of_rows else ''}{body}\nreturn {result} : {x}\n}}"
        )


def turned(sign: str, kind: str) -> list[str]:
    """`a0` times the cosine, and `a1` times the sine added or subtracted, computed in f32."""
    wide = [f"%w{at} = arith.extf %a{at} : {kind} to f32" for at in range(4)]
    w, y = ("a", "y") if kind == "f32" else ("w", "z")
    return [
        *(wide if kind != "f32" else []),
        f"%p = arith.mulf %{w}0, %{w}2 : f32",
        f"%q = arith.mulf %{w}1, %{w}3 : f32",
        f"%{y} = arith.{sign}f %p, %q : f32",
        *([f"%y = arith.truncf %z : f32 to {kind}"] if kind != "f32" else []),
    ]


def halves(text: Text) -> str:
    """Both halves computed, and put side by side."""
    sizes = (HEADS, HALF)
    a, b = (text.part("%x", at, sizes, (HEADS, WIDTH)) for at in (0, HALF))
    first = text.made(sizes, [a, b, "%cos", "%sin"], turned("sub", text.kind))
    second = text.made(sizes, [b, a, "%cos", "%sin"], turned("add", text.kind))
    return text.joined([first, second], sizes, 2)


def swapped(text: Text) -> str:
    """The negated second half in front of the first one, as Llama has it."""
    sizes, whole = (HEADS, HALF), (HEADS, WIDTH)
    a, b = (text.part("%x", at, sizes, whole) for at in (0, HALF))
    negated = text.made(sizes, [b], ["%y = arith.negf %a0 : KIND"])
    other = text.joined([negated, a], sizes, 2)
    cosines, sines = text.name(), text.name()
    for name, angle in ((cosines, "%cos"), (sines, "%sin")):
        half, both = text.type(HALF), text.type(WIDTH)
        text.lines.append(
            f"{name} = tensor.concat dim(1) {angle}, {angle} : ({half}, {half}) -> {both}"
        )
    out, space, found = text.type(*whole), text.name(), text.name()
    same, angle = "affine_map<(a, b, c) -> (a, b, c)>", "affine_map<(a, b, c) -> (a, c)>"
    scalars = ", ".join(f"%a{at}: {text.kind}" for at in range(5))
    swap = [line.replace("%a1", "%A").replace("%a2", "%a1") for line in turned("add", text.kind)]
    text.lines += [
        f"{space} = tensor.empty({text.count_of_rows}) : {out}",
        f"{found} = linalg.generic {{indexing_maps = [{same}, {angle}, {same}, {angle}, {same}], "
        'iterator_types = ["parallel", "parallel", "parallel"]} '
        f"ins(%x, {cosines}, {other}, {sines} : {out}, {text.type(WIDTH)}, {out}, "
        f"{text.type(WIDTH)}) outs({space} : {out}) {{",
        f"^bb0({scalars}):",
        *(line.replace("%A", "%a2") for line in swap),
        f"linalg.yield %y : {text.kind}",
        f"}} -> {out}",
    ]
    return found


def pairs(text: Text) -> str:
    """Neighbours are turned, as GPT-J has them."""
    sizes, cut = (HEADS, HALF, 1), (HEADS, HALF, 2)
    both = text.apart("%x", cut, (HEADS, WIDTH))
    a, b = (text.part(both, at, sizes, cut) for at in (0, 1))
    first = text.made(sizes, [a, b, "%cos", "%sin"], turned("sub", text.kind))
    second = text.made(sizes, [b, a, "%cos", "%sin"], turned("add", text.kind))
    joined, found = text.joined([first, second], sizes, 3), text.name()
    text.lines.append(
        f"{found} = tensor.collapse_shape {joined} [[0], [1], [2, 3]] : "
        f"{text.type(*cut)} into {text.type(HEADS, WIDTH)}"
    )
    return found


def wanted(form: str, x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    x, cos, sin = (one.astype(float) for one in (x, cos, sin))
    cos, sin = cos[:, None], sin[:, None]
    first, second = (
        (x[..., ::2], x[..., 1::2]) if form == "pairs" else (x[..., :HALF], x[..., HALF:])
    )
    turned_pair = first * cos - second * sin, second * cos + first * sin
    if form == "pairs":
        return np.stack(turned_pair, -1).reshape(x.shape)
    return np.concatenate(turned_pair, -1)


@pytest.mark.parametrize(
    ("form", "kind", "rows"), pairwise([halves, swapped, pairs], KINDS, [str(ROWS), "?"])
)
def test_a_form_is_one_kernel_of_right_numbers(form: object, kind: str, rows: str) -> None:
    text = Text(kind, rows)
    program = text.whole(form(text))  # type: ignore[operator]
    flags = [*CUDA, "--compile-to=executable-configurations"]
    module = attnpass.compile_str(program, extra_args=flags)
    assert module is not None
    lowered = lower(module.decode())
    if rows != "?":
        assert str(lowered).count("stream.cmd.dispatch") == 1
    random = np.random.default_rng(3)
    shapes = [(ROWS, HEADS, WIDTH), (ROWS, HALF), (ROWS, HALF)]
    given = [random.standard_normal(shape).astype(KINDS[kind]) for shape in shapes]
    (found,) = run_gpu_module(lowered, given)
    name = form.__name__  # type: ignore[attr-defined]
    assert rel_error(found, wanted(name, *given)) < (1e-3 if kind == "f16" else 1e-6)


def heads_in_front(kind: str, rows: str) -> str:
    """Rows of heads that lie a head at a time: IREE joins a row's dims with the number of rows."""
    count = "%rows" if rows == "?" else rows
    whole, half, angle = (
        f"tensor<{shape}x{kind}>"
        for shape in (f"{HEADS}x{rows}x{WIDTH}", f"{HEADS}x{rows}x{HALF}", f"{rows}x{WIDTH}")
    )
    known, sizes = "()" if rows != "?" else "(%rows)", f"{HEADS}, {count}, {HALF}"
    same, read = "affine_map<(h, r, d) -> (h, r, d)>", "affine_map<(h, r, d) -> (r, d)>"
    loops = 'iterator_types = ["parallel", "parallel", "parallel"]'
    body = "\n".join(turned("add", kind))
    return f"""
func.func @main(%x: {whole}, %cos: {angle}, %sin: {angle}) -> {whole} {{
  %one = arith.constant 1 : index
  %rows = tensor.dim %x, %one : {whole}
  %a = tensor.extract_slice %x[0, 0, 0] [{sizes}] [1, 1, 1] : {whole} to {half}
  %b = tensor.extract_slice %x[0, 0, {HALF}] [{sizes}] [1, 1, 1] : {whole} to {half}
  %none = tensor.empty{known} : {half}
  %negated = linalg.generic {{indexing_maps = [{same}, {same}], {loops}}}
      ins(%b : {half}) outs(%none : {half}) {{
  ^bb0(%e: {kind}, %out: {kind}):
    %n = arith.negf %e : {kind}
    linalg.yield %n : {kind}
  }} -> {half}
  %other = tensor.concat dim(2) %negated, %a : ({half}, {half}) -> {whole}
  %space = tensor.empty{known} : {whole}
  %made = linalg.generic {{indexing_maps = [{same}, {same}, {read}, {read}, {same}], {loops}}}
      ins(%x, %other, %cos, %sin : {whole}, {whole}, {angle}, {angle}) outs(%space : {whole}) {{
  ^bb0(%a0: {kind}, %a1: {kind}, %a2: {kind}, %a3: {kind}, %out: {kind}):
    {body}
    linalg.yield %y : {kind}
  }} -> {whole}
  return %made : {whole}
}}"""


@pytest.mark.parametrize("rows", [str(ROWS), "?"])
@pytest.mark.parametrize("kind", KINDS)
def test_joined_rows_are_read_as_heads(kind: str, rows: str) -> None:
    flags = [*CUDA, "--compile-to=executable-configurations"]
    module = attnpass.compile_str(heads_in_front(kind, rows), extra_args=flags)
    assert module is not None
    text = module.decode()
    # Neighbours are read at once where no index is divided.
    assert "arith.remsi" not in text and f"x2x{HALF}x{kind}" in text
    random = np.random.default_rng(5)
    x = random.standard_normal((ROWS, HEADS, WIDTH)).astype(KINDS[kind])
    cos, sin = random.standard_normal((2, ROWS, HALF)).astype(KINDS[kind])
    given = [x.transpose(1, 0, 2).copy(), *(np.concatenate([one, one], 1) for one in (cos, sin))]
    (found,) = run_gpu_module(lower(text), given)
    right = wanted("halves", x, cos, sin).transpose(1, 0, 2)
    assert rel_error(found, right) < (1e-3 if kind == "f16" else 1e-6)


def test_weights_of_four_bits_are_one_kernel() -> None:
    """Two lie in a byte, each 8 share a scale; those of the lit test."""
    given = (Path(__file__).parents[2] / "fuse-pieces" / "nibbles.mlir").read_text()
    maps = [line for line in given.splitlines() if line.startswith("#")]
    function = given[given.index("func.func @nibbles(%") :].partition("\n}\n")[0] + "\n}"
    program = "\n".join([*maps, function.replace("@nibbles", "@main")])
    flags = [*CUDA, "--compile-to=executable-configurations"]
    module = attnpass.compile_str(program, extra_args=flags)
    assert module is not None
    lowered = lower(module.decode())
    assert str(lowered).count("stream.cmd.dispatch") == 1
    random = np.random.default_rng(7)
    packed = random.integers(0, 256, (16, 16)).astype(np.uint8)
    scale = random.standard_normal((16, 4)).astype(np.float16)
    (found,) = run_gpu_module(lowered, [packed.view(np.int8), scale])
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(16, 4, 8)
    assert np.array_equal(found, numbers.astype(np.float16) * scale[..., None])
