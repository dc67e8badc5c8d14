"""`compile_file` and `compile_str`, in place of those of `iree.compiler.tools`.

Like the originals they run the compiler as a command of its own, attn-compile instead of
iree-compile: flags that are global to a compiler process work, a compiler that crashes does
not take the caller along, and the result is that of the command by construction.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..report.records import Report, report_from_dict

# attn-compile of this very package, whatever the folder or the installation of the child.
_ROOT = str(Path(__file__).parents[2])
_COMMAND = """\
import sys
root = sys.argv.pop(1)
if root not in sys.path:
    sys.path.insert(0, root)
from attnpass.cli.attn_compile import main
sys.exit(main())
"""


def compile_file(
    input_file: str | os.PathLike[str],
    *,
    mode: str = "cost",
    cache: str = "kept",
    pipeline: str | None = None,
    report: Report | str | os.PathLike[str] | None = None,
    kernels: str = "never",
    configure: bool = True,
    hardware_exp2: bool = True,
    shared_memory: bool = True,
    raise_attention: bool = True,
    table: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> bytes | None:
    """Compiles a file as `iree.compiler.tools.compile_file` does, with our passes.

    `mode` is `cost`, `always` or `never`; `cache="transposed"` makes V caches V^T for the
    caller, too; `pipeline` replaces the default passes; `report`
    is a path for the JSON report, or a Report that is filled in; `kernels` says where
    precompiled kernels are taken (`cost`, `always`, `never`), `configure` whether
    attention gets kernel configurations and decode is split, `hardware_exp2` whether
    CUDA kernels get the GPU's exp2 and fp8 casts, `shared_memory` whether their tiles lie
    in shared memory as tensor cores read them, `raise_attention` whether attention that is
    written out as products and a softmax becomes an op, `table` is a file of configurations that
    attn-tune wrote. All other arguments
    (target_backends, input_type, extra_args, output_file, ...) and the return value (bytes,
    or None with `output_file`) are those of IREE's function, as is CompilerToolError.
    """
    ours = _our_flags(
        mode,
        cache,
        pipeline,
        kernels,
        table,
        configure=configure,
        hardware_exp2=hardware_exp2,
        shared_memory=shared_memory,
        **{"raise": raise_attention},
    )
    return _compile(str(input_file), None, ours, report, kwargs)


def compile_str(
    input_str: str | bytes,
    *,
    mode: str = "cost",
    cache: str = "kept",
    pipeline: str | None = None,
    report: Report | str | os.PathLike[str] | None = None,
    kernels: str = "never",
    configure: bool = True,
    hardware_exp2: bool = True,
    shared_memory: bool = True,
    raise_attention: bool = True,
    table: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> bytes | None:
    """`compile_file` for MLIR text or bytecode in memory."""
    data = input_str.encode() if isinstance(input_str, str) else input_str
    ours = _our_flags(
        mode,
        cache,
        pipeline,
        kernels,
        table,
        configure=configure,
        hardware_exp2=hardware_exp2,
        shared_memory=shared_memory,
        **{"raise": raise_attention},
    )
    return _compile("-", data, ours, report, kwargs)


def attn_compile_command(*arguments: str) -> list[str]:
    """The command line that runs attn-compile of this very package."""
    return [sys.executable, "-P", "-c", _COMMAND, _ROOT, *arguments]


def _our_flags(
    mode: str,
    cache: str,
    pipeline: str | None,
    kernels: str,
    table: str | os.PathLike[str] | None,
    **switches: bool,
) -> list[str]:
    flags = [f"--attn-mode={mode}", f"--attn-cache={cache}", f"--attn-kernels={kernels}"]
    for name, value in switches.items():
        flags.append(f"--attn-{name.replace('_', '-')}={str(value).lower()}")
    if table is not None:
        flags.append(f"--attn-table={os.fspath(table)}")
    return flags if pipeline is None else [*flags, f"--attn-pipeline={pipeline}"]


def _compile(
    path: str,
    data: bytes | None,
    ours: list[str],
    report: Report | str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> bytes | None:
    from iree.compiler.tools.binaries import invoke_immediate
    from iree.compiler.tools.core import CompilerOptions, build_compile_command_line
    from iree.compiler.tools.debugging import TempFileSaver

    with TempFileSaver.implicit() as saver, tempfile.TemporaryDirectory() as scratch:
        compiler_options = CompilerOptions(**options)
        retained = saver.alloc_optional("core-output.bin", export_as=compiler_options.output_file)
        if compiler_options.output_file:
            compiler_options.output_file = retained
        command = build_compile_command_line(path, saver, compiler_options)
        report_path = os.path.join(scratch, "report.json") if report is not None else ""
        if report_path:
            ours = [*ours, f"--attn-report={report_path}"]
        command[:1] = attn_compile_command(*ours)
        result = invoke_immediate(command, immediate_input=data)
        if report_path:
            _deliver(Path(report_path).read_text(), report)
        if compiler_options.output_file:
            return None
        if retained:
            Path(retained).write_bytes(result)
        return result


def _deliver(text: str, report: Report | str | os.PathLike[str] | None) -> None:
    if isinstance(report, Report):
        report.__dict__.update(report_from_dict(json.loads(text)).__dict__)
    elif report is not None:
        Path(report).write_text(text)
