"""An IREE compiler session driven from phase to phase.

The C functions that the Python package does not declare are declared here, once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AttnError, CompileError
from .files import printable

if TYPE_CHECKING:
    from iree.compiler import ir
    from iree.compiler.api import Invocation, Session, Source


# The flags of the process's compiler, once it has some.
_given_flags: list[tuple[str, ...]] = []
_BACKEND_FLAGS = ("iree-hal-target-backends", "iree-hal-local-target-device-backends")
# Those whose ops passes may make. IREE loads the dialects of front ends where it meets them: each
# pass of a context in which they are takes longer to set up, and IREE sets up hundreds.
_DIALECTS = (
    "affine arith bufferization cf complex flow func gpu hal iree_codegen iree_cpu iree_encoding "
    "iree_gpu iree_linalg_ext iree_tensor_ext iree_vector_ext linalg llvm math memref nvgpu nvvm "
    "scf stream tensor transform ub util vector vm"
)
# Ops by which a front end is known to be loaded: passes may make ops of its other dialects then.
_OF_FRONT_ENDS = ("torch.aten.mm", "torch_c.to_builtin_tensor", "stablehlo.add", "tosa.add")


@functools.cache
def library() -> Any:
    """The compiler's shared library with the functions we call declared."""
    from iree.compiler.api import ctypes_dl

    dylib: Any = ctypes_dl._dylib
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "ireeCompilerInvocationSetCompileFromPhase": (None, [ctypes.c_void_p, ctypes.c_char_p]),
        "ireeCompilerInvocationSetCompileToPhase": (None, [ctypes.c_void_p, ctypes.c_char_p]),
        "ireeCompilerInvocationSetVerifyIR": (None, [ctypes.c_void_p, ctypes.c_bool]),
        "ireeCompilerInvocationSetDumpCompilationPhasesTo": (
            None,
            [ctypes.c_void_p, ctypes.c_char_p],
        ),
        "ireeCompilerInvocationSetupRemarks": (
            ctypes.c_bool,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p],
        ),
        "ireeCompilerEnumerateRegisteredHALTargetBackends": (
            None,
            [ctypes.c_void_p, ctypes.c_void_p],
        ),
        "ireeCompilerInvocationOutputVMCSource": (
            ctypes.c_void_p,
            [ctypes.c_void_p, ctypes.c_void_p],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(dylib, name)
        function.restype, function.argtypes = result, arguments
    return dylib


def set_global_flags(*flags: str) -> None:
    """Gives the process's compiler its flags, before the first session. Only the first call in
    a process does that: the compiler takes no other flags later.

    An unknown flag ends the process with LLVM's message and exit code 1, so this is for
    commands, not for libraries.
    """
    for flag in flags:
        if printable(flag) != flag:
            raise AttnError(f"the flag '{printable(flag)}' is no UTF-8, which IREE takes")
    if not _given_flags:
        from iree.compiler.api import _initializeGlobalCL

        _given_flags.append(flags)
        _initializeGlobalCL("attn-compile", *flags)


def check_backends(flags: Sequence[str]) -> None:
    """AttnError if a flag names a target backend that this compiler lacks: IREE 3.13 crashes
    on an unknown backend of the local device."""
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        if name not in _BACKEND_FLAGS or not value:
            continue
        known = registered_backends()
        for word in value.split(","):
            if word not in known:
                raise AttnError(f"--{name}: unknown backend '{word}' (known: {', '.join(known)})")


def registered_backends() -> list[str]:
    """Names of the compiler's target backends, sorted."""
    names: list[str] = []
    each = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
    collect = each(lambda name, _: names.append(name.decode()))
    library().ireeCompilerEnumerateRegisteredHALTargetBackends(collect, None)
    return sorted(names)


def load_dialects(context: ir.Context) -> None:
    """Loads the dialects whose ops passes may make into a session's context."""
    if any(map(context.is_registered_operation, _OF_FRONT_ENDS)):
        context.load_all_available_dialects()
        return
    for name in _DIALECTS.split():
        context.get_dialect_descriptor(name)


def set_phases(invocation: Invocation, start: str, stop: str) -> None:
    """Makes `invocation.execute()` run what lies between the ends of two phases."""
    dylib = library()
    dylib.ireeCompilerInvocationSetCompileFromPhase(invocation._inv_p, start.encode())
    dylib.ireeCompilerInvocationSetCompileToPhase(invocation._inv_p, stop.encode())


def configure_nothing(invocation: Invocation) -> None:
    """The default for `drive`: invocations as they are made, with console diagnostics."""
    invocation.enable_console_diagnostics()


def drive(
    first: Invocation,
    start: str,
    stop: str,
    hooks: dict[str, Callable[[ir.Operation], None]],
    configure: Callable[[Invocation], None] = configure_nothing,
    alone_at: Collection[str] = (),
) -> Invocation:
    """Compiles the module that `first` holds from phase `start` to `stop`, calling hooks[p]
    with the module at the end of each phase p between them (in phase order). The phases
    `alone_at` run in one thread.

    Returns the invocation to take the output from. Raises CompileError where IREE fails, with
    the first of its errors; its diagnostics are printed by then.
    """
    session = first.session
    errors: list[tuple[str, str]] = []
    handler = session.context.attach_diagnostic_handler(lambda each: _listen(each, errors))
    try:
        return _drive(first, start, stop, hooks, configure, alone_at)
    except CompileError as error:
        error.why, error.place = errors[0] if errors else ("", "")
        raise
    finally:
        handler.detach()


def _listen(diagnostic: ir.Diagnostic, errors: list[tuple[str, str]]) -> bool:
    """Adds an error and its place to `errors`, and leaves it to other handlers."""
    from ..ir import location_text

    if diagnostic.severity.name == "ERROR" and not errors:
        lines = diagnostic.message.splitlines() or [""]
        errors.append((lines[0], location_text(diagnostic.location)))
    return False


def _drive(
    first: Invocation,
    start: str,
    stop: str,
    hooks: dict[str, Callable[[ir.Operation], None]],
    configure: Callable[[Invocation], None],
    alone_at: Collection[str],
) -> Invocation:
    from ..ir.threads import one_thread
    from ..phases import phase_index

    invocation, at = first, start
    session = first.session
    if _checked(first) and start == "start" and stop != "start":
        # IREE 3.13 copies the functions of FlexAttention while other threads rewrite them:
        # one compile in a hundred then fails to legalize a `torch.constant.float`.
        hooks = {"input": lambda module: None, **hooks}
        alone_at = ("input", *alone_at)

    def execute(phase: str) -> None:
        runs = range(phase_index(at) + 1, phase_index(phase) + 1)
        is_alone = any(phase_index(one) in runs for one in alone_at)
        with one_thread(session.context) if is_alone else contextlib.nullcontext():
            _execute(invocation, at, phase)

    wanted = [p for p in hooks if phase_index(start) <= phase_index(p) <= phase_index(stop)]
    for phase in sorted(wanted, key=phase_index):
        if phase != at:
            execute(phase)
        module = invocation.export_module()
        load_dialects(session.context)
        hooks[phase](module)
        if phase != start:
            # What has only been parsed goes back: diagnostics show lines of its source.
            invocation = session.invocation()
            configure(invocation)
        invocation.import_module(module)
        at = phase
    if at != stop:
        execute(stop)
    return invocation


def _checked(invocation: Invocation) -> bool:
    """Whether IREE's import puts bodies of functions into FlexAttention. AttnError for a module
    on which IREE 3.13 crashes or hangs."""
    from ..repair.flex_masks import names_functions
    from .modules import check_ops

    try:
        module = invocation.export_module()
    except RuntimeError:
        return False
    check_ops(module)
    found = names_functions(module)
    invocation.import_module(module)
    return found


def _execute(invocation: Invocation, start: str, stop: str) -> None:
    set_phases(invocation, start, stop)
    if not invocation.execute():
        raise CompileError(f"IREE failed between the phases '{start}' and '{stop}'")


def open_source(session: Session, path: str, data: bytes) -> Source:
    """The compiler's source for a file's content; `path` names it in diagnostics."""
    from iree.compiler.api import Source

    name = "<stdin>" if path == "-" else printable(path)
    if data.startswith(b"ML\xefR"):
        # Bytecode must be aligned, which a mapped file is.
        if path != "-":
            if name != path:
                raise AttnError("IREE reads no bytecode from a file whose name is no UTF-8", name)
            return Source.open_file(session, str(Path(path)))
        return Source.wrap_buffer(session, data, buffer_name=name)
    return Source.wrap_buffer(session, data + b"\0", buffer_name=name)


def output_bytes(write: Callable[[Any], None]) -> bytes:
    """What `write` puts into a memory output; CompileError where IREE cannot write it."""
    from iree.compiler.api import Output

    with_output = Output.open_membuffer()
    try:
        write(with_output)
        return bytes(with_output.map_memory())
    except ValueError as error:
        # IREE has printed why: a module without functions, for one.
        raise CompileError(str(error)) from None
    finally:
        with_output.close()


def output_vm_c(invocation: Invocation, output: Any) -> None:
    """C source of the VM module; CompileError where this IREE build cannot make it."""
    error = library().ireeCompilerInvocationOutputVMCSource(invocation._inv_p, output._output_p)
    if error:
        raise CompileError("this IREE build cannot write C source")
