"""`attnpass.onnx.compile` gives what onnx's own evaluator gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import rel_error

import attnpass

onnx = pytest.importorskip("onnx", reason="the door for ONNX is not tested: no onnx")


def bert_attention():
    """Self-attention as exports write it: products and a softmax; any batch."""
    node, random = onnx.helper.make_node, np.random.default_rng(0)
    initializers = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in {
            **{f"w{n}": random.standard_normal((32, 32)).astype(np.float32) for n in "qkv"},
            "heads": np.array([0, 0, 4, 8]),
            "flat": np.array([0, 0, 32]),
            "scale": np.float32(0.05),
        }.items()
    ]
    nodes = [
        each
        for n in "qkv"
        for each in (
            node("MatMul", ["x", f"w{n}"], [f"p{n}"], name=f"/attn/{n}"),
            node("Reshape", [f"p{n}", "heads"], [f"r{n}"]),
            node("Transpose", [f"r{n}"], [n], perm=[0, 1, 2, 3] if n == "k" else [0, 2, 1, 3]),
        )
    ]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Mul", ["s", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["o"], name="/attn/out"),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "flat"], ["y"]),
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["b", 8, 32]) for n in "xy"
    )
    graph = onnx.helper.make_graph(nodes, "bert", [x], [y], initializers)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_attention_of_any_batch(tmp_path: Path) -> None:
    model = bert_attention()
    onnx.save(model, tmp_path / "m.onnx")
    fast = attnpass.onnx.compile(tmp_path / "m.onnx")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator(model)
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 8, 32)).astype(np.float32)
        (wanted,) = evaluator.run(None, {"x": x})
        assert rel_error(fast(x), wanted) < 2e-5
        assert rel_error(fast(x=x), wanted) < 2e-5
    assert [record.path for record in fast.report.attentions] == ["/attn/out"]
    with pytest.raises(attnpass.AttnError, match="argument 'x': it was compiled for float32"):
        fast(np.ones((1, 8, 32)))
    with pytest.raises(attnpass.AttnError, match=r"compiled for \?x8x32, not 1x9x32"):
        fast(np.ones((1, 9, 32), np.float32))
    with pytest.raises(attnpass.AttnError, match="the model takes x; each once"):
        fast()


def test_an_argument_stays_as_it_is() -> None:
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    kinds = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = onnx.helper.make_graph(
        [node("ScatterND", ["cache", "place", "row"], ["y"])],
        "g",
        [
            value("cache", kinds[0], [64, 16]),
            value("place", kinds[1], [1, 1]),
            value("row", kinds[0], [1, 16]),
        ],
        [value("y", kinds[0], [64, 16])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    # At a multiple of 64 bytes, where it is read in place.
    memory = np.zeros(64 * 16 * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    cache = memory[start : start + 64 * 16 * 4].view(np.float32).reshape(64, 16)
    result = attnpass.onnx.compile(model)(cache, np.array([[3]]), np.ones((1, 16), np.float32))
    assert result.sum() == 16 and cache.sum() == 0


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("no model")
    with pytest.raises(attnpass.AttnError, match=r"m.onnx: error: onnx cannot read it: "):
        attnpass.onnx.compile(tmp_path / "m.onnx")


def test_sums_of_f16_are_as_exact_as_their_type() -> None:
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT16
    nodes = [
        node(name, ["x"], [out], axes=[-1], keepdims=1)
        for name, out in (("ReduceMean", "mean"), ("ReduceL2", "norm"))
    ]
    shapes = {"x": [4, 4096], "mean": [4, 1], "norm": [4, 1]}
    x, *outs = (onnx.helper.make_tensor_value_info(n, kind, s) for n, s in shapes.items())
    graph = onnx.helper.make_graph(nodes, "sums", [x], outs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    # The sum is beyond f16, and so is that of squares.
    rows = (np.random.default_rng(0).standard_normal((4, 4096)) * 6 + 30).astype(np.float16)
    wide = rows.astype(np.float64)
    mean, norm = attnpass.onnx.compile(model)(rows)
    assert rel_error(mean, wide.mean(-1, keepdims=True)) < 1e-3
    assert rel_error(norm, np.sqrt((wide**2).sum(-1, keepdims=True))) < 1e-3


def test_rows_of_any_batch_and_length_are_joined() -> None:
    """`[batch, rows, heads, dim]` as `[-1, width]`, as exporters write it in front of a Gemm; a
    large constant is an op, as the TorchScript exporter writes it."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    constant = onnx.numpy_helper.from_array(weights)
    graph = onnx.helper.make_graph(
        [
            node("Constant", [], ["w"], value=constant),
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2, 3]),
            node("Reshape", ["t", "shape"], ["r"]),
            node("Gemm", ["r", "w"], ["y"], transB=1),
        ],
        "g",
        [value("x", onnx.TensorProto.FLOAT, ["b", "n", 4, 8])],
        [value("y", onnx.TensorProto.FLOAT, ["rows", 32])],
        [onnx.numpy_helper.from_array(np.array([-1, 32]), "shape")],
    )
    opset = onnx.helper.make_opsetid("", 17)
    fast = attnpass.onnx.compile(onnx.helper.make_model(graph, opset_imports=[opset]))
    for batch, rows in ((2, 5), (1, 1), (3, 4)):
        x = np.random.default_rng(rows).standard_normal((batch, rows, 4, 8)).astype(np.float32)
        wanted = x.transpose(1, 0, 2, 3).reshape(-1, 32) @ weights.T
        assert rel_error(fast(x), wanted) < 2e-5
