"""Every form of attention against float64: on a CPU here, for CUDA in a folder that a GPU runs.

    python tools/walk_forms.py --json=tools/results/forms_cpu.json [--cpu=host] [--shard=0/8]
    python tools/walk_forms.py --compile=.gpu/forms [--pairwise] [--peer] [--cuda=sm_90]
    python tools/walk_forms.py --run=.gpu/forms [--pairwise] --json=tools/results/forms_h200.json

A form is an order of dims x a mask's type x its dims x element types x sizes known or not x
attention or online_attention x a family of configurations (test/e2e/forms.py). `--pairwise` takes
those in which any two values meet instead of all; `--shard=i/n` every n-th. Functions are compiled
some at a time, and one by one where that fails. The JSON holds an error a form, or what failed;
forms that it already holds are not run again. With `--peer` iree-compile compiles the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "test" / "e2e"))
from forms import (  # noqa: E402
    CPU_FAMILIES,
    CPU_TOLERANCE,
    GPU_FAMILIES,
    GPU_TOLERANCE,
    Form,
    pairwise,
    product,
)

AT_ONCE = 16
SECONDS, RUN_SECONDS = 600, 60
PEERS = {"attnpass": "attn-compile", "iree": "iree-compile"}
CPU = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
CUDA = ["--iree-hal-target-device=cuda"]


def main() -> int:
    options = _parse()
    families = CPU_FAMILIES if not (options.compile or options.run) else GPU_FAMILIES
    forms = (pairwise if options.pairwise else product)(families)
    part, of = map(int, options.shard.split("/"))
    forms = forms[part::of]
    if options.compile:
        return compile_folder(forms, options)
    if options.run:
        return run_folder(forms, options)
    return walk_cpu(forms, options)


def walk_cpu(forms: Sequence[Form], options: argparse.Namespace) -> int:
    """Compiles and runs the forms here."""
    results = _read(options.json)
    flags = [*CPU, f"--iree-llvmcpu-target-cpu={options.cpu}"]
    left = [form for form in forms if form.name not in results]
    with tempfile.TemporaryDirectory() as folder:
        for chunk in _chunks(left):
            for some, vmfb in compiled(chunk, PEERS["attnpass"], flags, Path(folder)):
                results |= measured(some, vmfb, "local-sync")
            _write(options.json, results)
    return _summary(results, CPU_TOLERANCE)


def compile_folder(forms: Sequence[Form], options: argparse.Namespace) -> int:
    """Compiles the forms for CUDA into a folder: NUMBER.PEER.vmfb and which forms it holds."""
    folder = Path(options.compile)
    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    targets = {"attnpass": options.cuda, "iree": "sm_80"}
    for peer in list(PEERS)[: 1 + options.peer]:
        flags = [*CUDA, f"--iree-cuda-target={targets[peer]}"]
        for number, chunk in enumerate(_chunks(forms)):
            pieces = compiled(chunk, PEERS[peer], flags, folder)
            for piece, (some, vmfb) in enumerate(pieces):
                name = f"{number}_{piece}.{peer}.vmfb"
                if vmfb is not None:
                    (folder / name).write_bytes(vmfb)
                index[name] = {form.name: vmfb is not None for form in some}
    (folder / "index.json").write_text(json.dumps(index, indent=1))
    return 0


def run_folder(forms: Sequence[Form], options: argparse.Namespace) -> int:
    """Runs what `compile_folder` has left on a CUDA device, each module in its own process."""
    folder, results = Path(options.run), _read(options.json)
    index = json.loads((folder / "index.json").read_text())
    for file, held in index.items():
        if options.file not in ("", file):
            continue
        some = [form for form in forms if form.name in held]
        if options.file:
            data = (folder / file).read_bytes() if (folder / file).exists() else None
            print(json.dumps(measured(some, data, "cuda")))
            return 0
        for name, error in _run_apart(file, some, options).items():
            results.setdefault(name, {})[file.split(".")[1]] = error
        _write(options.json, results)
    return _summary({name: found.get("attnpass") for name, found in results.items()}, GPU_TOLERANCE)


def _run_apart(file: str, forms: Sequence[Form], options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own says of a module's forms."""
    command = [sys.executable, __file__, f"--run={options.run}", f"--file={file}"]
    command += ["--pairwise"] * options.pairwise
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return {form.name: "no answer" for form in forms}


def compiled(
    forms: Sequence[Form], command: str, flags: Sequence[str], folder: Path
) -> Iterator[tuple[Sequence[Form], bytes | None]]:
    """The forms and a module of them; halves of them where that fails, None for one alone."""
    source, vmfb = folder / "forms.mlir", folder / "forms.vmfb"
    source.write_text("".join(form.text(form.name) for form in forms))
    tool = [str(Path(sys.executable).parent / command), str(source), "-o", str(vmfb), *flags]
    try:
        done = subprocess.run(tool, capture_output=True, timeout=SECONDS, check=False)
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    data = None if failed else vmfb.read_bytes()
    for path in (source, vmfb):
        path.unlink(missing_ok=True)
    if data is not None or len(forms) == 1:
        yield forms, data
        return
    half = len(forms) // 2
    yield from compiled(forms[:half], command, flags, folder)
    yield from compiled(forms[half:], command, flags, folder)


def measured(forms: Sequence[Form], vmfb: bytes | None, driver: str) -> dict[str, Any]:
    """The error of each form, or words for what failed."""
    from helpers import run_module

    if vmfb is None:
        return {form.name: "no program" for form in forms}
    found: dict[str, Any] = {}
    for form in forms:
        try:
            found[form.name] = form.error(run_module(vmfb, form.inputs(), form.name, driver))
        except (RuntimeError, ValueError) as error:
            found[form.name] = str(error).splitlines()[0][:200]
    return found


def _chunks(forms: Sequence[Form]) -> list[Sequence[Form]]:
    return [forms[start : start + AT_ONCE] for start in range(0, len(forms), AT_ONCE)]


def _read(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text()) if path and Path(path).exists() else {}


def _write(path: str, results: dict[str, Any]) -> None:
    if path:
        Path(path).write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def _summary(results: dict[str, Any], tolerance: dict[str, float]) -> int:
    """Tells what is wrong; 1 if something is."""
    kinds = {
        form.name: form.kind for table in (CPU_FAMILIES, GPU_FAMILIES) for form in product(table)
    }
    right = wrong = 0
    for name, error in sorted(results.items()):
        if isinstance(error, float) and error <= tolerance[kinds[name]]:
            right += 1
        else:
            wrong += 1
            print(f"{name}: {error}")
    print(f"{right} right, {wrong} not")
    return int(wrong > 0)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attention in every form against float64.")
    parser.add_argument("--json", default="", help="where results are kept")
    parser.add_argument("--cpu", default="generic", help="the CPU to compile for")
    parser.add_argument("--cuda", default="sm_90", help="the GPU to compile for")
    parser.add_argument("--compile", default="", metavar="FOLDER", help="compile for CUDA only")
    parser.add_argument("--run", default="", metavar="FOLDER", help="run what was compiled")
    parser.add_argument("--file", default="", help="run one module of the folder, print JSON")
    parser.add_argument("--pairwise", action="store_true", help="few forms instead of all")
    parser.add_argument("--peer", action="store_true", help="iree-compile for sm_80, too")
    parser.add_argument("--shard", default="0/1", help="every n-th form: i/n")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
