"""Compiled ONNX models, by IREE's own importer."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from iree.compiler import ir
from iree.compiler.extras.onnx_importer import ModelInfo
from iree.compiler.tools import CompilerToolError
from iree.compiler.tools.import_onnx.importer_externalization_overrides import (
    IREENodeImporter,
    ParamData,
)

from ..driver.modules import module_bytes, updates_tensors
from ..errors import AttnError, first_line
from ..program.arrays import ArrayProgram, array_bytes, check_array
from ..program.compiler import ProgramCompiler
from ..program.executable import SCOPE, Executable
from ..report.records import Report
from .prepare import all_nodes, prepared

# Smaller tensors are constants, which the compiler may fold.
_SMALLEST_PARAMETER = 256
# Where IREE fails: an op's name.
_PLACE = re.compile(r"error: loc\(\"([^\"]+)\"\): (.*)")
# What IREE 3.13's import is written for; older models are converted.
_OPSET = 17


@dataclass(frozen=True)
class GraphValue:
    """An input or output of a graph; sizes that the graph leaves open are None."""

    name: str
    dtype: np.dtype
    shape: tuple[int | None, ...]


class CompiledGraph:
    """A model that was compiled: takes arrays by place or by the names of `inputs`.

    `report` says what the passes did, `vmfb` is the program.
    """

    def __init__(
        self,
        program: ArrayProgram,
        inputs: Sequence[GraphValue],
        outputs: Sequence[GraphValue],
        vmfb: bytes,
        report: Report,
    ):
        self._program, self.inputs, self.outputs = program, inputs, outputs
        self.vmfb, self.report = vmfb, report

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        names = [value.name for value in self.inputs]
        given = {**dict(zip(names, arrays, strict=False)), **named}
        if len(arrays) + len(named) != len(names) or set(given) != set(names):
            raise AttnError(f"the model takes {', '.join(names)}; each once, by place or by name")
        values = []
        for value in self.inputs:
            array = given[value.name]
            array = np.asarray(array, None if hasattr(array, "dtype") else value.dtype)
            check_array(f"'{value.name}'", array, value.dtype, value.shape)
            values.append(array)
        results = self._program(values)
        return results[0] if len(results) == 1 else tuple(results)


def compile_graph(
    model: str | os.PathLike[str] | onnx.ModelProto, compiler: ProgramCompiler
) -> CompiledGraph:
    """`attnpass.onnx.compile`."""
    proto, module, parameters = _loaded(model)
    weights = {initializer.name for initializer in proto.graph.initializer}
    inputs = [_value(info) for info in proto.graph.input if info.name not in weights]
    outputs = [_value(info) for info in proto.graph.output]
    doubles = any(value.dtype == np.float64 for value in (*inputs, *outputs))
    vmfb = _compiled(compiler, module_bytes(module), proto.graph, doubles)
    types = [value.dtype for value in outputs]
    executable = Executable(vmfb, compiler.device, parameters)
    program = ArrayProgram(executable, types, updates_tensors(module))
    return CompiledGraph(program, inputs, outputs, vmfb, compiler.report)


def _compiled(
    compiler: ProgramCompiler, module: bytes, graph: onnx.GraphProto, doubles: bool
) -> bytes:
    """The program; AttnError, which names the op, where IREE does not import one."""
    try:
        return compiler.compile(module, "onnx", doubles)
    except CompilerToolError as error:
        found = _PLACE.search(str(error))
        kinds = {node.name: node.op_type for node in all_nodes(graph)}
        if found is None or found[1] not in kinds:
            raise
        raise AttnError(
            f"IREE does not import {kinds[found[1]]} '{found[1]}' as it is here: write it with "
            "other ops, or simplify the model (as onnxslim does), which may make its sizes and "
            f"axes constants ({found[2][:200]})"
        ) from error


def _loaded(
    model: str | os.PathLike[str] | onnx.ModelProto,
) -> tuple[onnx.ModelProto, ir.Operation, dict[str, np.ndarray]]:
    """The model with its shapes, in IREE's form of ONNX, and its parameters by name."""
    name, tool = "the model", "onnx cannot read it"
    proto: Any
    try:
        if isinstance(model, onnx.ModelProto):
            folder, proto = "", model
        else:
            name = os.fspath(model)
            folder, proto = str(Path(name).parent), onnx.load(name)
        versions = [each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")]
        if not versions:
            raise AttnError("it has no graph of ONNX's ops")
        if versions[0] < _OPSET:
            proto = onnx.version_converter.convert_version(proto, _OPSET)
        proto = prepared(proto)
        tool = "IREE cannot import it from ONNX"
        return proto, *_imported(proto, folder)
    except AttnError as error:
        raise AttnError(error.message, name) from error
    except Exception as error:
        raise AttnError(f"{tool}: {first_line(error)}", name) from error


def _imported(proto: onnx.ModelProto, folder: str) -> tuple[ir.Operation, dict[str, np.ndarray]]:
    data = ParamData(None, _SMALLEST_PARAMETER, SCOPE, folder, "", None)
    info = ModelInfo(proto)
    module = info.create_module(context=ir.Context()).operation
    importer = IREENodeImporter.define_function(info.main_graph, module, data)
    importer.import_all()
    weights = {initializer.name: initializer for initializer in proto.graph.initializer}
    # Exporters write large tensors as ops, too.
    weights |= {
        node.output[0]: attribute.t
        for node in proto.graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value"
    }
    parameters = {
        symbol: array_bytes(onnx.numpy_helper.to_array(weights[name], base_dir=folder))
        for name, symbol in importer.globals
    }
    return module, parameters


def _value(info: onnx.ValueInfoProto) -> GraphValue:
    kind = info.type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    sizes = (dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return GraphValue(info.name, dtype, tuple(sizes))
