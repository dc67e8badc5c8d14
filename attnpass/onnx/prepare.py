"""ONNX models as IREE 3.13 imports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

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

    So it is in the graphs that ops run (the branches of an If), too.

    AttnError for ops of other packages, and for values of which then nothing is known.
    """
    proto = _with_shapes(_without_unread(proto))
    while made := _folded(proto) or _told(proto) or _decomposed(proto):
        proto = _with_shapes(made)
    _refuse_others(proto)
    for scope in _scopes(proto.graph):
        for node in scope.graph.node:
            # Errors are told by names.
            node.name = node.name or _first_output(node)
    for node in _shapeless(proto):
        raise AttnError(
            f"onnx does not know how many dims '{node.output[0]}' has, which "
            f"{_name(node)} makes: simplify the model (as onnxslim does), or export it anew"
        )
    return proto


class _GraphScope(NamedTuple):
    """A graph, and what is known of the values that it may read, also of graphs around it."""

    graph: onnx.GraphProto
    types: Mapping[str, onnx.TypeProto]
    constants: Mapping[str, onnx.TensorProto]


def _scopes(graph: onnx.GraphProto, around: _GraphScope | None = None) -> Iterator[_GraphScope]:
    """The graphs that ops of a graph run, the innermost first; last of all the graph itself."""
    types = {**around.types} if around else {}
    constants = {**around.constants} if around else {}
    for each in (*graph.input, *graph.output, *graph.value_info):
        types[each.name] = each.type
    for each in graph.initializer:
        types[each.name] = onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
        constants[each.name] = each
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    scope = _GraphScope(graph, types, constants)
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _scopes(inner, scope)
    yield scope


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that an op runs."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The ops of a graph and of the graphs that they run."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def _with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _told(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with how many dims that has which loops carry, where it is so before the first step
    and behind each: onnx does not say; None where there is none."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    return made if any([_tell_loops(scope) for scope in _scopes(made.graph)]) else None


def _tell_loops(scope: _GraphScope) -> bool:
    told = False
    values = {each.name: each for each in (*scope.graph.value_info, *scope.graph.output)}
    for node in scope.graph.node:
        body = next(graphs_of(node)) if node.op_type == "Loop" else onnx.GraphProto()
        ends, starts = list(body.output)[1:], list(node.input)[2:]
        for name, start, end in zip(node.output, starts, ends, strict=False):
            kind = values[name].type.tensor_type if name in values else None
            kinds = [scope.types.get(start, onnx.TypeProto()).tensor_type, end.type.tensor_type]
            if kind is None or kind.HasField("shape") or not _are_of_one_rank(kinds):
                continue
            kind.shape.SetInParent()
            for one, other in zip(*(each.shape.dim for each in kinds), strict=True):
                dim = kind.shape.dim.add()
                if one.HasField("dim_value") and one.dim_value == other.dim_value:
                    dim.dim_value = one.dim_value
            told = True
    return told


def _are_of_one_rank(kinds: list[onnx.TypeProto.Tensor]) -> bool:
    known = all(kind.HasField("shape") for kind in kinds)
    return known and len({len(kind.shape.dim) for kind in kinds}) == 1


def _with_nodes(
    proto: onnx.ModelProto, change: Callable[[_GraphScope], list[onnx.NodeProto] | None]
) -> onnx.ModelProto | None:
    """The model with other ops in each graph for which `change` has some; None if it has none."""
    made, changed = onnx.ModelProto(), False
    made.CopyFrom(proto)
    for scope in _scopes(made.graph):
        nodes = change(scope)
        if nodes is not None:
            del scope.graph.node[:]
            scope.graph.node.extend(nodes)
            changed = True
    return made if changed else None


def _without_unread(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the last results of ops that may be without them, if nothing reads them."""
    read = set(_names_read(proto.graph))
    versions = {each.domain: each.version for each in proto.opset_import}
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for node in all_nodes(made.graph):
        version = versions.get(node.domain, 1)
        if node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type, version):
            # None of the parts of a Split, and of what a branch gives, is one of these.
            results = onnx.defs.get_schema(node.op_type, version).outputs
            optional = {at for at, one in enumerate(results) if one.option == _OPTIONAL}
            while len(node.output) - 1 in optional - {0} and node.output[-1] not in read:
                node.output.pop()
    return made


def _names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """The values that a graph gives back, and those that its ops and their graphs read."""
    yield from (each.name for each in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in graphs_of(node):
            yield from _names_read(inner)


def _refuse_others(proto: onnx.ModelProto) -> None:
    own = {(each.domain, each.name) for each in proto.functions}
    others = Counter(
        f"{node.domain}.{node.op_type}"
        for node in all_nodes(proto.graph)
        if node.domain not in ("", "ai.onnx") and (node.domain, node.op_type) not in own
    )
    if others:
        raise AttnError(
            f"the model has ops that are none of ONNX's ({', '.join(sorted(others))}), which IREE "
            "does not import: export it without the optimizations of onnxruntime"
        )


def _decomposed(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with other ops in the place of those that IREE does not import; None where it has
    none of them. Those of which too little is known wait for others, whose results say more."""
    version = next(each.version for each in proto.opset_import if each.domain in ("", "ai.onnx"))
    refusals: list[AttnError] = []

    def change(scope: _GraphScope) -> list[onnx.NodeProto] | None:
        nodes, changed = [], False
        for node in scope.graph.node:
            prefix = f"{node.op_type}.{_first_output(node)}"
            body = DecomposedOp(node, prefix, version, scope.types, scope.constants)
            if node.op_type in _FUNCTIONS and node.domain in ("", "ai.onnx"):
                made = _body(node, prefix, version, scope.types)
            else:
                try:
                    made = body.nodes if decompose(body) else []
                except AttnError as error:
                    made = []
                    refusals.append(error)
            nodes += made or [node]
            changed = changed or bool(made)
        return nodes if changed else None

    made = _with_nodes(proto, change)
    if refusals and made is None:
        raise refusals[0]
    return made


def _body(
    node: onnx.NodeProto, prefix: str, version: int, types: Mapping[str, onnx.TypeProto]
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
    names |= {name: f"{prefix}.{name}" for name in function.output}
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
        copy.input[:] = [names.setdefault(x, f"{prefix}.{x}") for x in inner.input]
        copy.output[:] = [names.setdefault(x, f"{prefix}.{x}") for x in inner.output]
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

    def is_shapeless(kind: onnx.TypeProto | None) -> bool:
        if kind is None or kind.WhichOneof("value") in (None, "tensor_type"):
            return kind is None or not kind.tensor_type.HasField("shape")
        return False

    return [
        node
        for scope in _scopes(proto.graph)
        for node in scope.graph.node
        if any(is_shapeless(scope.types.get(name)) for name in node.output if name)
    ]


def _folded(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with sizes that can be computed here as constants; None where there are none."""

    def change(scope: _GraphScope) -> list[onnx.NodeProto] | None:
        small = filter(lambda each: _is_small(each[1]), scope.constants.items())
        known = {name: onnx.numpy_helper.to_array(each) for name, each in small}
        nodes = _copied_constants(scope.graph, known)
        changed = bool(nodes)
        for node in scope.graph.node:
            value = _size_of(node, known, scope.types, proto)
            if value is not None:
                known[node.output[0]] = value
                changed = True
            nodes.append(node if value is None else _constant(node.output[0], value, node.name))
        return nodes if changed else None

    return _with_nodes(proto, change)


def _copied_constants(graph: onnx.GraphProto, known: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    """Constants in the place of those of graphs around that a graph's ops read: onnx computes no
    shapes by these."""
    own = {each.name for each in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    made: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in known and name not in own:
                node.input[place] = copy = f"{graph.output[0].name}.{name}"
                made[copy] = _constant(copy, known[name])
                known[copy] = known[name]
                own.add(copy)
    return list(made.values())


def _constant(name: str, value: np.ndarray, node: str = "") -> onnx.NodeProto:
    tensor = onnx.numpy_helper.from_array(value)
    return onnx.helper.make_node("Constant", [], [name], node or name, value=tensor)


def _is_small(tensor: onnx.TensorProto) -> bool:
    kinds = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)
    return tensor.data_type in kinds and np.prod(tensor.dims, dtype=int) <= _MOST_NUMBERS


def _size_of(
    node: onnx.NodeProto,
    known: Mapping[str, np.ndarray],
    types: Mapping[str, onnx.TypeProto],
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


def _first_output(node: onnx.NodeProto) -> str:
    return next(filter(None, node.output), "")


def _name(node: onnx.NodeProto) -> str:
    return f"{node.op_type} '{node.name}'" if node.name else f"a {node.op_type}"
