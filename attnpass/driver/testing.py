"""Testing a producer rule: the same numbers with the passes and without, in one call.

    register(MyRule())
    report = check(MLIR_TEXT)                  # `main` returns an attention of a value that
    assert decisions(report) == ["absorbed"]   # the op of MyRule makes

Everything happens in this process, so rules that were registered here take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..report.records import Report

if TYPE_CHECKING:
    import numpy as np

CPU_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)


def check(
    text: str,
    inputs: Sequence[np.ndarray[Any, Any]] | None = None,
    *,
    mode: str = "always",
    pipeline: str | None = None,
    phase: str | None = None,
    tolerance: float = 1e-5,
    seed: int = 0,
    flags: Sequence[str] = CPU_FLAGS,
    reference: Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]]
    | None = None,
) -> Report:
    """Compiles the function `main` of `text` with the passes and without, runs both on the
    same inputs and compares every result. With `reference` results are compared with what it
    makes of the inputs instead, and nothing is compiled without the passes.

    `inputs` are numpy arrays, f32 ones for arguments of bf16; without them standard normal
    ones are drawn for the function's tensor arguments, which then must have static shapes of
    bf16, f16, f32 or f64. `pipeline` and
    `phase` are as for `attnpass.pipeline_hook`; `phase="start"` runs the passes on the text
    as it stands. `tolerance` bounds the relative L2 distance of each result.

    Returns the report of the passes. Raises AssertionError where numbers differ, and
    AttnError or CompileError where a plan, the verifier or IREE fails.
    """
    import numpy as np

    given = list(inputs) if inputs is not None else _draw(text, seed)
    before = reference(given) if reference else _run(text, given, "never", None, None, flags)[0]
    after, report = _run(text, given, mode, pipeline, phase, flags)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old.shape != new.shape:
            raise AssertionError(f"result {number} has shape {new.shape}, not {old.shape}")
        distance = float(np.linalg.norm(new - old) / max(float(np.linalg.norm(old)), 1e-30))
        if not distance <= tolerance:
            raise AssertionError(
                f"result {number} differs by {distance:.2e} (relative L2) after the passes, "
                f"more than {tolerance:.0e}:\n{report.to_text()}"
            )
    return report


def decisions(report: Report) -> list[str]:
    """What was decided for V, attention by attention."""
    return [
        record.decision
        for attention in report.attentions
        for record in attention.operands
        if record.operand == "value"
    ]


def _draw(text: str, seed: int) -> list[np.ndarray[Any, Any]]:
    import numpy as np

    kinds = {"bf16": np.float32, "f16": np.float16, "f32": np.float32, "f64": np.float64}
    generator = np.random.default_rng(seed)
    return [
        generator.standard_normal(shape).astype(kinds[element])
        for shape, element in _argument_types(text)
    ]


def _argument_types(text: str) -> list[tuple[tuple[int, ...], str]]:
    """Shape and element type of each argument of `main`."""
    from iree.compiler import ir

    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        function = next(
            op.operation
            for op in module.body.operations
            if ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"
        )
        types = [argument.type for argument in function.regions[0].blocks[0].arguments]
        return [(tuple(tensor.shape), str(tensor.element_type)) for tensor in types]


def _on_device(device: Any, array: np.ndarray[Any, Any], element: str) -> Any:
    """`array` as an argument with elements of type `element`."""
    import numpy as np
    from iree import runtime

    if element != "bf16":
        return runtime.asdevicearray(device, array.copy(order="C"))
    # numpy has no bf16: the upper half of each f32, rounded to nearest.
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    view = device.allocator.allocate_buffer_copy(
        memory_type=runtime.MemoryType.DEVICE_LOCAL,
        allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING,
        device=device,
        buffer=bits.astype(np.uint16),
        element_type=runtime.HalElementType.BFLOAT_16,
    )
    return runtime.DeviceArray(device, view)


def _run(
    text: str,
    inputs: Sequence[np.ndarray[Any, Any]],
    mode: str,
    pipeline: str | None,
    phase: str | None,
    flags: Sequence[str],
) -> tuple[list[np.ndarray[Any, Any]], Report]:
    import numpy as np
    from iree import runtime
    from iree.compiler.api import Session, Source

    from ..errors import CompileError
    from .hook import pipeline_hook
    from .session import output_bytes

    session = Session()
    session.set_flags(*flags)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    if not invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0")):
        raise CompileError("the text does not parse")
    hook = pipeline_hook(pipeline, mode=mode, phase=phase)
    vmfb = output_bytes(hook.execute(invocation).output_vm_bytecode)
    for event in hook.report.events:
        if event.kind == "fallback":
            raise CompileError(event.reason)
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, vmfb))
    (name,) = [module for module in context.modules if module != "hal"]
    kinds = [element for _, element in _argument_types(text)]
    given = [_on_device(config.device, x, kind) for x, kind in zip(inputs, kinds, strict=True)]
    results = context.modules[name]["main"](*given)
    found = results if isinstance(results, tuple | list) else [results]
    return [np.array(result.to_host()).astype(np.float64) for result in found], hook.report
