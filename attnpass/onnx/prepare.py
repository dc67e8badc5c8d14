"""ONNX models as IREE 3.13 imports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ..errors import AttnError
from .decompositions import DecomposedOp, decompose

# Ops that ONNX defines by others, and IREE does not import.
_FUNCTIONS = frozenset(
    (
        *("Attention", "CausalConvWithState", "RMSNormalization"),
        *("RotaryEmbedding", "SwiGLU", "Swish"),
    )
)
# Ops on sizes, and how many numbers they may have.
_SIZES = frozenset(
    (
        *("Add", "And", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather"),
        *("Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Range"),
        *("ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Where"),
    )
)
_MOST_NUMBERS = 64
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


def prepared(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model of which IREE knows each op, with the shapes of all values.

    1. Ops that ONNX defines by others (Attention of opset 23) are those, as are ops of onnxruntime
       and ops that IREE gets wrong (`decompositions`).
    2. Results that nothing reads and that an op may be without are gone: many ops have some that
       IREE does not make.
    3. Sizes that can be computed here are constants: onnx knows more shapes then, and IREE fewer
       unknown sizes.

    AttnError for ops of other packages, and for values of which then nothing is known.
    """
    proto = _with_shapes(_without_unread(proto))
    while (decomposed := _decomposed(proto)) is not None:
        proto = _with_shapes(decomposed)
    _refuse_others(proto)
    while (folded := _folded(proto)) is not None:
        proto = _with_shapes(folded)
    for node in proto.graph.node:
        # Errors are told by names.
        node.name = node.name or next(filter(None, node.output), "")
    for node in _shapeless(proto):
        raise AttnError(
            f"onnx does not know how many dims '{node.output[0]}' has, which "
            f"{_name(node)} makes: simplify the model (as onnxslim does), or export it anew"
        )
    return proto


def _with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _without_unread(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the last results of ops that may be without them, if nothing reads them."""
    read = set(_names_read(proto.graph))
    versions = {each.domain: each.version for each in proto.opset_import}
    nodes = []
    for node in proto.graph.node:
        kept = onnx.NodeProto()
        kept.CopyFrom(node)
        version = versions.get(node.domain, 1)
        if node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type, version):
            # None of the parts of a Split, and of what a branch gives, is one of these.
            results = onnx.defs.get_schema(node.op_type, version).outputs
            optional = {at for at, one in enumerate(results) if one.option == _OPTIONAL}
            while len(kept.output) - 1 in optional - {0} and kept.output[-1] not in read:
                kept.output.pop()
        nodes.append(kept)
    return _with_nodes(proto, nodes)


def _names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """The values that a graph gives back, and those that its ops and their graphs read."""
    yield from (each.name for each in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names_read(inner)


def _refuse_others(proto: onnx.ModelProto) -> None:
    own = {(each.domain, each.name) for each in proto.functions}
    others = Counter(
        f"{node.domain}.{node.op_type}"
        for node in proto.graph.node
        if node.domain not in ("", "ai.onnx") and (node.domain, node.op_type) not in own
    )
    if others:
        raise AttnError(
            f"the model has ops that are none of ONNX's ({', '.join(sorted(others))}), which IREE "
            "does not import: export it without the optimizations of onnxruntime"
        )


def _types(proto: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    graph = proto.graph
    found = {each.name: each.type for each in (*graph.input, *graph.output, *graph.value_info)}
    for each in graph.initializer:
        found[each.name] = onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
    return found


def _decomposed(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with other ops in the place of those that IREE does not import; None where it has
    none of them. Those of which too little is known wait for others, whose results say more."""
    version = next(each.version for each in proto.opset_import if each.domain in ("", "ai.onnx"))
    weights = {each.name: each for each in proto.graph.initializer}
    weights |= {
        node.output[0]: node.attribute[0].t
        for node in proto.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    types, nodes, changed = _types(proto), [], False
    refusal: AttnError | None = None
    for number, node in enumerate(proto.graph.node):
        body = DecomposedOp(node, f"{node.op_type}.{node.output[0]}", version, types, weights)
        if node.op_type in _FUNCTIONS and node.domain in ("", "ai.onnx"):
            made = _body(node, number, version, types)
        else:
            try:
                made = body.nodes if decompose(body) else []
            except AttnError as error:
                made, refusal = [], refusal or error
        nodes += made or [node]
        changed = changed or bool(made)
    if refusal is not None and not changed:
        raise refusal
    return _with_nodes(proto, nodes) if changed else None


def _with_nodes(proto: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _body(
    node: onnx.NodeProto, number: int, version: int, types: dict[str, onnx.TypeProto]
) -> list[onnx.NodeProto]:
    """What an op is made of, on its own operands and results; other values have names of theirs."""
    schema = onnx.defs.get_schema(node.op_type, version)
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        known = max(v for v in schema.context_dependent_function_opset_versions if v <= version)
        given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        text = schema.get_context_dependent_function_with_opset_version(
            known, node.SerializeToString(), given
        )
    else:
        known = max(v for v in schema.function_opset_versions if v <= version)
        text = schema.get_function_with_opset_version(known)
    function.ParseFromString(text)
    names = {"": ""}
    names |= dict.fromkeys(function.input, "")
    names |= dict(zip(function.input, node.input, strict=False))
    names |= {name: f"{node.op_type}.{number}.{name}" for name in function.output}
    names |= {
        ours: theirs for ours, theirs in zip(function.output, node.output, strict=False) if theirs
    }
    defaults = [
        each.default_value for each in schema.attributes.values() if each.default_value.name
    ]
    given = (*defaults, *function.attribute_proto, *node.attribute)
    attributes = {each.name: each for each in given}
    body = []
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = f"{node.name}/{inner.op_type}"
        copy.input[:] = [names.setdefault(x, f"{node.op_type}.{number}.{x}") for x in inner.input]
        copy.output[:] = [names.setdefault(x, f"{node.op_type}.{number}.{x}") for x in inner.output]
        del copy.attribute[:]
        for attribute in inner.attribute:
            if not attribute.ref_attr_name:
                copy.attribute.append(attribute)
            elif attribute.ref_attr_name in attributes:
                copy.attribute.append(attributes[attribute.ref_attr_name])
                copy.attribute[-1].name = attribute.name
        body.append(copy)
    return body


def _shapeless(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes that make tensors of which onnx does not know how many dims they have."""
    types = _types(proto)

    def is_shapeless(name: str) -> bool:
        kind = types.get(name)
        if kind is None or kind.WhichOneof("value") in (None, "tensor_type"):
            return bool(name) and (kind is None or not kind.tensor_type.HasField("shape"))
        return False

    return [node for node in proto.graph.node if any(map(is_shapeless, node.output))]


def _folded(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with sizes that can be computed here as constants; None where there are none."""
    types = _types(proto)
    known = dict(_constants(proto))
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in proto.graph.node:
        value = _size_of(node, known, types, proto)
        if value is None:
            nodes.append(node)
            continue
        known[node.output[0]] = value
        tensor = onnx.numpy_helper.from_array(value)
        nodes.append(onnx.helper.make_node("Constant", [], node.output, node.name, value=tensor))
        changed = True
    if not changed:
        return None
    return _with_nodes(proto, nodes)


def _constants(proto: onnx.ModelProto) -> Iterator[tuple[str, np.ndarray]]:
    """Constants of few whole numbers."""
    for each in proto.graph.initializer:
        if _is_small(each):
            yield each.name, onnx.numpy_helper.to_array(each)
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value" and _is_small(attribute.t):
                yield node.output[0], onnx.numpy_helper.to_array(attribute.t)


def _is_small(tensor: onnx.TensorProto) -> bool:
    kinds = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)
    return tensor.data_type in kinds and np.prod(tensor.dims, dtype=int) <= _MOST_NUMBERS


def _size_of(
    node: onnx.NodeProto,
    known: dict[str, np.ndarray],
    types: dict[str, onnx.TypeProto],
    proto: onnx.ModelProto,
) -> np.ndarray | None:
    """What a node makes of known sizes; None where it is something else, or not known."""
    if node.op_type in ("Shape", "Size") and node.input[0] in types:
        kind = types[node.input[0]].tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
        ends = {each.name: each.i for each in node.attribute}
        part = sizes[ends.get("start", 0) : ends.get("end", len(sizes))]
        if not kind.HasField("shape") or None in part:
            return None
        array = np.array(part, np.int64)
        return array if node.op_type == "Shape" else array.prod()
    given = [known.get(name) for name in node.input if name]
    if node.op_type not in _SIZES or not given or any(value is None for value in given):
        return None
    inputs = [onnx.helper.make_tensor_value_info(n, 0, None) for n in node.input if n]
    graph = onnx.helper.make_graph(
        [node], "sizes", inputs, [onnx.helper.make_tensor_value_info(node.output[0], 0, None)]
    )
    model = onnx.helper.make_model(graph, opset_imports=proto.opset_import)
    feeds = {name: known[name] for name in node.input if name}
    (result,) = list(ReferenceEvaluator(model).run(None, feeds))
    value = np.asarray(result)
    return value if value.dtype.kind in "bi" and value.size <= _MOST_NUMBERS else None


def _name(node: onnx.NodeProto) -> str:
    return f"{node.op_type} '{node.name}'" if node.name else f"a {node.op_type}"
