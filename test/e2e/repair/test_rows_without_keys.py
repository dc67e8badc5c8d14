"""Rows of attention that see no key, over all forms of masks: 0, or the mean of V where keys are
hidden by the lowest finite number; and the rows beside them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from gpu_module import lowered, run_gpu_module
from helpers import compile_text, rel_error, run_module, thinned

SIZES = {"b": 2, "m": 16, "n": 16, "k": 16, "j": 24, "p": 4, "s": 6}
TYPES = {
    "i1": bool,
    "packed": bool,
    "i8": np.int8,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}
TOLERANCE = {"f32": 2e-5, "f16": 5e-3, "bf16": 2e-2}
SCALE = 0.25


@dataclass(frozen=True)
class Form:
    """One attention: letters of Q, K, V, the mask and the result (b batch, m rows, n and k head
    dims, j keys, or p and s where keys have two dims), types, what hides keys, sizes."""

    mask: str = "bmj"
    kind: str = "i1"
    hides: str = "infinity"
    op: str = "attention"
    query: str = "bmk"
    key: str = "bjk"
    value: str = "bjn"
    result: str = "bmn"
    rows: int = 16
    keys: int = 24
    dynamic: str = ""
    element: str = "f32"

    @property
    def name(self) -> str:
        words = [self.op, self.element, self.query, self.key, self.value, self.result]
        words += [f"m{self.mask}", self.kind, self.hides, f"r{self.rows}", f"k{self.keys}"]
        return "_".join([*words, *([f"d{self.dynamic}"] if self.dynamic else [])])

    def size(self, letter: str) -> int:
        return {**SIZES, "m": self.rows, "j": self.keys}[letter]

    def shape(self, letters: str) -> tuple[int, ...]:
        return tuple(map(self.size, letters))

    def tensor(self, letters: str, element: str) -> str:
        sizes = ["?" if letter in self.dynamic else str(self.size(letter)) for letter in letters]
        return f"tensor<{'x'.join([*sizes, element])}>"

    @property
    def iteration(self) -> str:
        return "".join(dict.fromkeys(self.query + self.result + self.key))

    def map(self, letters: str) -> str:
        return f"affine_map<({', '.join(self.iteration)}) -> ({', '.join(letters)})>"

    def function(self) -> str:
        """The attention as a function of Q, K, V and the mask."""
        rows = self.result.replace("n", "")
        given = {"q": self.query, "k": self.key, "v": self.value}
        types = {name: self.tensor(letters, self.element) for name, letters in given.items()}
        arguments = [f"%{name}: {kind}" for name, kind in types.items()]
        lines, operands, maps = [], ["%q", "%k", "%v", "%scale"], [*given.values(), ""]
        kinds = [*types.values(), "f32"]
        if self.mask:
            maps.append(self.mask)
            operands.append("%mask")
            kinds.append(self._mask_type())
            if self.kind == "packed":
                count = int(np.prod(self.shape(self.mask))) // 8
                arguments.append(f"%bytes: tensor<{count}xi8>")
                lines.append(
                    f"%mask = flow.tensor.bitcast %bytes : tensor<{count}xi8> -> {kinds[-1]}"
                )
            else:
                arguments.append(f"%mask: {kinds[-1]}")
        lines += self._sizes(given)
        out = self.tensor(self.result, self.element)
        if self.op == "attention":
            attend = self._attend("%r", maps, operands, kinds, {"%e": (self.result, self.element)})
            lines += [self._empty("%e", self.result, self.element), *attend]
        else:
            lines += self._online(rows, maps, operands, kinds)
        body = "\n  ".join(lines)
        return (
            f"func.func @{self.name}({', '.join(arguments)}) -> {out} {{\n"
            f"  %scale = arith.constant {SCALE} : f32\n  {body}\n  return %r : {out}\n}}\n"
        )

    def _mask_type(self) -> str:
        if self.kind != "packed":
            return self.tensor(self.mask, self.kind)
        return self.tensor(self.mask, "i1, #iree_encoding.packed_storage")

    def _sizes(self, given: dict[str, str]) -> list[str]:
        lines = []
        for letter in self.dynamic:
            name = next(name for name, letters in given.items() if letter in letters)
            place = given[name].index(letter)
            kind = self.tensor(given[name], self.element)
            lines += [
                f"%c_{letter} = arith.constant {place} : index",
                f"%n_{letter} = tensor.dim %{name}, %c_{letter} : {kind}",
            ]
        return lines

    def _empty(self, name: str, letters: str, element: str) -> str:
        sizes = ", ".join(f"%n_{letter}" for letter in letters if letter in self.dynamic)
        return f"{name} = tensor.empty({sizes}) : {self.tensor(letters, element)}"

    def _attend(
        self,
        name: str,
        maps: list[str],
        operands: list[str],
        kinds: list[str],
        outputs: dict[str, tuple[str, str]],
    ) -> list[str]:
        types = [self.tensor(*output) for output in outputs.values()]
        indexing = ", ".join(map(self.map, [*maps, *(letters for letters, _ in outputs.values())]))
        op = "attention" if len(outputs) == 1 else "online_attention"
        return [
            f"{name} = iree_linalg_ext.{op} <indexing_maps = [{indexing}]>",
            f"  ins({', '.join(operands)} : {', '.join(kinds)})",
            f"  outs({', '.join(outputs)} : {', '.join(types)}) {{",
            "^bb0(%x: f32):",
            "  iree_linalg_ext.yield %x : f32",
            f"}} -> {', '.join(types)}",
        ]

    def _online(
        self, rows: str, maps: list[str], operands: list[str], kinds: list[str]
    ) -> list[str]:
        """online_attention and a division that reads the sum in two steps, so that it stays."""
        lines = []
        for name, letters, start in (
            ("acc", self.result, "0.0"),
            ("max", rows, "-3.40282347E+38"),
            ("sum", rows, "0.0"),
        ):
            kind = self.tensor(letters, "f32")
            lines += [
                self._empty(f"%e_{name}", letters, "f32"),
                f"%c_{name} = arith.constant {start} : f32",
                f"%{name} = linalg.fill ins(%c_{name} : f32) outs(%e_{name} : {kind}) -> {kind}",
            ]
        outputs = {"%acc": (self.result, "f32"), "%max": (rows, "f32"), "%sum": (rows, "f32")}
        lines += self._attend("%o:3", maps, operands, kinds, outputs)
        everywhere, of_rows = (
            f"affine_map<({', '.join(self.result)}) -> ({', '.join(letters)})>"
            for letters in (self.result, rows)
        )
        many, few = self.tensor(self.result, "f32"), self.tensor(rows, "f32")
        kind = self.tensor(self.result, self.element)
        parallel = ", ".join(['"parallel"'] * len(rows))
        narrow = self.element != "f32"
        same = f"affine_map<({', '.join(rows)}) -> ({', '.join(rows)})>"
        return [
            *lines,
            f"%inverse = linalg.generic {{indexing_maps = [{same}, {same}],",
            f"    iterator_types = [{parallel}]}} ins(%o#2 : {few}) outs(%e_sum : {few}) {{",
            "^bb0(%x: f32, %y: f32):",
            "  %one = arith.constant 1.0 : f32",
            "  %z = arith.divf %one, %x : f32",
            "  linalg.yield %z : f32",
            f"}} -> {few}",
            self._empty("%e", self.result, self.element),
            f"%r = linalg.generic {{indexing_maps = [{everywhere}, {of_rows}, {everywhere}],",
            f'    iterator_types = [{parallel}, "parallel"]}}',
            f"    ins(%o#0, %inverse : {many}, {few}) outs(%e : {kind}) {{",
            f"^bb0(%x: f32, %y: f32, %w: {self.element}):",
            "  %z = arith.mulf %x, %y : f32",
            *(["  %t = arith.truncf %z : f32 to " + self.element] if narrow else []),
            f"  linalg.yield {'%t' if narrow else '%z'} : {self.element}",
            f"}} -> {kind}",
        ]

    def inputs(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Inputs from a seed, and what is right."""
        random = np.random.default_rng(len(self.name))
        element = TYPES[self.element]
        given = [
            random.standard_normal(self.shape(letters)).astype(element)
            for letters in (self.query, self.key, self.value)
        ]
        if not self.mask:
            return given, self.reference(given, np.zeros(()))
        seen = random.random(self.shape(self.mask)) < 0.6
        # The last row, or the last batch, sees no key.
        hidden = "m" if "m" in self.mask and self.rows > 1 else "b" if "b" in self.mask else ""
        seen[tuple(-1 if letter == hidden else slice(None) for letter in self.mask)] = False
        added = np.where(seen, 0, -np.inf)
        if self.kind in ("i1", "packed", "i8"):
            mask = seen.astype(TYPES[self.kind])
        else:
            kind = TYPES[self.kind]
            low = -np.inf if self.hides == "infinity" else float(ml_dtypes.finfo(kind).min)
            added = np.where(seen, 0, low)
            mask = added.astype(kind)
        if self.kind == "packed":
            mask = np.packbits(seen.ravel(), bitorder="little").view(np.int8)
        return [*given, mask], self.reference(given, added)

    def reference(self, given: list[np.ndarray], added: np.ndarray) -> np.ndarray:
        """Attention in float64."""
        q, k, v = (array.astype(np.float64) for array in given)
        keys = "".join(letter for letter in self.key if letter in self.value and letter != "b")
        dims = self.result.replace("n", "") + keys
        scores = SCALE * np.einsum(f"{self.query},{self.key}->{dims}", q, k)
        if self.mask:
            scores += _spread(added, self.mask, dims)
        axes = tuple(range(len(dims) - len(keys), len(dims)))
        if 0 in self.shape(keys):
            return np.zeros(self.shape(self.result))
        largest = scores.max(axes, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
        total = weights.sum(axes, keepdims=True)
        weights /= np.where(total == 0, 1, total)
        return np.einsum(f"{dims},{self.value}->{self.result}", weights, v)


def _spread(array: np.ndarray, letters: str, dims: str) -> np.ndarray:
    """An array with these dims, repeated along those of `dims` that it lacks."""
    kept = [letter for letter in dims if letter in letters]
    array = array.transpose([letters.index(letter) for letter in kept])
    return array.reshape([array.shape[kept.index(d)] if d in kept else 1 for d in dims])


def _forms() -> list[Form]:
    masks = ("bmj", "mj", "jm", "bj", "j", "jbm")
    hidden = [("i1", "infinity"), ("packed", "infinity"), ("i8", "infinity")]
    hidden += list(itertools.product(("f16", "bf16", "f32"), ("infinity", "lowest")))
    ops = ("attention", "online")
    forms = [
        Form(mask=mask, kind=kind, hides=hides, op=ops[(i + j) % 2])
        for i, mask in enumerate(masks)
        for j, (kind, hides) in enumerate(hidden)
    ]
    for j, (kind, hides) in enumerate(hidden):
        op = ops[j % 2]
        # A single row, few rows, keys of two dims, sizes known only at run time, other orders.
        forms += [
            Form(kind=kind, hides=hides, op=op, rows=1),
            Form(kind=kind, hides=hides, op=op, rows=4),
            Form(mask="bj", kind=kind, hides=hides, op=op, rows=1),
            Form(mask="mps", kind=kind, hides=hides, op=op, key="psk", value="psn"),
            Form(kind=kind, hides=hides, op=op, query="mbk", value="bnj", result="bnm"),
        ]
        if kind != "packed":
            forms += [
                Form(kind=kind, hides=hides, op=op, dynamic="bmj"),
                Form(kind=kind, hides=hides, op=op, rows=1, dynamic="j"),
                Form(kind=kind, hides=hides, op=op, dynamic="j", keys=0),
            ]
    for op, element in itertools.product(ops, ("f32", "f16", "bf16")):
        forms += [
            Form(op=op, element=element, mask=""),
            Form(op=op, element=element, mask="", dynamic="j", keys=0),
            Form(op=op, element=element, mask="", dynamic="j", keys=0, rows=1),
            Form(op=op, element=element, kind="i1"),
            Form(op=op, element=element, kind="f16" if element == "f16" else "bf16"),
        ]
    return list(dict.fromkeys(forms))


FORMS = _forms()
# Every other form, a module each third of them: neighbours differ in one thing.
PARTS = [FORMS[start::6] for start in (0, 2, 4)]


def _wrong(form: Form, vmfb: bytes) -> str:
    inputs, wanted = form.inputs()
    got = np.asarray(run_module(vmfb, inputs, form.name), np.float64)
    if not np.isfinite(got).all():
        return f"{form.name}: {np.isnan(got).sum()} of {got.size} are NaN"
    if not wanted.any():
        return f"{form.name}: not 0" if got.any() else ""
    error = rel_error(got, wanted)
    limit = TOLERANCE[form.element]
    if form.kind == "f16" and form.hides == "lowest":
        # Scores beside -65504 keep few digits in f32.
        limit = max(limit, 5e-3)
    return f"{form.name}: {error:.2g}" if error > limit else ""


@pytest.mark.parametrize(
    ("part", "configure"), thinned([(0, True), (1, True), (0, False), (2, True)])
)
def test_forms(part: int, configure: bool) -> None:
    text = "".join(form.function() for form in PARTS[part])
    vmfb = compile_text(text, mode="cost", configure=configure)
    assert [why for form in PARTS[part] if (why := _wrong(form, vmfb))] == []


# Keys hidden by the score function, in whose place LOW stands.
SCORES = """
func.func @NAME(%q: tensor<2xROWSx8xf32>, %k: tensor<2xKEYSx8xf32>,
                %v: tensor<2xKEYSx8xf32>ARGUMENT) -> tensor<2xROWSx8xf32> {
  %scale = arith.constant 0.25 : f32
  %low = arith.constant LOW : f32
  %e = tensor.empty() : tensor<2xROWSx8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(b, m, n, k, j) -> (b, m, k)>, affine_map<(b, m, n, k, j) -> (b, j, k)>,
      affine_map<(b, m, n, k, j) -> (b, j, n)>, affine_map<(b, m, n, k, j) -> ()>,
      MAP affine_map<(b, m, n, k, j) -> (b, m, n)>]>
      ins(%q, %k, %v, %scaleMASK : tensor<2xROWSx8xf32>, tensor<2xKEYSx8xf32>,
          tensor<2xKEYSx8xf32>, f32TYPE) outs(%e : tensor<2xROWSx8xf32>) {
  ^bb0(%x: f32):
    CONDITION
    %y = arith.select %seen, %x, %low : f32
    iree_linalg_ext.yield %y : f32
  } -> tensor<2xROWSx8xf32>
  return %r : tensor<2xROWSx8xf32>
}
"""
POSITIONS = """%i = iree_linalg_ext.index 1 : index
    %j = iree_linalg_ext.index 4 : index
    %two = arith.constant BEHIND : index
    %after = arith.addi %j, %two : index
    %seen = arith.cmpi sle, %after, %i : index"""
NEAR = """%most = arith.constant 0.1 : f32
    %seen = arith.cmpf olt, %x, %most : f32"""
LOWS = {"0xFF800000": -np.inf, "-3.40282347E+38": float(np.finfo(np.float32).min)}


@dataclass(frozen=True)
class Scored:
    """Attention whose score function hides keys, under a mask of numbers or none."""

    name: str
    condition: str
    low: str
    mask: str = ""
    behind: int = 2
    rows: int = 6
    keys: int = 8
    dynamic: bool = False

    def function(self) -> str:
        mask = f"tensor<2x{self.rows}x{self.keys}xf32>"
        text = (
            SCORES.replace("NAME", self.name)
            .replace("ARGUMENT", f", %mask: {mask}" if self.mask else "")
            .replace("MAP", "affine_map<(b, m, n, k, j) -> (b, m, j)>," if self.mask else "")
            .replace("MASK", ", %mask" if self.mask else "")
            .replace("TYPE", f", {mask}" if self.mask else "")
            .replace("CONDITION", self.condition.replace("BEHIND", str(self.behind)))
        )
        keys = "?" if self.dynamic else str(self.keys)
        return text.replace("LOW", self.low).replace("ROWS", str(self.rows)).replace("KEYS", keys)

    def inputs(self) -> tuple[list[np.ndarray], np.ndarray]:
        random = np.random.default_rng(7)
        q = random.standard_normal((2, self.rows, 8)).astype(np.float32)
        k, v = (random.standard_normal((2, self.keys, 8)).astype(np.float32) for _ in range(2))
        if self.condition == NEAR:
            # Of a row, all scores are near or far.
            q, k = np.sign(q[:, :, :1]).repeat(8, 2), abs(k)
        scores = SCALE * q.astype(np.float64) @ k.transpose(0, 2, 1)
        seen = np.arange(self.keys) + self.behind <= np.arange(self.rows)[:, None]
        seen = scores < np.float32(0.1) if self.condition == NEAR else seen
        mask = np.zeros((2, self.rows, self.keys), np.float32)
        if self.mask:
            mask[1, :, :3] = mask[0, 3] = LOWS[self.mask]
        scores = np.where(seen, scores, LOWS[self.low]) + mask.astype(np.float64)
        if not self.keys:
            return [q, k, v], np.zeros(q.shape)
        largest = scores.max(-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
        total = weights.sum(-1, keepdims=True)
        inputs = [q, k, v, *([mask] if self.mask else [])]
        return inputs, weights / np.where(total == 0, 1, total) @ v


INFINITE, LOWEST = LOWS
SCORED = [
    Scored("hidden", POSITIONS, INFINITE),
    Scored("lowest", POSITIONS, LOWEST),
    Scored("near_hidden", NEAR, INFINITE),
    Scored("near_lowest", NEAR, LOWEST),
    Scored("hidden_under_hidden", POSITIONS, INFINITE, INFINITE, behind=0),
    # The lowest number in a mask that is added behind a causal score function.
    Scored("hidden_under_lowest", POSITIONS, INFINITE, LOWEST, behind=0),
    Scored("lowest_under_hidden", POSITIONS, LOWEST, INFINITE, behind=0),
    Scored("one_row", POSITIONS, INFINITE, rows=1),
    Scored("no_key", POSITIONS, INFINITE, keys=0, dynamic=True),
    Scored("no_key_ever", POSITIONS, INFINITE, keys=0),
    Scored("one_key", POSITIONS, INFINITE, keys=1),
]


def test_keys_hidden_by_the_score_function() -> None:
    vmfb = compile_text("".join(one.function() for one in SCORED), mode="cost")
    for one in SCORED:
        inputs, wanted = one.inputs()
        got = run_module(vmfb, inputs, one.name)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=one.name)


def test_decode_in_chunks() -> None:
    """Chunks of the keys, of which none is seen, or of which there is none."""
    forms = [
        Form(mask="bj", rows=1, keys=4096),
        Form(mask="bj", rows=1, keys=4096, kind="f32"),
        Form(mask="bj", rows=1, keys=100, dynamic="j"),
        Form(mask="bj", rows=1, keys=0, dynamic="j"),
    ]
    text = "".join(form.function() for form in forms[:3])
    pipeline = "attn-split-k{splits=4},attn-fully-masked-rows"
    vmfb = compile_text(text, mode="cost", pipeline=pipeline)
    assert [why for form in forms[:3] if (why := _wrong(form, vmfb))] == []
    none = compile_text(forms[3].function(), mode="cost", pipeline=pipeline)
    assert not _wrong(forms[3], none)


GPU_FORMS = [
    Form(element="f16"),
    Form(mask="bj", rows=1),
    Form(kind="f32", hides="lowest"),
    Form(kind="f32", op="online"),
    Form(mask="mps", key="psk", value="psn"),
    Form(mask="", element="f16", dynamic="j", keys=0),
]


@pytest.mark.parametrize("form", GPU_FORMS, ids=lambda form: form.name)
def test_cuda_kernels(form: Form) -> None:
    """The same numbers by the kernels for CUDA, interpreted."""
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    module = lowered(form.function(), flags)
    inputs, wanted = form.inputs()
    with np.errstate(all="ignore"):
        (got,) = run_gpu_module(module, inputs, name=form.name)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=3e-3, atol=2e-3)
