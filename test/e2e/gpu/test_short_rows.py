"""Kernels that reduce many short rows in a workgroup, interpreted in numpy: norms of heads in the
forms that models write; and those that turn short lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gpu_module import behind_pass, lower, lowered, run_gpu_module
from helpers import compile_text, in_each_way, pairwise, rel_error, run_module

import attnpass
from attnpass import Report
from attnpass.gpu import full_workgroups, short_rows

CUDA = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "--iree-opt-level=O2")
_KINDS = {"f16": (np.float16, 2e-3), "f32": (np.float32, 1e-6)}
_MAPS = """
#all = affine_map<(t, h, d) -> (t, h, d)>
#turned = affine_map<(t, h, d) -> (h, t, d)>
#row = affine_map<(t, h, d) -> (t, h)>
#last = affine_map<(t, h, d) -> (d)>
"""


def _sum(name: str, source: str, kind: str, sizes: str, body: str, more: str = "") -> str:
    rows = f"tensor<{sizes.rpartition('x')[0]}xf32>"
    maps = "#all, #row, #row" if more else "#all, #row"
    values, types = (f"{source}, {more}", f"{kind}, {rows}") if more else (source, kind)
    scalars = "%a: KIND, %m: f32, %s: f32" if more else "%a: KIND, %s: f32"
    return f"""
  %{name}_space = tensor.empty() : {rows}
  %{name}_zero = linalg.fill ins(%zero : f32) outs(%{name}_space : {rows}) -> {rows}
  %{name} = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins({values} : {types}) outs(%{name}_zero : {rows}) {{
  ^bb0({scalars}):
    %b = WIDE
    {body}
    %t = arith.addf %y, %s : f32
    linalg.yield %t : f32
  }} -> {rows}"""


def _text(form: str, kind: str, tokens: int, heads: int, width: int) -> str:
    """An RMS norm, with the result (heads, tokens, width) where it is `turned`, or a layer norm."""
    sizes = f"{tokens}x{heads}x{width}"
    x, rows, w = (
        f"tensor<{sizes}x{kind}>",
        f"tensor<{tokens}x{heads}xf32>",
        f"tensor<{width}x{kind}>",
    )
    out = f"tensor<{heads}x{tokens}x{width}x{kind}>" if form == "turned" else x
    lines = ""
    if form == "layer":
        lines += _sum("mean", "%x", x, sizes, "%y = arith.divf %b, %count : f32")
        body = "%c = arith.subf %b, %m : f32\n    %e = arith.mulf %c, %c : f32\n    "
        lines += _sum("sum", "%x", x, sizes, f"{body}%y = arith.divf %e, %count : f32", "%mean")
    else:
        body = "%c = arith.mulf %b, %b : f32\n    %y = arith.divf %c, %count : f32"
        lines += _sum("sum", "%x", x, sizes, body)
    means = ", %mean" if form == "layer" else ""
    text = f"""{_MAPS}
func.func @main(%x: {x}, %w: {w}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant {width}.0 : f32
  %eps = arith.constant 1.0e-6 : f32
  {lines}
  %space = tensor.empty() : {out}
  %made = linalg.generic {{indexing_maps = [#all, #row, #last{", #row" if means else ""},
      {"#turned" if form == "turned" else "#all"}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%x, %sum, %w{means} : {x}, {rows}, {w}{", " + rows if means else ""})
      outs(%space : {out}) {{
  ^bb0(%a: KIND, %s: f32, %f: KIND, {"%m: f32, " if means else ""}%old: KIND):
    %b = WIDE
    %c = {"arith.subf %b, %m : f32" if means else "arith.addf %b, %zero : f32"}
    %p = arith.addf %s, %eps : f32
    %r = math.rsqrt %p : f32
    %n = arith.mulf %c, %r : f32
    %h = NARROW
    %y = arith.mulf %h, %f : KIND
    linalg.yield %y : KIND
  }} -> {out}
  return %made : {out}
}}"""
    wide = "arith.extf %a : f16 to f32" if kind == "f16" else "arith.addf %a, %zero : f32"
    narrow = "arith.truncf %n : f32 to f16" if kind == "f16" else "arith.addf %n, %zero : f32"
    return text.replace("WIDE", wide).replace("NARROW", narrow).replace("KIND", kind)


def _configured(text: str) -> tuple[str, int]:
    """The module with its kernels configured, and how many rows a workgroup takes."""
    configured, records = behind_pass(text, short_rows.ShortRows(), CUDA)
    return configured, int(records[0].details.get("rows", 0)) if records else 0


@pytest.mark.parametrize(
    ("form", "kind", "width"), pairwise(["rms", "turned", "layer"], _KINDS, [64, 128, 256])
)
def test_norms(form: str, kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_rows, "_WORKGROUPS", 2)
    # 16 bytes a lane; what is wider than a subgroup's lanes then read is left.
    wide = width * np.dtype(_KINDS[kind][0]).itemsize > 512
    assert _norm(form, kind, 16, width) == (0 if wide else 16)


@pytest.mark.parametrize(
    ("form", "width", "kind"), in_each_way([("rms", 77), ("layer", 531)], [*_KINDS])
)
def test_odd_norms(form: str, kind: str, width: int) -> None:
    """Rows that 32 lanes do not divide: in loops of ours, or by one subgroup or two of IREE's."""
    assert _norm(form, kind, 2, width) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(short_rows, "_emit_sums", lambda *_, **__: False)
        assert _norm(form, kind, 2, width) == 1


def test_odd_elements() -> None:
    """Rows that lanes do not divide, in two workgroups, the last of which is not full; written to
    lines of a buffer that are not side by side, too, whose masks IREE turns for two elements."""
    text = """
func.func @main(%x: tensor<3x77xf16>, %w: tensor<77xf16>, %o: tensor<3x5x77xf16>)
    -> (tensor<3x77xf16>, tensor<3x5x77xf16>) {
  %space = tensor.empty() : tensor<3x77xf16>
  %made = linalg.generic {indexing_maps = [affine_map<(t, d) -> (t, d)>,
      affine_map<(t, d) -> (d)>, affine_map<(t, d) -> (t, d)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x77xf16>, tensor<77xf16>) outs(%space : tensor<3x77xf16>) {
  ^bb0(%a: f16, %b: f16, %old: f16):
    %y = arith.mulf %a, %b : f16
    linalg.yield %y : f16
  } -> tensor<3x77xf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(t, d) -> (t, d)>,
      affine_map<(t, d) -> (d)>, affine_map<(t, d) -> (t, d)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<3x77xf16>, tensor<77xf16>) outs(%space : tensor<3x77xf16>) {
  ^bb0(%a: f16, %b: f16, %old: f16):
    %y = arith.addf %a, %b : f16
    linalg.yield %y : f16
  } -> tensor<3x77xf16>
  %all = tensor.insert_slice %sum into %o[0, 2, 0] [3, 1, 77] [1, 1, 1]
      : tensor<3x77xf16> into tensor<3x5x77xf16>
  return %made, %all : tensor<3x77xf16>, tensor<3x5x77xf16>
}"""
    flags = [*CUDA, "--compile-to=executable-configurations"]
    configured = attnpass.compile_str(text, extra_args=flags).decode()
    assert configured.count("lane_basis") == 2
    random = np.random.default_rng(1)
    x, w, old = (random.standard_normal(s).astype(np.float16) for s in ((3, 77), 77, (3, 5, 77)))
    made, found = run_gpu_module(lower(configured), [x, w, old])
    old[:, 2] = x + w
    assert np.array_equal(made, x * w) and np.array_equal(found, old)
    report = Report()
    attnpass.compile_str(text, report=report, extra_args=CUDA)
    assert not report.found("fallback")


def test_turned_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taps that lie behind channels are written in front of these, all by one thread."""
    text = """
func.func @main(%x: tensor<4x256x9xf16>) -> tensor<4x9x256xf16> {
  %space = tensor.empty() : tensor<4x9x256xf16>
  %made = linalg.transpose ins(%x : tensor<4x256x9xf16>) outs(%space : tensor<4x9x256xf16>)
      permutation = [0, 2, 1]
  return %made : tensor<4x9x256xf16>
}"""
    monkeypatch.setattr(full_workgroups, "_WORKGROUPS", 2)
    configured, found = behind_pass(text, full_workgroups.FullWorkgroups(), CUDA)
    assert [one.details["threads"] for one in found] == [128]
    x = np.random.default_rng(2).standard_normal((4, 256, 9)).astype(np.float16)
    (made,) = run_gpu_module(lower(configured), [x])
    assert np.array_equal(made, x.transpose(0, 2, 1))


def _norm(form: str, kind: str, tokens: int, width: int) -> int:
    """Checks a norm; returns how many rows a workgroup takes, 0 if it is left."""
    heads = 3
    text, rows = _configured(_text(form, kind, tokens, heads, width))
    numbers, bound = _KINDS[kind]
    random = np.random.default_rng(width)
    x = random.standard_normal((tokens, heads, width)).astype(numbers)
    w = random.standard_normal(width).astype(numbers)
    (found,) = run_gpu_module(lower(text), [x, w])
    wide = x.astype(float)
    if form == "layer":
        wide = wide - wide.mean(-1, keepdims=True)
    wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * w.astype(float)
    if form == "turned":
        wanted = wanted.transpose(1, 0, 2)
    assert rel_error(found, wanted) < bound
    return rows


@pytest.mark.parametrize(
    ("tokens", "heads", "width"), [(16, 3, 96), (15, 3, 128), (2, 1, 128), (16, 3, 40)]
)
def test_other_rows_are_left(tokens: int, heads: int, width: int) -> None:
    """No whole number of rows a subgroup; odd numbers of rows; too few of them; rows that are short
    enough for a thread."""
    assert _configured(_text("rms", "f16", tokens, heads, width))[1] == 0


def test_a_softmax_and_its_largest() -> None:
    """Both are results, of a number of elements that 32 does not divide."""
    kind, row = "!torch.vtensor<[2,1003],f32>", "!torch.vtensor<[2],f32>"
    program = f"""
func.func @main(%x: {kind}) -> ({kind}, {row}) {{
  %last = torch.constant.int -1
  %none = torch.constant.none
  %false = torch.constant.bool false
  %p = torch.aten.softmax.int %x, %last, %none : {kind}, !torch.int, !torch.none -> {kind}
  %dims = torch.prim.ListConstruct %last : (!torch.int) -> !torch.list<int>
  %m = torch.aten.amax %p, %dims, %false : {kind}, !torch.list<int>, !torch.bool -> {row}
  return %p, %m : {kind}, {row}
}}"""
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    report = Report()
    binary = attnpass.compile_str(program, input_type="torch", extra_args=flags, report=report)
    assert binary is not None and not report.events
    # The same for a CPU.
    x = np.random.default_rng(2).standard_normal((2, 1003)).astype(np.float32)
    chances, largest = run_module(compile_text(program, input_type="torch"), [x])
    right = np.exp(x.astype(np.float64))
    right /= right.sum(-1, keepdims=True)
    assert rel_error(chances, right) < 1e-5 and rel_error(largest, right.max(-1)) < 1e-5


def test_a_softmax_and_what_it_is_added_to() -> None:
    """Tacotron's weights, and their sum over its steps: one op of two results behind two sums."""
    text = """
func.func @main(%x: tensor<8x200xf32>, %c: tensor<8x200xf16>)
    -> (tensor<8x200xf16>, tensor<8x200xf16>) {
  %e = tensor.empty() : tensor<8x200xf32>
  %h = tensor.empty() : tensor<8x200xf16>
  %s = linalg.softmax dimension(1) ins(%x : tensor<8x200xf32>) outs(%e : tensor<8x200xf32>)
      -> tensor<8x200xf32>
  %t = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<8x200xf32>) outs(%h : tensor<8x200xf16>) {
  ^bb0(%a: f32, %o: f16):
    %z = arith.truncf %a : f32 to f16
    linalg.yield %z : f16
  } -> tensor<8x200xf16>
  %r = linalg.generic {indexing_maps = [#map, #map, #map],
      iterator_types = ["parallel", "parallel"]}
      ins(%t, %c : tensor<8x200xf16>, tensor<8x200xf16>) outs(%h : tensor<8x200xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %z = arith.addf %a, %b : f16
    linalg.yield %z : f16
  } -> tensor<8x200xf16>
  return %t, %r : tensor<8x200xf16>, tensor<8x200xf16>
}""".replace("#map", "affine_map<(i, j) -> (i, j)>")
    rng, report = np.random.default_rng(0), Report()
    scores = rng.standard_normal((8, 200)).astype(np.float32)
    before = rng.random((8, 200)).astype(np.float16)
    got = run_gpu_module(lowered(text, CUDA, report=report), [scores, before])
    assert any("threads of a workgroup share" in one.reason for one in report.found("fitted"))
    weights = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert rel_error(got[0], weights) < 1e-3
    assert rel_error(got[1], weights + before) < 1e-3


@pytest.mark.parametrize(
    ("rows", "size", "kind"),
    # In registers, with a last step that is not full; too long for that; of one element at a time;
    # and unknown numbers of rows, of which a workgroup takes one or several.
    [
        ("2", 8200, "f16"),
        ("2", 33000, "f32"),
        ("2", 4101, "f16"),
        ("?", 8192, "f32"),
        ("?", 136, "f16"),
    ],
)
def test_long_rows(rows: str, size: int, kind: str) -> None:
    """A softmax over a vocabulary, with words that are never taken, by a workgroup's threads."""
    tensor = f"tensor<{rows}x{size}x{kind}>"
    text = f"""
func.func @main(%x: {tensor}) -> {tensor} {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {tensor}
  %e = tensor.empty({"%n" if rows == "?" else ""}) : {tensor}
  %p = linalg.softmax dimension(1) ins(%x : {tensor}) outs(%e : {tensor}) -> {tensor}
  return %p : {tensor}
}}"""
    report = Report()
    module = lowered(text, [*CUDA[:1], "--iree-cuda-target=sm_90", *CUDA[2:]], report=report)
    (fitted,) = report.found("fitted")
    threads = 1024 if size > 16384 else 512 if size > 4096 else 256
    assert fitted.details["threads"] == threads
    x = 4 * np.random.default_rng(size).standard_normal((2 if size > 4096 else 37, size))
    x[0, 5::7] = -np.inf
    x[1] += 90
    x = x.astype(_KINDS[kind][0])
    (found,) = run_gpu_module(module, [x])
    right = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    right /= right.sum(-1, keepdims=True)
    assert rel_error(found, right) < (1e-3 if kind == "f16" else 3e-7)
    assert not found[0, 5::7].any()


@pytest.mark.parametrize("shape", [(2, 12, 6, 8), (1, 8, 20, 64)])
def test_group_norms(shape: tuple[int, ...]) -> None:
    """Of four groups: one kernel, with the weights of the channels and what comes behind."""
    batch, channels = shape[:2]
    each = math.prod(shape[1:]) // 4
    x, w, flat, wide, mean = (
        f"tensor<{sizes}>"
        for sizes in (
            "x".join(map(str, shape)) + "xf16",
            f"{channels}xf16",
            f"{batch}x{4 * each}xf32",
            f"{batch}x4x{each}xf32",
            f"{batch}x4x1xf32",
        )
    )
    image = x.replace("f16", "f32")
    maps = "#all = affine_map<(b, g, i) -> (b, g, i)>\n#one = affine_map<(b, g, i) -> (b, g, 0)>"
    kinds = 'iterator_types = ["parallel", "parallel", '
    text = f"""
{maps}
#image = affine_map<(b, c, y, x) -> (b, c, y, x)>
#channel = affine_map<(b, c, y, x) -> (c)>
func.func @main(%x: {x}, %w: {w}, %c: {w}) -> {x} {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant {each}.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %h0 = tensor.empty() : {image}
  %u = linalg.generic {{indexing_maps = [#image, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%x : {x}) outs(%h0 : {image}) {{
  ^bb0(%a: f16, %o: f32):
    %b = arith.extf %a : f16 to f32
    linalg.yield %b : f32
  }} -> {image}
  %joined = tensor.collapse_shape %u [[0], [1, 2, 3]] : {image} into {flat}
  %groups = tensor.expand_shape %joined [[0], [1, 2]] output_shape [{batch}, 4, {each}]
      : {flat} into {wide}
  %e = tensor.empty() : {mean}
  %n = linalg.fill ins(%zero : f32) outs(%e : {mean}) -> {mean}
  %s = linalg.generic {{indexing_maps = [#all, #one], {kinds}"reduction"]}}
      ins(%groups : {wide}) outs(%n : {mean}) {{
  ^bb0(%a: f32, %o: f32):
    %d = arith.divf %a, %count : f32
    %t = arith.addf %d, %o : f32
    linalg.yield %t : f32
  }} -> {mean}
  %f = tensor.empty() : {wide}
  %m = linalg.generic {{indexing_maps = [#all, #one, #all], {kinds}"parallel"]}}
      ins(%groups, %s : {wide}, {mean}) outs(%f : {wide}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  }} -> {wide}
  %v = linalg.generic {{indexing_maps = [#all, #one], {kinds}"reduction"]}}
      ins(%m : {wide}) outs(%n : {mean}) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    %d = arith.divf %b, %count : f32
    %t = arith.addf %d, %o : f32
    linalg.yield %t : f32
  }} -> {mean}
  %y = linalg.generic {{indexing_maps = [#all, #one, #all], {kinds}"parallel"]}}
      ins(%m, %v : {wide}, {mean}) outs(%f : {wide}) {{
  ^bb0(%a: f32, %q: f32, %o: f32):
    %b = arith.addf %q, %eps : f32
    %d = math.rsqrt %b : f32
    %t = arith.mulf %a, %d : f32
    linalg.yield %t : f32
  }} -> {wide}
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : {wide} into {flat}
  %image = tensor.expand_shape %flat [[0], [1, 2, 3]] output_shape {[*shape]}
      : {flat} into {image}
  %i = tensor.empty() : {x}
  %z = linalg.generic {{indexing_maps = [#image, #channel, #channel, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%image, %w, %c : {image}, {w}, {w}) outs(%i : {x}) {{
  ^bb0(%a: f32, %k: f16, %l: f16, %o: f16):
    %g = arith.extf %k : f16 to f32
    %h = arith.extf %l : f16 to f32
    %b = arith.mulf %a, %g : f32
    %d = arith.addf %b, %h : f32
    %t = arith.truncf %d : f32 to f16
    linalg.yield %t : f16
  }} -> {x}
  return %z : {x}
}}"""
    module = lowered(text, CUDA)
    assert str(module).count("hal.executable.export") == 1
    random = np.random.default_rng(channels)
    given = [
        (random.standard_normal(s) + 0.5).astype(np.float16) for s in (shape, *[(channels,)] * 2)
    ]
    (found,) = run_gpu_module(module, given)
    wide, weight, bias = (one.astype(np.float64) for one in given)
    groups = wide.reshape(shape[0], 4, -1)
    groups = groups - groups.mean(-1, keepdims=True)
    groups /= np.sqrt((groups**2).mean(-1, keepdims=True) + 1e-5)
    right = groups.reshape(shape) * weight[:, None, None] + bias[:, None, None]
    assert rel_error(found, right) < 2e-3
