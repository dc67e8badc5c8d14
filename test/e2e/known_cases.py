"""Modules on which attnpass or IREE 3.13 was once found wrong, their inputs by seed, and what
float64 makes of them. Used by test_known.py and by bench/cases/known.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from interpreter import Machine
from iree.compiler import ir

FOLDER = Path(__file__).with_name("known")
LOWEST = float(np.finfo(np.float32).min)
# What dims known only at run time are, and those of one module.
DYNAMIC, LENGTHS = 64, {"no-keys": 0}
_FLOATS = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}
_INTEGERS = {"i1": np.bool_, "i8": np.int8, "si8": np.int8, "i32": np.int32, "i64": np.int64}
TOLERANCES = (("f8E", 6e-2), ("bf16", 2e-2), ("f16", 5e-3))


@dataclass(frozen=True)
class Known:
    """A module in `known/`: its entry point and the arguments of a call."""

    name: str
    function: str
    inputs: list[Any]

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.mlir").read_text()

    @property
    def is_interpreted(self) -> bool:
        """Whether the interpreter can say what it means; IREE says it otherwise."""
        return self.name not in _IREE_IS_RIGHT and "torch." not in self.text

    def tolerance(self, f32: float) -> float:
        """The relative error that is right, where that of f32 is `f32`; what rounding each result
        to its type costs (a bias beside -1e4) may be lost twice."""
        least = next((number for word, number in TOLERANCES if word in self.text), f32)
        if not self.is_interpreted:
            return least
        return max(least, 2 * error(self.wanted(rounds=True), self.wanted()))

    def wanted(self, rounds: bool = False) -> list[np.ndarray]:
        """The results in float64; with `rounds` each op rounds to its type."""
        if self.name == "no-shared-dims":
            return _shared_by_all(*(np.asarray(one, np.float64) for one in self.inputs))
        text = self.text
        if "stablehlo." in text:
            text = _below_input(text)
        with ir.Context() as context, np.errstate(all="ignore"):
            context.load_all_available_dialects()
            machine = Machine(ir.Module.parse(text), rounds=rounds)
            return [np.asarray(one, np.float64) for one in machine.call(self.function, self.inputs)]


# A form that the interpreter does not know; iree-compile gets it right on CPUs.
_IREE_IS_RIGHT = ("mask-over-k1",)
# No function that a caller can reach.
UNCALLED = ("memref",)


def _shared_by_all(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, output: np.ndarray, top: np.ndarray, sums: Any
) -> list[np.ndarray]:
    """What `no-shared-dims` computes, which plain IREE gets wrong: a row's maximum and sum are
    over a head dim that the output has."""
    scores = 0.25 * np.log2(np.e) * np.einsum("bmd,bkd->bmdk", q, k)
    largest = np.maximum(top, scores.max((2, 3)))
    weights = np.exp2(scores - largest[..., None, None])
    factor = np.exp2(top - largest)
    made = np.einsum("bmdk,bkd->bmd", weights, v) + output * factor[..., None]
    return [made, largest, weights.sum((2, 3)) + sums * factor]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.mlir"))


def known(name: str) -> Known:
    """The case of a module, with inputs from a seed of its name."""
    text = (FOLDER / f"{name}.mlir").read_text()
    found = re.search(r"func\.func (?:public )?@(\w+)\((.*?)\) ?(?:->|\{|attr)", text)
    assert found is not None, name
    rng = np.random.default_rng(sum(map(ord, name)))
    kinds = re.findall(r"%\w+: ([^%]*?)(?=, %|$)", found[2])
    length = LENGTHS.get(name, DYNAMIC)
    inputs = [_drawn(kind.strip(), length, rng) for kind in kinds]
    _hide(name, inputs)
    return Known(name, found[1], inputs)


def _drawn(kind: str, length: int, rng: np.random.Generator) -> Any:
    """Numbers for an argument of this type: floats normal, truth values and codes even."""
    tensor = re.fullmatch(r"tensor<(.*)>", kind) or re.fullmatch(r"!torch.vtensor<\[(.*)>", kind)
    if tensor is None:
        return 0.3 if kind.startswith("f") else 1
    *sizes, element = re.split(r"x|,|\],", tensor[1])
    shape = [length if size == "?" else int(size) for size in sizes]
    if element in _FLOATS:
        return rng.standard_normal(shape).astype(np.float32).astype(_FLOATS[element])
    return rng.integers(0, 2, shape).astype(_INTEGERS[element])


def _hide(name: str, inputs: list[Any]) -> None:
    """Has the masks of some cases hide what they are about."""
    if name == "causal-score-lowest-mask":
        inputs[3][:] = 0
        inputs[3][1, :, :2] = LOWEST
    elif name == "decode-empty-slot":
        inputs[3][:] = (0, 9)
    elif name == "hidden-rows-twice":
        inputs[3][0, 3] = False
    elif name == "hidden-rows-two-key-dims":
        inputs[3][1] = False
    elif name == "hidden-single-row":
        inputs[3][:] = False
    elif name == "packed-mask":
        inputs[3][:] = np.random.default_rng(0).integers(-128, 128, inputs[3].shape)
    elif name == "raise-gpt2-left-padded":
        inputs[3][:] = [LOWEST] * 3 + [0] * 5
    elif name == "raise-max-over-rows":
        inputs[3][:] = [True] * 4 + [False] * 2
    elif name == "raise-select-then-bias":
        inputs[3][:] = [True] * 4 + [False] * 2
        inputs[3][2] = False
    elif name == "int8-cache":
        for number in (1, 3):
            inputs[number][:] = np.random.default_rng(0).integers(-99, 99, inputs[number].shape)


def _below_input(text: str) -> str:
    from iree.compiler.tools import compile_str

    data = compile_str(text, extra_args=["--compile-to=input"], target_backends=["llvm-cpu"])
    assert data is not None
    return data.decode()


def error(got: Any, wanted: Any) -> float:
    """The relative L2 error of results; infinite where one is not finite and should be."""
    worst = 0.0
    for one, other in zip(got, wanted, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        if one.shape != other.shape or not np.isfinite(one[np.isfinite(other)]).all():
            return float("inf")
        norm = max(float(np.linalg.norm(other)), 1e-2 * np.sqrt(max(1, other.size)))
        worst = max(worst, float(np.linalg.norm(one - other)) / norm)
    return worst
