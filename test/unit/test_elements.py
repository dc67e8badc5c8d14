"""Constants of every element type are read and written back, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from attnpass.ir import Refusal
from attnpass.ir.constants import Elements, attribute_of, elements_of

TYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i4": np.int8,
    "i1": np.bool_,
}
VALUES = np.array([[0, 1, -1, 2], [3, -2, 4, -4]])


def constant(value: str, kind: str, resource: str = "") -> tuple[ir.Module, ir.Operation]:
    text = f"func.func @f() {{\n  %0 = arith.constant {value} : {kind}\n  return\n}}\n"
    if resource:
        text += f'{{-#\n  dialect_resources: {{ builtin: {{ blob: "{resource}" }} }}\n#-}}\n'
    module = ir.Module.parse(text)
    function = module.body.operations[0].operation
    return module, function.regions[0].blocks[0].operations[0].operation


@pytest.mark.parametrize("kept", ["dense", "resource"])
@pytest.mark.parametrize("name", TYPES)
def test_transposed_and_back(name: str, kept: str) -> None:
    data = VALUES.astype(TYPES[name])
    words = data.astype(int if name[0] == "i" else float).tolist()
    if name == "i4":
        data = data & 15  # MLIR keeps its four bits in a byte, without the sign.
    if name == "i1":
        words = data.tolist()
    value, resource = f"dense<{str(words).lower()}>", ""
    if kept == "resource":
        value, resource = "dense_resource<blob>", f"0x08000000{data.tobytes().hex()}"
    with ir.Context(), ir.Location.unknown():
        module, op = constant(value, f"tensor<2x4x{name}>", resource)
        elements = elements_of(op)
        assert isinstance(elements, Elements)
        assert elements.array().tobytes() == data.tobytes()
        kind = ir.RankedTensorType.get([4, 2], elements.kind)
        new = attribute_of(elements.array().T, kind, elements)
        assert str(new).startswith("dense_resource<") == (kept == "resource")
        del module
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            again = ir.Operation.create("arith.constant", [kind], [], {"value": new})
        read = elements_of(again)
        assert isinstance(read, Elements)
        assert read.array().tobytes() == data.T.tobytes()


def test_what_cannot_be_read_is_said() -> None:
    pairs = "dense<[(1.0, 2.0), (3.0, 4.0)]>"
    with ir.Context(), ir.Location.unknown():
        for value, kind, resource, reason in (
            (pairs, "tensor<2xcomplex<f32>>", "", "complex<f32> elements cannot be read"),
            ("dense_resource<gone>", "tensor<2xf32>", "", "bytes are not in the module"),
            ("dense_resource<blob>", "tensor<2xi4>", "0x0100000021", "i4 elements are packed"),
        ):
            module, op = constant(value, kind, resource)
            found = elements_of(op)
            assert isinstance(found, Refusal)
            assert reason in found.reason
            del module
