"""IREE's own importer of torch programs, which keeps module paths and leaves weights outside."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
from iree.compiler import ir
from iree.compiler.extras.fx_importer import (
    ContextCache,
    FxImporter,
    FxImporterHooks,
    GraphNodeImporter,
    InputInfo,
    create_mlir_tensor_type,
)

from ..errors import AttnError
from ..ir import location_text, walk
from ..program.executable import SCOPE
from .control_flow import BranchImporter
from .exported import StatelessProgram

# Smaller tensors are constants, which the compiler may fold.
_SMALLEST_PARAMETER = 1024
# What goes into a program as it is; the importer has its own ways for others.
_TYPES = frozenset(
    (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
        *(torch.complex64, torch.complex128),
    )
)


class _PathCache(ContextCache):
    """Names the place of an op by the path of the module that it is of."""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location | None:
        place = super().get_node_location(node)
        path = module_path(node)
        if not path:
            return place
        return ir.Location.name(path, place or ir.Location.unknown(self._c), context=self._c)


def module_path(node: torch.fx.Node) -> str:
    """The module that an op is of (`layers.3.self_attn`); '' where torch does not say."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    # From torch.compile: L['self'].layers[3].self_attn, or L['fn']._modules['layers']...
    text = re.sub(r"^L\['\w+'\]\.?", "", paths[-1]) if paths else ""
    text = re.sub(r"_modules\['(\w+)'\]|\[['\"]?(\w+)['\"]?\]", r".\1\2", text)
    return re.sub(r"\.{2,}", ".", text).strip(".")


class _ParameterHooks(FxImporterHooks):
    """Makes large tensors parameters of the program: globals that the runtime fills."""

    def __init__(self) -> None:
        self.parameters: dict[str, torch.Tensor] = {}
        self._names: dict[Any, str] = {}
        self._module: ir.Operation | None = None

    def prepare_module(self, module_op: ir.Operation) -> None:
        self._module = module_op

    def resolve_input(self, gni: GraphNodeImporter, value: Any, info: InputInfo) -> ir.Value | None:
        small = value.nbytes < _SMALLEST_PARAMETER and not value.is_complex()
        if small or value.dtype not in _TYPES:
            return None
        return self._tensor(gni, value, str(info.input_spec.target))

    def resolve_literal(
        self, gni: GraphNodeImporter, literal: Any, info: InputInfo | None
    ) -> ir.Value | None:
        if not isinstance(literal, torch.Tensor) or literal.dtype not in _TYPES:
            return None
        if not literal.numel():
            return None
        return self._tensor(gni, literal, f"constant.{len(self.parameters)}")

    def _tensor(self, gni: GraphNodeImporter, value: torch.Tensor, name: str) -> ir.Value:
        """A constant or a parameter; one of complex numbers is kept as pairs of real ones, which
        IREE 3.13 has constants and parameters of."""
        if value.is_complex():
            pairs = self._tensor(gni, torch.view_as_real(value.detach().resolve_conj()), name)
            return ir.Operation.create(
                "torch.aten.view_as_complex",
                results=[gni._cc.tensor_to_vtensor_type(value)],
                operands=[pairs],
            ).result
        if value.nbytes < _SMALLEST_PARAMETER:
            return _constant(gni, value)
        return self._parameter(gni, value, name)

    def _parameter(self, gni: GraphNodeImporter, value: torch.Tensor, name: str) -> ir.Value:
        """The value of a tensor's parameter, where it stands."""
        vtensor = gni._cc.tensor_to_vtensor_type(value)
        builtin = ir.Type.parse(_builtin(str(vtensor)), gni._c)
        # Tied weights are one parameter.
        key = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if key not in self._names:
            self._names[key] = name
            self.parameters[name] = value
            self._declare(name, builtin)
        symbol = ir.FlatSymbolRefAttr.get(_symbol(self._names[key]), context=gni._c)
        loaded = ir.Operation.create(
            "util.global.load", results=[builtin], attributes={"global": symbol}
        ).result
        return ir.Operation.create(
            "torch_c.from_builtin_tensor", results=[vtensor], operands=[loaded]
        ).result

    def _declare(self, name: str, builtin: ir.Type) -> None:
        assert self._module is not None
        quoted = ir.StringAttr.get(name, context=builtin.context)
        text = (
            f'util.global private @"{_symbol(name)}" = '
            f'#flow.parameter.named<"{SCOPE}"::{quoted}> : {builtin}'
        )
        declared = ir.Operation.parse(text, context=builtin.context)
        block = self._module.regions[0].blocks[0]
        ir.InsertionPoint.at_block_begin(block).insert(declared)


def _constant(gni: GraphNodeImporter, value: torch.Tensor) -> ir.Value:
    """A tensor as a constant, element by element: IREE 3.13 fails where it changes the type of one
    that the importer writes as a blob (bf16 and f64 on CPUs)."""
    kind = create_mlir_tensor_type(value)
    make = ir.FloatAttr.get if value.dtype.is_floating_point else ir.IntegerAttr.get
    elements = [make(kind.element_type, item) for item in value.detach().flatten().tolist()]
    data = ir.DenseElementsAttr.get(elements, kind)
    return ir.Operation.create(
        "torch.vtensor.literal",
        results=[gni._cc.tensor_to_vtensor_type(value)],
        attributes={"value": data},
    ).result


def _symbol(name: str) -> str:
    return "parameter." + re.sub(r"[^\w.]", "_", name)


def _builtin(vtensor: str) -> str:
    """The builtin tensor type of `!torch.vtensor<[2,3],f32>`."""
    dims, _, element = vtensor.removeprefix("!torch.vtensor<[").removesuffix(">").partition("],")
    element = re.sub(r"^[su]i(\d+)$", r"i\1", element)
    shape = "".join(f"{dim}x" for dim in dims.split(",") if dim)
    return f"tensor<{shape}{element}>"


def memory_type(vtensor: str) -> str:
    """The type of memory that holds tensors of `!torch.vtensor<[2,3],f32>`."""
    return vtensor.replace("!torch.vtensor", "!torch.tensor")


class _PathImporter(FxImporter):
    """IREE's importer with our cache of locations."""

    def __init__(self, hooks: FxImporterHooks):
        context = ir.Context()
        context.load_all_available_dialects()
        super().__init__(context=context, hooks=hooks, graph_node_importer_cls=BranchImporter)
        self._cc = _PathCache(self._c, py_attr_tracker=self._py_attr_tracker)


def imported(program: StatelessProgram) -> tuple[ir.Module, dict[str, torch.Tensor]]:
    """The program in IREE's torch dialect, and its parameters by name.

    AttnError where the importer does not know what to do with an op.
    """
    hooks = _ParameterHooks()
    importer = _PathImporter(hooks)
    try:
        importer.import_program(
            program,  # pyright: ignore[reportArgumentType]
            func_name="main",
        )
    except Exception as error:
        raise AttnError(f"IREE cannot import the program from torch: {error}") from error
    return importer.module, hooks.parameters


def unknown_ops(module: ir.Module) -> dict[str, str]:
    """Ops of torch that IREE's dialect has no name for, as `aten.foo.default`, and the place of the
    first of each: `file:line:col`, or '' where none is known."""
    names: dict[str, str] = {}

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "torch.operator":
            name = ir.StringAttr(op.attributes["name"]).value.removeprefix("torch.")
            place = location_text(op.location).replace("unknown", "")
            names.setdefault(name if name.count(".") > 1 else f"{name}.default", place)
        return ir.WalkResult.ADVANCE

    walk(module.operation, look)
    return names


def host_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor: its own memory, or a copy where they are not in order there or lie
    on another device."""
    flat = tensor.detach().contiguous().reshape(-1).cpu()
    return flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
