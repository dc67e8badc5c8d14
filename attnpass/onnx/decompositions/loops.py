"""Loops of ONNX that IREE 3.13 does not import: those of no number of steps or no condition, and
those whose steps each give a row of a result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .op import TO_THE_END, DecomposedOp, Decomposition

_node, _value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
_INT64 = onnx.TensorProto.INT64


def _loop(body: DecomposedOp) -> None:
    """A loop that carries the results of which its steps give rows, and how many steps it went:
    each step writes its row, and what is behind the last is cut away."""
    graph, count = body.attribute("body", None), len(body.node.input)
    most, go, *carried = (body.input(place) for place in range(max(count, 2)))
    rows = list(graph.output)[1 + len(carried) :]
    if most and go and not rows:
        return
    if rows and not most:
        raise body.refusal("results of each step, and no number of steps")
    prefix = f"{body.node.op_type}.{next(filter(None, body.node.output))}"
    wholes = [_whole(body, row, most) for row in rows]
    step = _writing(graph, rows, body.known(most), prefix)
    start = [
        most or body.number(TO_THE_END),
        go or body.number(True, np.bool_),
        *carried,
        *wholes,
        *([body.number(0)] if rows else []),
    ]
    results = [f"{prefix}.result.{number}" for number in range(len(start) - 2)]
    body.nodes.append(_node("Loop", start, results, body.node.name, body=step))
    steps = body.reshape(results[-1], [1]) if rows else ""
    may_stop = _may_stop(body, graph)
    for number, result in enumerate(results[: len(carried) + len(rows)]):
        if number >= len(carried) and may_stop:
            zero = body.number([0])
            result = body("Slice", result, zero, steps, zero)
        body.give(number, result)


def _writing(
    graph: onnx.GraphProto,
    rows: Sequence[onnx.ValueInfoProto],
    most: np.ndarray | None,
    prefix: str,
) -> onnx.GraphProto:
    """The body of a loop that is handed tensors and hands them on with its rows in them, behind
    them how many steps there were."""
    step = onnx.GraphProto()
    step.CopyFrom(graph)
    if not rows:
        return step
    del step.output[len(graph.output) - len(rows) :]
    step.value_info.extend(rows)
    place = graph.input[0].name
    words = ("axis", "one", "shape", "at", "done", "more")
    axis, one, shape, at, done, more = (f"{prefix}.{word}" for word in words)
    for name, number in ((axis, [0]), (one, 1), (shape, [1, 1])):
        tensor = onnx.numpy_helper.from_array(np.array(number))
        step.node.append(_node("Constant", [], [name], value=tensor))
    step.node.append(_node("Reshape", [place, shape], [at]))
    for number, row in enumerate(rows):
        old, new, line = (f"{prefix}.{word}.{number}" for word in ("old", "new", "row"))
        kind = row.type.tensor_type
        sizes = [None if most is None else int(most), *(dim.dim_value for dim in kind.shape.dim)]
        step.node.append(_node("Unsqueeze", [row.name, axis], [line]))
        step.node.append(_node("ScatterND", [old, at, line], [new]))
        step.input.append(_value(old, kind.elem_type, sizes))
        step.output.append(_value(new, kind.elem_type, sizes))
    step.node.append(_node("Add", [place, one], [more]))
    step.input.append(_value(done, _INT64, []))
    step.output.append(_value(more, _INT64, []))
    return step


def _whole(body: DecomposedOp, row: onnx.ValueInfoProto, most: str) -> str:
    """Zeros for all rows of a result."""
    kind = row.type.tensor_type
    if not kind.HasField("shape") or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
        raise body.refusal("results of each step of unknown sizes")
    sizes = body.number(np.array([dim.dim_value for dim in kind.shape.dim], np.int64))
    shape = body("Concat", body.reshape(most, [1]), sizes, axis=0)
    return body("Expand", body("Cast", body.number(0), to=kind.elem_type), shape)


def _may_stop(body: DecomposedOp, graph: onnx.GraphProto) -> bool:
    """Whether the loop may end before its number of steps."""
    known = body.known(body.input(1)) if body.input(1) else np.array(True)
    same = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    end = graph.output[0].name
    return known is None or not known or same.get(end, end) != graph.input[1].name


DECOMPOSITIONS: dict[str, Decomposition] = {"Loop": _loop}
