"""The command lines of tools that search: options of their own, the compiler's flags handed on."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..driver.files import STANDARD
from ..errors import AttnError
from .diagnostics import run_tool
from .guard import guarded
from .version import version_text

Options = TypeVar("Options")


@dataclass(frozen=True)
class Spec:
    """What a tool takes. `values` and `switches` say which field of its options an option sets;
    `words` are the values that are allowed, `numbers` the fields that are whole numbers from 1 on,
    `lists` those that take several values. What begins with one of `handed_on` goes to `flags`,
    the first other word to `model`."""

    values: Mapping[str, str]
    switches: Mapping[str, str]
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    numbers: Sequence[str] = ()
    lists: Sequence[str] = ()
    handed_on: tuple[str, ...] = ("iree-",)


def parse_options(arguments: Sequence[str], options: Options, spec: Spec) -> Options:
    """`options` with what the command line says; AttnError for what is not known."""
    given: Any = options
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == STANDARD or not word.startswith("-"):
            if given.model:
                raise AttnError(f"more than one model: '{given.model}' and '{word}'")
            given.model = word
            continue
        name, separator, value = word.lstrip("-").partition("=")
        if name in spec.values:
            if not separator and (not rest or rest[0].startswith("-")):
                raise AttnError(f"option '{word}' needs a value")
            _set(given, spec, name, value if separator else rest.pop(0))
        elif name in spec.switches:
            if separator:
                raise AttnError(f"option '--{name}' takes no value, but has '{value}'")
            setattr(given, spec.switches[name], True)
        elif name.startswith(spec.handed_on):
            given.flags.append(word)
        else:
            raise AttnError(f"unknown option '{word}'{_hint(name, spec)}")
    return options


def _hint(name: str, spec: Spec) -> str:
    close = difflib.get_close_matches(name, [*spec.values, *spec.switches], n=1)
    return f"; did you mean '--{close[0]}'?" if close else "; --help lists the options"


def _set(options: Any, spec: Spec, name: str, text: str) -> None:
    attribute = spec.values[name]
    words = spec.words.get(name)
    if words and text not in words:
        raise AttnError(f"'{text}' is not a value of --{name} (use {', '.join(words)})")
    if attribute in spec.lists:
        getattr(options, attribute).append(text)
    elif attribute not in spec.numbers:
        setattr(options, attribute, text)
    elif text.isdigit() and int(text):
        setattr(options, attribute, int(text))
    else:
        raise AttnError(f"'{text}' is not a value of --{name} (use a whole number from 1 on)")


# ----- what names a device

DRIVERS = {"cuda": "cuda", "llvm-cpu": "local-task"}
_CPU_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)


def target_flags(device: str, flags: Sequence[str]) -> list[str]:
    """The compiler's flags with those for `device`, a key of DRIVERS, where they name no target:
    with llvm-cpu this machine's CPU. AttnError where a GPU's architecture is missing."""
    names = {flag.lstrip("-").partition("=")[0] for flag in flags}
    made = list(flags)
    if not any(name.startswith(("iree-hal-target", "iree-hal-local-target")) for name in names):
        if device == "llvm-cpu":
            named = "iree-llvmcpu-target-cpu" in names
            made += _CPU_FLAGS[: 2 if named else 3]
        else:
            made.append("--iree-hal-target-device=cuda")
    if device == "cuda" and "iree-cuda-target" not in names:
        raise AttnError("--device=cuda needs the GPU's architecture: --iree-cuda-target=sm_80")
    return made


def check_model(path: str) -> None:
    """AttnError where the model cannot be read: the compiler would say it less well."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(1)
    except OSError as error:
        raise AttnError(f"cannot read it: {(error.strerror or '').lower()}", path) from None
    if not data:
        raise AttnError("the file is empty; an MLIR module is needed", f"{path}:1:1")


# ----- work in steps, here and on the machine with the device

STEP_VALUES = {
    "device": "device",
    "folder": "folder",
    "run": "run",
    "finish": "finish",
    "jobs": "jobs",
    "compile-limit": "compile_limit",
    "run-limit": "run_limit",
}
STEP_SWITCHES = {
    "compile-only": "compile_only",
    "quiet": "quiet",
    "version": "version",
    "help": "help",
}
STEP_NUMBERS = ("jobs", "compile_limit", "run_limit")


@dataclass
class StepOptions:
    """What the command lines of tools that work in steps have in common, parsed."""

    model: str = ""
    device: str = ""
    folder: str = ""
    run: str = ""
    finish: str = ""
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    compile_limit: int = 120
    run_limit: int = 60
    compile_only: bool = False
    quiet: bool = False
    version: bool = False
    help: bool = False
    flags: list[str] = field(default_factory=list)


Steps = TypeVar("Steps", bound=StepOptions)


@dataclass(frozen=True)
class StepTool(Generic[Steps]):
    """A command that works in steps: what was done stays, and is not done again."""

    name: str
    usage: str
    spec: Spec
    options: Callable[[], Steps]
    work: Callable[[Steps], int]

    def main(self, arguments: Sequence[str] | None) -> int:
        """The exit code; in a child of this process where the command line is this process's."""
        if arguments is None:
            return guarded(self.name, lambda: self.main(sys.argv[1:]))
        return run_tool(self.name, lambda: self._main(arguments))

    def _main(self, arguments: Sequence[str]) -> int:
        options = parse_options(arguments, self.options(), self.spec)
        if options.help or options.version:
            print(self.usage if options.help else version_text(), end="")
            return 0
        try:
            return self.work(options)
        except KeyboardInterrupt:
            print(f"{self.name}: stopped; the same command goes on from here", file=sys.stderr)
            return 130


def check_steps(options: Any, kept: Sequence[str]) -> str:
    """The later step that is asked for, 'run' or 'finish', or ''. AttnError where an option goes
    with it that the folder has `kept`, or where the model or the device is missing."""
    later = [name for name in ("run", "finish") if getattr(options, name)]
    if len(later) > 1:
        raise AttnError("--run and --finish are two steps: give one of them")
    if later:
        for name in (name for name in kept if getattr(options, name)):
            raise AttnError(f"--{later[0]} takes no {name.replace('_', '-')}: the folder has it")
        return later[0]
    if not options.model:
        raise AttnError("no model; give the path of an MLIR file (--help says more)")
    if options.model == STANDARD:
        raise AttnError("the model must be a file: it is read more than once")
    if not options.device:
        raise AttnError(f"no --device (use {', '.join(DRIVERS)})")
    return ""
