"""`attnpass.onnx.compile` gives what onnx's own evaluator gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import in_each_way, rel_error

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


def test_a_fork_compiles_for_itself(tmp_path: Path) -> None:
    """The runtime's threads are not in a fork: a program from before it is refused, not waited
    for, and a fork ends."""
    script = tmp_path / "fork.py"
    onnx.save(bert_attention(), tmp_path / "m.onnx")
    script.write_text(
        "import os, sys, attnpass, numpy as np\n"
        "x = np.ones((1, 8, 32), np.float32)\n"
        "fast = attnpass.onnx.compile(sys.argv[1])\n"
        "fast(x)\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        fast(x)\n"
        "    except attnpass.AttnError as error:\n"
        "        print(error)\n"
        "    print(attnpass.onnx.compile(sys.argv[1])(x).shape)\n"
        "    sys.exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr
    assert "of which this is a fork: compile it here" in done.stdout
    assert "(1, 8, 32)" in done.stdout


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


def _model(nodes, inputs, outputs, opset, initializers=()):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(*each) for each in inputs],
        [value(*each) for each in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets)


@pytest.mark.parametrize(("kind", "opset"), in_each_way([("FLOAT",), ("FLOAT16",)], [17, 21]))
def test_group_norms_of_images_of_any_size(kind: str, opset: int) -> None:
    """As exporters write them: an instance norm of the groups, joined and cut again. It is to
    compile at the default level."""
    node, element = onnx.helper.make_node, getattr(onnx.TensorProto, kind)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    shape = ["b", 8, "h", "w"]
    model = _model(
        [
            node("Reshape", ["x", "groups"], ["g"]),
            node("InstanceNormalization", ["g", "one", "zero"], ["n"], epsilon=1e-6),
            node("Shape", ["x"], ["sizes"]),
            node("Reshape", ["n", "sizes"], ["r"]),
            node("Mul", ["r", "scale"], ["y"]),
        ],
        [("x", element, shape)],
        [("y", element, shape)],
        opset,
        {
            "groups": np.array([0, 2, -1]),
            "one": np.ones(2, dtype),
            "zero": np.zeros(2, dtype),
            "scale": np.linspace(0.5, 1.5, 8).astype(dtype).reshape(8, 1, 1),
        },
    )
    fast = attnpass.onnx.compile(model)
    assert "fallback" not in fast.report.to_text()
    random = np.random.default_rng(0)
    for sizes in ((2, 8, 5, 6), (1, 8, 3, 1)):
        x = (random.standard_normal(sizes) * 6 + 30).astype(dtype)
        groups = x.astype(np.float64).reshape(sizes[0], 2, -1)
        normed = groups - groups.mean(-1, keepdims=True)
        normed /= np.sqrt((normed**2).mean(-1, keepdims=True) + 1e-6)
        wanted = normed.reshape(sizes) * np.linspace(0.5, 1.5, 8).reshape(8, 1, 1)
        assert rel_error(fast(x), wanted) < (5e-3 if kind == "FLOAT16" else 2e-5)


# Operands' sizes: letters that are unknown, and sizes of the others.
EINSUMS = (
    ("bik,kn->bin", "bi", {"k": 16, "n": 8}),
    ("...k,kn->...n", "bi", {"k": 16, "n": 8}),
    ("bnd,dhe->bhne", "bn", {"d": 16, "h": 2, "e": 4}),
    ("bhne,hed->bnd", "bn", {"d": 16, "h": 2, "e": 4}),
    ("bihd,bjhd->bhij", "bhij", {"d": 8}),
    ("bhid,ijd->bhij", "bij", {"h": 2, "d": 8}),
    ("bnd,bnd->bn", "bn", {"d": 8}),
    ("dab,dn->nab", "n", {"d": 4, "a": 3, "b": 5}),
    ("ab,bcn->acn", "abn", {"c": 3}),
    ("i,j->ij", "ij", {}),
)


def test_einsums_of_unknown_sizes() -> None:
    """All in one graph, whose unknown sizes have names of their own."""
    nodes, inputs, results = [], [], []
    for place, (equation, _, known) in enumerate(EINSUMS):
        terms, result = equation.replace("...", "bi").split("->")
        names = [f"{name}{place}" for name in "xyz"]
        shapes = [
            [known.get(letter, f"{letter}{place}") for letter in term]
            for term in (*terms.split(","), result)
        ]
        *given, made = zip(names, [onnx.TensorProto.FLOAT] * 3, shapes, strict=True)
        inputs += given
        results.append(made)
        nodes.append(onnx.helper.make_node("Einsum", names[:2], names[2:], equation=equation))
    fast = attnpass.onnx.compile(_model(nodes, inputs, results, 17))
    random = np.random.default_rng(0)
    for first in (2, 1):
        given, wanted = [], []
        for equation, unknown, known in EINSUMS:
            spelled = equation.replace("...", "bi")
            sizes = {**known, **{letter: first + n for n, letter in enumerate(unknown)}}
            x, y = (
                random.standard_normal([sizes[letter] for letter in term]).astype(np.float32)
                for term in spelled.partition("->")[0].split(",")
            )
            given += [x, y]
            wanted.append(np.einsum(spelled, x.astype(np.float64), y))
        for (equation, *_), result, right in zip(EINSUMS, fast(*given), wanted, strict=True):
            assert rel_error(result, right) < 2e-5, equation


def test_attention_of_opset_23() -> None:
    """Grouped queries over a cache of any length, with a mask that hides all keys of a row: what
    ONNX makes of the op is raised again."""
    kind, flag = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    model = _model(
        [
            onnx.helper.make_node("RMSNormalization", ["q", "weight"], ["n"], epsilon=1e-6),
            onnx.helper.make_node(
                "Attention", ["n", "k", "v", "mask", "pk", "pv"], ["y", "nk", "nv"], scale=0.3
            ),
        ],
        [
            ("q", kind, [2, 4, 3, 8]),
            *((name, kind, [2, 2, 3, 8]) for name in ("k", "v")),
            ("mask", flag, [3, "keys"]),
            *((name, kind, [2, 2, "past", 8]) for name in ("pk", "pv")),
        ],
        [("y", kind, [2, 4, 3, 8]), *((name, kind, [2, 2, "keys", 8]) for name in ("nk", "nv"))],
        23,
        {"weight": np.linspace(0.5, 1.5, 8).astype(np.float32)},
    )
    fast = attnpass.onnx.compile(model)
    assert len(fast.report.attentions) == 1
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator(model)
    random = np.random.default_rng(0)
    for past in (5, 1):
        q, k, v, pk, pv = (
            random.standard_normal((2, heads, rows, 8)).astype(np.float32)
            for heads, rows in ((4, 3), (2, 3), (2, 3), (2, past), (2, past))
        )
        mask = np.arange(past + 3) <= np.arange(3)[:, None] + past
        mask[1] = False
        feeds = {"q": q, "k": k, "v": v, "mask": mask, "pk": pk, "pv": pv}
        wanted = evaluator.run(None, feeds)
        assert not wanted[0][:, :, 1].any()
        for got, one in zip(fast(**feeds), wanted, strict=True):
            assert rel_error(got, one) < 2e-5


def test_sizes_that_onnx_does_not_compute() -> None:
    """A tensor whose number of dims is computed: as a shape of the sizes in front of others."""
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    numbers = {"zero": 0, "one": 1, "two": 2, "heads": [4, 8]}
    model = _model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Sub", ["two", "zero"], ["end"]),
            node("Reshape", ["end", "flat"], ["ends"]),
            node("Slice", ["shape", "flat0", "ends"], ["front"]),
            node("Concat", ["front", "heads"], ["sizes"], axis=0),
            node("Reshape", ["x", "sizes"], ["cut"]),
            node("Transpose", ["cut"], ["y"], perm=[0, 2, 1, 3]),
        ],
        [("x", kind, [2, 5, 32])],
        [("y", kind, [2, 4, 5, 8])],
        17,
        {
            **{name: np.array(number) for name, number in numbers.items()},
            "flat": np.array([1]),
            "flat0": np.array([0]),
        },
    )
    x = np.random.default_rng(0).standard_normal((2, 5, 32)).astype(np.float32)
    got = attnpass.onnx.compile(model)(x)
    assert np.array_equal(got, x.reshape(2, 5, 4, 8).transpose(0, 2, 1, 3))


def test_what_cannot_be_imported() -> None:
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    rows, result = [("x", kind, [2, 6, 32])], [("y", kind, [2, 6, 32])]
    fused = node("CDist", ["x", "w"], ["y"], domain="com.microsoft")
    given = [*rows, ("w", kind, [32, 96])]
    with pytest.raises(attnpass.AttnError, match=r"\(com\.microsoft\.CDist\).*onnxruntime"):
        attnpass.onnx.compile(_model([fused], given, result, 17))
    names = ["x", "x", "x", "", "", "n", "n"]
    lengths = ("n", onnx.TensorProto.INT32, [1])
    window = {"domain": "com.microsoft", "num_heads": 2, "kv_num_heads": 2}
    for more, results, reason in (
        ({"sliding_window_cache": 1}, ["y"], "the attribute 'sliding_window_cache'"),
        ({"qk_norm_epsilon": 0.1}, ["y"], "the attribute 'qk_norm_epsilon'"),
        ({}, ["y", "", "", "qk"], "the result 'qk'"),
    ):
        grouped = node("GroupQueryAttention", names, results, **window, **more)
        with pytest.raises(attnpass.AttnError, match=f"has {reason}, which is not compiled"):
            attnpass.onnx.compile(_model([grouped], [*rows, lengths], result, 17))
    scan = node("CumProd", ["x", "n"], ["y"], name="/a/scan")
    with pytest.raises(attnpass.AttnError, match="IREE does not import CumProd '/a/scan'"):
        attnpass.onnx.compile(_model([scan], [*rows, lengths], result, 26))
    for op, inputs, results, reason in (
        ("MaxPool", ["x"], ["y", "at"], "the places of its maxima as a result"),
        ("Unique", ["x"], ["y"], "as many results as it finds"),
        ("GRU", ["x", "x", "x", "", "n"], ["", "y"], "lengths of its sequences"),
        ("LSTM", ["x", "x", "x", "", "", "", "", "n"], ["", "y"], "peepholes"),
    ):
        refused = node(op, inputs, results, **({"kernel_shape": [1]} if op == "MaxPool" else {}))
        every = [(name, kind, None) for name in results if name]
        with pytest.raises(attnpass.AttnError, match=f"has {reason}, which is not compiled"):
            attnpass.onnx.compile(_model([refused], [*rows, lengths], every, 17))
    unknown = [node("Reshape", ["x", "s"], ["z"], name="/cut"), node("Relu", ["z"], ["y"])]
    shape = ("s", onnx.TensorProto.INT64, ["n"])
    with pytest.raises(attnpass.AttnError, match=r"how many dims 'z' has, which Reshape '/cut'"):
        attnpass.onnx.compile(_model(unknown, [*rows, shape], [("y", kind, None)], 17))


def test_ops_that_iree_gets_wrong_or_lacks() -> None:
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    random = np.random.default_rng(0)
    x, w, grid = (
        random.standard_normal(sizes).astype(np.float32)
        for sizes in ((2, 6, 4, 5), (5,), (2, 3, 2, 2))
    )
    a, b = (random.integers(0, 255, sizes).astype(np.uint8) for sizes in ((2, 3, 4), (2, 4, 5)))
    named = ["as", "az", "bs", "bz", "ys", "yz"]
    numbers = (0.02, 100, 0.03, 120, 0.05, 110)
    model = _model(
        [
            node("LRN", ["x"], ["lrn"], size=4, alpha=0.5),
            node("MatMul", ["x", "w"], ["vector"]),
            node("Pad", ["x", "pads"], ["wrap"], mode="wrap"),
            node("Pad", ["x", "cuts"], ["cut"]),
            node("GridSample", ["x", "grid"], ["grids"], align_corners=0),
            node("ReduceProd", ["x", "last"], ["product"]),
            node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["q"]),
            node("Pow", ["x", "minus"], ["power"]),
            node("Div", ["a", "seven"], ["div"]),
            node("Mod", ["a", "seven"], ["mod"]),
            node("Clip", ["a", "seven", "az"], ["clip"]),
            node("Cast", ["a"], ["floats"], to=kind),
            node("Add", ["floats", "as"], ["more"]),
            node("Cast", ["more"], ["bytes"], to=onnx.TensorProto.UINT8),
            node("Log", ["x"], ["log"]),
            node("Equal", ["log", "log"], ["same"]),
            node("Clip", ["log", "as"], ["bounded"]),
            node("Max", ["log", "x"], ["larger"]),
            node("Mod", ["x", "tenth"], ["rest"], fmod=1),
            node("Softsign", ["x"], ["soft"]),
            node("MaxPool", ["b"], ["pooled", "unread"], kernel_shape=[2]),
            node("MatMulInteger", ["a", "b"], ["whole"]),
            node("Add", ["whole", "many"], ["sum"]),
            node("Neg", ["sum"], ["negated"]),
            node("Split", ["x"], ["part", "second", "third"], axis=1, num_outputs=3),
        ],
        [
            ("x", kind, ["b", 6, 4, 5]),
            ("grid", kind, ["b", 3, "n", 2]),
            *((name, onnx.TensorProto.UINT8, array.shape) for name, array in (("a", a), ("b", b))),
        ],
        [
            ("lrn", kind, ["b", 6, 4, 5]),
            ("vector", kind, ["b", 6, 4]),
            ("wrap", kind, ["b", 6, 7, 6]),
            ("cut", kind, ["b", 6, 3, 6]),
            ("grids", kind, ["b", 6, 3, "n"]),
            ("product", kind, ["b", 6, 4, 1]),
            ("q", onnx.TensorProto.UINT8, [2, 3, 5]),
            ("power", kind, ["b", 6, 4, 5]),
            *((name, onnx.TensorProto.UINT8, a.shape) for name in ("div", "mod", "clip", "bytes")),
            ("same", onnx.TensorProto.BOOL, ["b", 6, 4, 5]),
            *((name, kind, ["b", 6, 4, 5]) for name in ("bounded", "larger", "rest", "soft")),
            ("pooled", onnx.TensorProto.UINT8, [2, 4, 4]),
            *((name, onnx.TensorProto.INT32, [2, 3, 5]) for name in ("whole", "negated")),
            ("second", kind, ["b", 2, 4, 5]),
        ],
        20,
        {
            "w": w,
            "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]),
            "cuts": np.array([0, 0, -1, 1, 0, 0, 0, 0]),
            "last": np.array([-1]),
            "minus": np.float32(-3),
            "seven": np.uint8(7),
            "many": np.int32(2**25 + 1),
            "tenth": np.float32(1e-7),
            **{
                name: np.asarray(number, np.uint8 if name.endswith("z") else np.float32)
                for name, number in zip(named, numbers, strict=True)
            },
        },
    )
    x[0, 0, 0, :2] = 0.0, -0.0
    results = attnpass.onnx.compile(model)(x, grid, a, b)
    *results, rest, soft, pooled, whole, negated, second = results
    assert np.array_equal(second, x[:, 2:4])
    assert np.array_equal(negated, -whole - (2**25 + 1))
    assert np.array_equal(whole, a.astype(np.int32) @ b.astype(np.int32))
    lrn, vector, wrap, cut, grids, product, q, power, *unsigned, same, bounded, larger = results
    assert np.array_equal(rest, np.fmod(x, np.float32(1e-7)))
    assert rel_error(soft, x / (1 + np.abs(x))) < 1e-6
    assert np.array_equal(pooled, np.maximum(b[..., :-1], b[..., 1:]))
    for got, right in zip(unsigned, (a // 7, a % 7, a.clip(7, 100), a), strict=True):
        assert np.array_equal(got, right)
    assert np.array_equal(same, x >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(x)
    for got, right in ((bounded, np.maximum(log, np.float32(0.02))), (larger, np.maximum(log, x))):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    wide = x.astype(np.float64)
    sums = np.stack([(wide[:, max(c - 1, 0) : c + 3] ** 2).sum(1) for c in range(6)], 1)
    assert rel_error(lrn, wide / (1 + 0.5 / 4 * sums) ** 0.75) < 2e-5
    assert rel_error(vector, wide @ w) < 2e-5
    assert np.array_equal(wrap, np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), "wrap"))
    assert np.array_equal(cut, np.pad(x[:, :, 1:], ((0, 0), (0, 0), (0, 0), (1, 0))))
    assert rel_error(product, wide.prod(-1, keepdims=True)) < 2e-5
    # onnx's own numbers where they are right.
    del model.graph.node[:4], model.graph.node[1:2], model.graph.node[2:]
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator(model)
    wanted = evaluator.run(["grids", "q"], {"x": x, "grid": grid, "a": a, "b": b})
    assert rel_error(grids, wanted[0]) < 2e-5
    assert np.array_equal(q, wanted[1])
    assert power[0, 0, 0, :2].tolist() == [np.inf, -np.inf]
    assert rel_error(power[1], wide[1] ** -3) < 2e-5


def test_a_decoder_as_onnxruntime_optimises_it() -> None:
    """Norm and gelu of `com.microsoft`, weights of 4 bits, and attention of grouped queries with
    rotary embedding over a cache, whose rows have lengths of their own."""
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    random, more = np.random.default_rng(0), {"domain": "com.microsoft"}
    heads, groups, dim, past, batch = 4, 2, 8, 6, 2
    width = (heads + 2 * groups) * dim
    angles = np.arange(16)[:, None] * np.array([1.0, 0.3, 0.1, 0.03])
    packed = random.integers(0, 256, (width, 2, 8)).astype(np.uint8)
    scales = (random.standard_normal((width, 2)) / 8).astype(np.float32)
    gain = np.linspace(0.5, 1.5, 32).astype(np.float32)
    caches = [("batch", groups, "past", dim), ("batch", groups, "total", dim)]
    model = _model(
        [
            node(
                "SkipSimplifiedLayerNormalization", ["x", "s", "gain"], ["n", "", "", "t"], **more
            ),
            node(
                "MatMulNBits",
                ["n", "w", "scales"],
                ["qkv"],
                K=32,
                N=width,
                bits=4,
                block_size=16,
                **more,
            ),
            node(
                "GroupQueryAttention",
                ["qkv", *["", ""], "pk", "pv", "lengths", "most", "cos", "sin", "", "", "sinks"],
                ["o", "k", "v"],
                num_heads=heads,
                kv_num_heads=groups,
                do_rotary=1,
                local_window_size=4,
                **more,
            ),
            node("FastGelu", ["o"], ["y"], **more),
        ],
        [
            *((name, kind, ["batch", "rows", 32]) for name in "xs"),
            *((name, kind, caches[0]) for name in ("pk", "pv")),
            ("lengths", onnx.TensorProto.INT32, ["batch", 1]),
            ("most", onnx.TensorProto.INT32, [1]),
        ],
        [
            *((name, kind, ["batch", "rows", 32]) for name in "yt"),
            *((name, kind, caches[1]) for name in "kv"),
        ],
        14,
        {
            "gain": gain,
            "sinks": np.linspace(-1, 1, heads).astype(np.float32),
            "w": packed,
            "scales": scales.reshape(-1),
            "cos": np.cos(angles).astype(np.float32),
            "sin": np.sin(angles).astype(np.float32),
        },
    )
    fast = attnpass.onnx.compile(model)
    assert len(fast.report.attentions) == 1
    weights = np.stack([packed & 15, packed >> 4], -1).reshape(width, 2, 16) - 8.0
    weights = (weights * scales[..., None]).reshape(width, 32).T
    lengths = np.array([[6], [3]], np.int32)
    x, s = (random.standard_normal((batch, 1, 32)).astype(np.float32) for _ in range(2))
    pk, pv = (random.standard_normal((batch, groups, past, dim)).astype(np.float32) for _ in "kv")
    y, t, k, v = fast(x, s, pk, pv, lengths, np.array([7], np.int32))
    total = x.astype(np.float64) + s
    assert rel_error(t, total) < 2e-5
    normal = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * gain
    made = (normal @ weights).reshape(batch, heads + 2 * groups, dim)
    for row, length in enumerate(lengths[:, 0]):
        turn = np.exp(1j * angles[length])
        turned = (made[row, :, :4] + 1j * made[row, :, 4:]) * turn
        new = np.concatenate([turned.real, turned.imag], -1)
        keys = np.concatenate([pk[row, :, :length], new[heads : heads + groups, None]], 1)
        values = np.concatenate([pv[row, :, :length], made[row, heads + groups :, None]], 1)
        assert rel_error(k[row, :, : length + 1], keys) < 2e-5
        assert rel_error(v[row, :, : length + 1], values) < 2e-5
        scores = np.einsum("hd,hkd->hk", new[:heads], keys.repeat(2, 0)) / np.sqrt(dim)
        powers = np.exp(scores)
        powers[:, : length - 3] = 0
        powers /= powers.sum(-1, keepdims=True) + np.exp(np.linspace(-1, 1, heads))[:, None]
        o = np.einsum("hk,hkd->hd", powers, values.repeat(2, 0)).reshape(-1)
        wanted = o / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (o + 0.044715 * o**3)))
        assert rel_error(y[row, 0], wanted) < 2e-5


# Of onnxruntime's attention: op, attributes, inputs by their places and names of results.
_HEADS, _ROWS, _PAST, _WIDTH = 2, 3, 2, 8
ATTENTIONS = {
    "packed, with a cache": ("Attention", {"unidirectional": 1}, {3: "mask", 4: "past"}),
    "of other sizes of V": ("Attention", {"qkv_hidden_sizes": [8, 8, 12]}, {}),
    "starts of keys": ("Attention", {}, {3: "ends and starts"}),
    "mask of rows": ("MultiHeadAttention", {}, {3: "bias", 4: "mask of rows", 6: "k", 7: "v"}),
    "packed by heads": ("MultiHeadAttention", {"scale": 0.3}, {}),
    "added": ("GroupQueryAttention", {"causal": 0, "smooth_softmax": 1}, {10: "added"}),
    "norms": ("GroupQueryAttention", {"softcap": 2.0}, {14: "gain", 15: "gain"}),
    "window": ("GroupQueryAttention", {"local_window_size": 2}, {}),
}


@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_of_onnxruntime(form: str) -> None:
    """What is written out is held against numbers that were held against onnxruntime 1.32."""
    from attnpass.onnx.prepare import prepared

    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    op, attributes, more = ATTENTIONS[form]
    random = np.random.default_rng(0)
    past = _PAST if set(more) & {4: 0, 6: 0}.keys() and op != "GroupQueryAttention" else 0
    keys, dim = past + _ROWS, _WIDTH // _HEADS
    wide = dim * 3 // 2 if "qkv_hidden_sizes" in attributes else dim
    q, k, v = (random.standard_normal((2, _ROWS, _HEADS, d)) for d in (dim, dim, wide))
    old = random.standard_normal((2, 2, _HEADS, past, dim))
    gain, added = random.standard_normal(dim), random.standard_normal((1, 1, _ROWS, keys))
    lengths = np.array([_ROWS, 2])
    mask = random.integers(0, 2, (2, keys)) | (np.arange(keys) == past)
    rows_mask = random.integers(0, 2, (2, _ROWS, keys)) | (np.arange(keys) == past)
    packed = np.concatenate([each.reshape(2, _ROWS, -1) for each in (q, k, v)], -1)
    inputs = {0: packed}
    if op == "Attention":
        inputs |= {1: np.eye(packed.shape[-1])}
    elif op == "MultiHeadAttention" and more:
        inputs = {n: each.reshape(2, _ROWS, -1) for n, each in enumerate((q, k, v))}
    elif op == "MultiHeadAttention":
        inputs = {0: np.stack([q, k, v], 3)}
    else:
        inputs |= {5: (lengths - 1).astype(np.int32), 6: np.array([_ROWS], np.int32)}
        attributes = {**attributes, "kv_num_heads": _HEADS}
    bias = np.zeros(3 * _WIDTH)
    if 3 in more and op == "MultiHeadAttention":
        bias = random.standard_normal(3 * _WIDTH)
    arrays = {
        **{"mask": mask, "past": old, "k": old[0], "v": old[1], "bias": bias, "gain": gain},
        **{"mask of rows": rows_mask, "ends and starts": np.array([3, 2, 1, 0]), "added": added},
    }
    inputs |= {place: arrays[name] for place, name in more.items()}
    names = [f"x{n}" if n in inputs else "" for n in range(max(inputs) + 1)]
    kinds = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    feeds = {f"x{n}": each.astype(kinds.get(each.dtype, each.dtype)) for n, each in inputs.items()}
    node = onnx.helper.make_node(
        op, names, ["y"], domain="com.microsoft", num_heads=_HEADS, **attributes
    )
    values = [
        (name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in feeds.items()
    ]
    model = _model([node], values, [("y", onnx.TensorProto.FLOAT, None)], 17)
    (got,) = evaluator(prepared(model)).run(None, feeds)
    # In float64.
    q, k, v = (
        (
            (each.reshape(2, _ROWS, -1) + shift).reshape(each.shape) if 3 in more else each
            for each, shift in zip((q, k, v), bias.reshape(3, -1), strict=True)
        )
        if op == "MultiHeadAttention"
        else (q, k, v)
    )
    if "gain" in more.values():
        q, k = (x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gain for x in (q, k))
    q, k, v = (each.transpose(0, 2, 1, 3) for each in (q, k, v))
    if past:
        k, v = (np.concatenate([o, n], 2) for o, n in zip(old, (k, v), strict=True))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * attributes.get("scale", 1 / np.sqrt(dim))
    if cap := attributes.get("softcap"):
        scores = np.tanh(scores / cap) * cap
    row, key = np.arange(_ROWS)[:, None], np.arange(keys)
    ends = lengths[:, None, None]
    seen = {
        "packed, with a cache": mask[:, None] * (key <= row + past),
        "starts of keys": (key < ends) & (key >= np.array([1, 0])[:, None, None]),
        "mask of rows": rows_mask,
        "added": np.repeat(key < ends, _ROWS, 1),
        "norms": (key <= row) & (key < ends),
        "window": (key <= row) & (key > row - 2) & (key < ends),
    }.get(form, np.ones((1, _ROWS, keys)))
    scores += added if form == "added" else 0
    powers = np.exp(scores) * seen[:, None]
    total = powers.sum(-1, keepdims=True) + (form == "added")
    wanted = np.einsum("bhqk,bhkd->bqhd", powers / total, v).reshape(2, _ROWS, -1)
    if op == "GroupQueryAttention":
        got, wanted = got[row[:, 0] < ends[:, 0]], wanted[row[:, 0] < ends[:, 0]]
    assert rel_error(got, wanted) < 2e-5


def test_ops_of_onnxruntime_around_attention() -> None:
    """Of the first product's operand nothing is known before the norm is written out."""
    from attnpass.onnx.prepare import prepared

    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    random, more = np.random.default_rng(0), {"domain": "com.microsoft"}
    x, w = (random.standard_normal(sizes).astype(np.float32) for sizes in ((2, 3, 4), (6, 4)))
    table = random.integers(0, 256, (5, 8)).astype(np.uint8)
    scales = np.array([[0.5], [1], [2], [3], [4]], np.float32)
    model = _model(
        [
            node("SkipSimplifiedLayerNormalization", ["x", "x", "gain"], ["small"], **more),
            node("FusedMatMul", ["small", "w"], ["product"], transB=1, transBatchA=1, **more),
            node("FusedGemm", ["w", "w"], ["gemm"], transB=1, activation="LeakyRelu", **more),
            node(
                "FusedConv",
                ["x", "kernel", "", "added"],
                ["conv"],
                activation="Clip",
                activation_params=[-0.5, 0.5],
                **more,
            ),
            node(
                "GatherBlockQuantized",
                ["table", "rows", "scales"],
                ["taken"],
                block_size=16,
                **more,
            ),
        ],
        [("x", kind, x.shape), ("added", kind, (2, 1, 4))],
        [(name, kind, None) for name in ("small", "product", "gemm", "conv", "taken")],
        17,
        {
            **{"w": w, "gain": np.ones(4, np.float32), "kernel": np.ones((1, 3, 1), np.float32)},
            **{"table": table, "scales": scales, "rows": np.array([3, 1])},
        },
    )
    x *= np.float32(1e-4)
    feeds = {"x": x, "added": x[:, :1] * 4e3}
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    small, product, gemm, conv, taken = evaluator(prepared(model)).run(None, feeds)
    total = 2 * x.astype(np.float64)
    assert rel_error(small, total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-12)) < 2e-5
    assert rel_error(product, small.astype(np.float64).transpose(1, 0, 2) @ w.T) < 2e-5
    wide = w.astype(np.float64) @ w.T
    assert rel_error(gemm, np.where(wide < 0, 0.01 * wide, wide)) < 2e-5
    assert rel_error(conv, np.clip(x.sum(1, keepdims=True) + feeds["added"], -0.5, 0.5)) < 2e-5
    numbers = np.stack([table & 15, table >> 4], -1).reshape(5, 16) - 8.0
    assert np.array_equal(taken, (numbers * scales)[[3, 1]])


def test_what_branches_and_loops_run() -> None:
    """An op that ONNX defines by others, sizes that are computed, and a loop in a branch, which
    carries a tensor, gives a row in each step, and may stop."""
    node, kind, value = (
        onnx.helper.make_node,
        onnx.TensorProto.FLOAT,
        onnx.helper.make_tensor_value_info,
    )
    rows, flag = [2, 4, 3, 8], onnx.TensorProto.BOOL

    def numbers(name: str, array: np.ndarray) -> Any:
        return node("Constant", [], [name], value=onnx.numpy_helper.from_array(array))

    step = onnx.helper.make_graph(
        [
            numbers("half", np.float32(0.5)),
            node("Mul", ["old", "half"], ["new"]),
            node("ReduceSum", ["new", "axes"], ["row"], keepdims=0),
            node("Greater", ["total", "i"], ["more"]),
        ],
        "step",
        [value("i", onnx.TensorProto.INT64, []), value("go", flag, []), value("old", kind, rows)],
        [value("more", flag, []), value("new", kind, rows), value("row", kind, [8])],
    )
    loops = onnx.helper.make_graph(
        [
            numbers("axes", np.array([0, 1, 2])),
            numbers("most", np.array(5)),
            node("Loop", ["most", "", "q"], ["last", "sums"], body=step),
            node("ReduceSum", ["sums", "first"], ["sum"], keepdims=0),
            node("Add", ["last", "sum"], ["left"]),
        ],
        "loops",
        [],
        [value("left", kind, rows)],
    )
    attends = onnx.helper.make_graph(
        [
            node("Shape", ["q"], ["sizes"]),
            node("Reshape", ["q", "sizes"], ["same"]),
            node("Attention", ["same", "q", "q"], ["right"], is_causal=1),
        ],
        "attends",
        [],
        [value("right", kind, rows)],
    )
    model = _model(
        [
            node("Less", ["total", "three"], ["few"]),
            node("If", ["few"], ["y"], then_branch=loops, else_branch=attends),
        ],
        [("q", kind, rows), ("total", onnx.TensorProto.INT64, [])],
        [("y", kind, rows)],
        23,
        {"three": np.array(3), "first": np.array([0])},
    )
    fast = attnpass.onnx.compile(model)
    q = np.random.default_rng(0).standard_normal(rows).astype(np.float32)
    wide = q.astype(np.float64)
    for total in (-1, 0, 2, 4):
        if total < 3:
            steps = 1 + max(total, 0)
            wanted = wide / 2**steps
            wanted = wanted + sum((wide / 2**i).sum((0, 1, 2)) for i in range(1, steps + 1))
        else:
            scores = wide @ wide.swapaxes(-1, -2) / np.sqrt(8) + np.triu(np.full((3, 3), -1e30), 1)
            powers = np.exp(scores)
            wanted = powers / powers.sum(-1, keepdims=True) @ wide
        assert rel_error(fast(q, np.array(total)), wanted) < 2e-5


def test_results_of_each_step_of_an_unknown_number_are_refused() -> None:
    value, flag = onnx.helper.make_tensor_value_info, onnx.TensorProto.BOOL
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    whole = onnx.TensorProto.INT64
    for rows, most, reason in (([4], "", "and no number of steps"), (["n"], "m", "unknown sizes")):
        step = onnx.helper.make_graph(
            [node("Identity", ["go"], ["on"]), node("Identity", ["x"], ["row"])],
            "step",
            [value("i", whole, []), value("go", flag, [])],
            [value("on", flag, []), value("row", kind, rows)],
        )
        loop = node("Loop", [most, "start"], ["y"], body=step)
        given = [("x", kind, rows), ("m", whole, []), ("start", flag, [])]
        with pytest.raises(attnpass.AttnError, match=f"results of each step.* {reason}"):
            attnpass.onnx.compile(_model([loop], given, [("y", kind, None)], 17))
