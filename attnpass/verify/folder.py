"""A verification folder: modules, values and results, each kept as soon as it is there.

    manifest.json    what is verified, and the jobs: a compiled module each, with its calls
    modules/         parts of the model, and of the reference, that do not compile
    compiled/        a .vmfb, and how the compile went, for each
    values/          inputs and the reference's values, a folder for each call
    run.py, measure.py   run the jobs; need iree-base-runtime and numpy only
    results/         made by run.py

Modules and jobs are named by a hash of all that they come from: what is there is not made again,
and a search that is begun anew comes in no time to where it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..driver.children import error_place, run_children
from ..driver.files import read_input
from ..driver.flags import iree_compile
from ..driver.tools import attn_compile_command
from ..errors import AttnError
from ..tuning import measure
from ..tuning.compiles import KeptCompile, as_user_errors, kept_state, make_folder, run_compiles
from ..tuning.measure import VERSION, read_json, write_json
from . import run
from .run import FORMAT

# Where IREE is right most often: attention in no op of its own, and the first of these levels
# that compiles.
REFERENCE_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)
REFERENCE_LEVELS = ("O2", "O0")
REFERENCE_PASSES, IMPORT_PASSES = "attn-decompose", "attn-flex-masks"
REFERENCE_DRIVER = "local-task"
# Not for what is of IREE's `input` phase already.
_IMPORT_FLAGS = ("--iree-input-type",)
_SUBFOLDERS = ("modules", "compiled", "values", "results")


class Pending(Exception):
    """Modules are compiled that have to be run on another machine first."""


@dataclass(frozen=True)
class VerifySettings:
    """What to verify, and how. `flags` are those of the compiler that is verified; `offline`
    where its modules run elsewhere."""

    model: str
    driver: str
    flags: tuple[str, ...]
    plain: bool = False
    function: str = ""
    inputs: str = ""
    seeds: int = 1
    lengths: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    offline: bool = False
    jobs: int = 1
    compile_limit: float = 300
    run_limit: float = 120
    quiet: bool = False


@dataclass(frozen=True)
class Call:
    """A call of a function: where its inputs and right results are, by path in the folder."""

    function: str
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class CompileRequest:
    """A module to compile and to call: the model itself where there is no `source`. That of the
    reference has a `level`; `half` where it computes with types of 16 bits."""

    title: str
    source: bytes
    calls: tuple[Call, ...]
    level: str = ""
    half: bool = False


@dataclass
class RunJob:
    """A compiled module with its calls; `writes` results into files instead of comparing."""

    id: str
    title: str
    file: str
    driver: str
    calls: list[dict[str, Any]]
    writes: bool
    status: str
    reason: str


@dataclass
class Folder:
    """A folder on disk, and what is verified in it."""

    path: Path
    settings: VerifySettings
    jobs: dict[str, RunJob] = field(default_factory=dict)

    def make(self) -> None:
        make_folder(self.path, _SUBFOLDERS, [measure, run])

    def save(self) -> None:
        data = {"format": FORMAT, "version": VERSION, "settings": asdict(self.settings)}
        data["jobs"] = [asdict(job) for job in self.jobs.values()]
        write_json(self.path / "manifest.json", data)

    # ----- values

    def value_path(self, trial: str, name: str) -> str:
        """Where a value of a call is kept, within the folder."""
        plain = "".join(c if c.isalnum() or c in "._" else "-" for c in name)
        return f"values/{trial}/{plain}.npy"

    def has(self, trial: str, name: str) -> bool:
        return (self.path / self.value_path(trial, name)).exists()

    def begin(self, trial: str, program: bytes, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps the inputs of a call; values that came from others, or from another program, go."""
        digest = hashlib.sha256(program)
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
        folder = self.path / "values" / trial
        mark = folder / "inputs.sha256"
        if mark.exists() and mark.read_text() == digest.hexdigest():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, array in arrays.items():
            np.save(self.path / self.value_path(trial, name), array)
        mark.write_text(digest.hexdigest())

    def value(self, trial: str, name: str) -> np.ndarray:
        return np.load(self.path / self.value_path(trial, name))

    # ----- compiles and runs

    def ask(self, requests: Sequence[CompileRequest]) -> list[dict[str, Any]]:
        """What became of each: `status` right, wrong, crashed, late, failed, or `uncompiled`,
        with a `reason`. Raises Pending where they have to run elsewhere, and did not yet."""
        jobs = self.prepare(requests)
        compiled = [job for job in jobs if job.status == "compiled"]
        if self.settings.offline and not all(job.writes for job in jobs):
            missing = [job for job in compiled if not self._result(job)]
            if missing:
                raise Pending
        else:
            self._run(compiled)
        return [self._outcome(job) for job in jobs]

    def prepare(self, requests: Sequence[CompileRequest]) -> list[RunJob]:
        """The jobs of requests, compiled."""
        compiles = {_key(self._command(request)): request for request in requests}
        self._compile({key: compiles[key] for key in compiles if not self._state(key)})
        return [self._job(request) for request in requests]

    def _command(self, request: CompileRequest) -> tuple[list[str], bytes]:
        """The compiler's flags, and the data that its input holds."""
        settings = self.settings
        if request.level:
            # Types of 16 bits without instructions for them take a hundred times as long.
            cpu = "host" if request.half else "generic"
            flags = [f"--iree-opt-level={request.level}", f"--iree-llvmcpu-target-cpu={cpu}"]
            passes = f"--attn-pipeline={REFERENCE_PASSES}"
            return [*REFERENCE_FLAGS, *flags, passes], request.source
        plain = ["--plain"] if settings.plain else []
        if not request.source:
            return [*plain, *settings.flags], read_input(settings.model)
        flags = [flag for flag in settings.flags if not flag.startswith(_IMPORT_FLAGS)]
        return [*plain, *flags], request.source

    def _compile(self, requests: dict[str, CompileRequest]) -> None:
        starts = [partial(self._started, key, request) for key, request in requests.items()]
        run_compiles(starts, self.settings.jobs, self.settings.quiet)

    def _started(self, key: str, request: CompileRequest) -> _ModuleCompile:
        flags, _ = self._command(request)
        source = self.settings.model
        if request.source:
            path = self.path / "modules" / f"{key}.mlir"
            path.write_bytes(request.source)
            source = str(path)
        return _ModuleCompile(
            self.path, key, request.title, source, flags, self.settings.compile_limit
        )

    def _state(self, key: str) -> dict[str, Any]:
        """How a compile went; empty where it has to be done, again where it was late."""
        return kept_state(self.path, key, self.settings.compile_limit)

    def _job(self, request: CompileRequest) -> RunJob:
        key = _key(self._command(request))
        calls = [asdict(call) for call in request.calls]
        name = _hash(key + self._digest(request.calls), json.dumps(calls, sort_keys=True).encode())
        state = self._state(key)
        writes = bool(request.level)
        driver = REFERENCE_DRIVER if writes else self.settings.driver
        file = f"compiled/{key}.vmfb"
        status, reason = state["status"], state["reason"]
        job = RunJob(name, request.title, file, driver, calls, writes, status, reason)
        self.jobs[name] = job
        return job

    def _digest(self, calls: Iterable[Call]) -> str:
        """Of the inputs' numbers, which all others come from."""
        digest = hashlib.sha256()
        for path in (value["path"] for call in calls for value in call.inputs):
            digest.update((self.path / path).read_bytes())
        return digest.hexdigest()

    def _run(self, jobs: Iterable[RunJob]) -> None:
        self.save()
        names = [job.id for job in jobs]
        if not names:
            return
        with as_user_errors():
            run.run_all(self.path, self.settings.run_limit, self.settings.quiet, names)

    def _result(self, job: RunJob) -> dict[str, Any]:
        found = read_json(self.path / "results" / f"{job.id}.json")
        return found if isinstance(found, dict) and "status" in found else {}

    def _outcome(self, job: RunJob) -> dict[str, Any]:
        if job.status != "compiled":
            return {"status": "uncompiled", "reason": job.reason, "values": []}
        return {"values": [], "reason": "", **self._result(job)}

    # ----- the model as IREE imports it

    def imported(self) -> bytes:
        """The model at the end of IREE's `input` phase, with places, as bytecode: no pass of ours
        has changed it, but for what IREE imports wrong. AttnError where IREE refuses it."""
        return self._imported([*self._own_flags(), f"--attn-pipeline={IMPORT_PASSES}"])

    def _own_flags(self) -> list[str]:
        """Those of the compiler's flags that are IREE's."""
        flags = self.settings.flags
        return [flag for flag in flags if not flag.lstrip("-").startswith("attn-")]

    def _imported(self, flags: list[str]) -> bytes:
        flags += ["--compile-to=input", "--emit-mlir-bytecode"]
        model = self.settings.model
        key = _key((flags, read_input(model)))
        path = self.path / "compiled" / f"{key}.vmfb"
        if not path.exists():
            child = _ModuleCompile(
                self.path, key, "import", model, flags, self.settings.compile_limit
            )
            run_children([lambda: child], 1, _ModuleCompile.finish)
            if child.failure:
                raise AttnError(*child.failure)
        return path.read_bytes()


class _ModuleCompile(KeptCompile):
    """A module being compiled; `--plain` among the flags is for iree-compile. `failure` is why
    there is no program, and where."""

    def __init__(
        self, folder: Path, key: str, title: str, source: str, flags: Sequence[str], limit: float
    ):
        self.failure: tuple[str, str] | None = None
        words = [source, *flags]
        if "--plain" in flags:
            words.remove("--plain")
            command = [iree_compile(), *(x for x in words if not x.startswith("--attn-"))]
        else:
            command = attn_compile_command(*words)
        super().__init__(folder, key, title, command, limit)

    def finish(self) -> None:
        """Says in the folder how it went."""
        super().finish()
        if self.status == "compiled":
            (self.folder / "modules" / f"{self.key}.mlir").unlink(missing_ok=True)
        else:
            place = self.title if self.late else error_place(self.said)
            self.failure = self.reason, place


def _key(command: tuple[Sequence[str], bytes]) -> str:
    flags, data = command
    versions = [version("iree-base-compiler")]
    if "--plain" not in flags:
        versions.append(__version__)
    return _hash("\0".join([*flags, *versions]), data)


def _hash(text: str, data: bytes) -> str:
    return hashlib.sha256(text.encode() + b"\0" + data).hexdigest()[:16]


def load_folder(path: str) -> Folder:
    """A folder that attn-verify made; AttnError where there is none."""
    with as_user_errors():
        data = measure.read_manifest(Path(path), FORMAT, "verification")
    try:
        raw = data["settings"]
        lists = {name: tuple(value) for name, value in raw.items() if isinstance(value, list)}
        jobs = {job["id"]: RunJob(**job) for job in data["jobs"]}
        return Folder(Path(path), VerifySettings(**{**raw, **lists}), jobs)
    except (KeyError, TypeError, AttributeError):
        raise AttnError("manifest.json is not of this attn-verify", path) from None
