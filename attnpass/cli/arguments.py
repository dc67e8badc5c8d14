"""The command lines of the tools other than attn-compile: options of their own, and words handed on
(the compiler's flags, passes)."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

from ..driver.files import STANDARD, write_output
from ..errors import AttnError
from .diagnostics import run_tool
from .guard import guarded
from .version import version_text

Options = TypeVar("Options", bound="ToolOptions")


DRIVERS = {"cuda": "cuda", "llvm-cpu": "local-task"}


def option(default: Any, *names: str, words: Sequence[str] = ()) -> Any:
    """A field that an option sets: its names where they are not the field's, and its `words`, the
    values that are allowed. What it takes is as the default is: nothing (a bool), a whole number
    from 1 on, a text (also if it is None), or several texts."""
    return field(default=default, metadata={"names": names, "words": words})


@dataclass
class ToolOptions:
    """A command line, parsed: each field is an option, but for `model`, the word that is none
    (called a `noun`), and `flags`, those that are handed on."""

    noun: ClassVar[str] = "model"

    model: str = ""
    flags: list[str] = field(default_factory=list)
    version: bool = False
    help: bool = False

    def is_answered(self, usage: str) -> bool:
        """Whether all that is asked for is help or the version, which are written."""
        if self.help or self.version:
            write_output(STANDARD, (usage if self.help else version_text()).encode())
        return self.help or self.version


def named(options: ToolOptions | type[ToolOptions]) -> dict[str, Field[Any]]:
    """The fields that options set, by the options' names."""
    return {
        name: field
        for field in fields(options)
        if field.name not in ("model", "flags")
        for name in field.metadata.get("names") or (field.name.replace("_", "-"),)
    }


def parse_options(
    arguments: Sequence[str], options: Options, handed_on: tuple[str, ...] = ()
) -> Options:
    """`options` with what the command line says, and in its flags the words that begin with one
    of `handed_on`; AttnError for what is not known."""
    known = named(options)
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == STANDARD or not word.startswith("-"):
            if options.model:
                raise AttnError(f"more than one {options.noun}: '{options.model}' and '{word}'")
            options.model = word
            continue
        name, separator, value = word.lstrip("-").partition("=")
        if name not in known:
            if not name or not word.startswith(handed_on):
                raise AttnError(f"unknown option '{word}'{_hint(name, known)}")
            options.flags.append(word)
        elif isinstance(known[name].default, bool):
            if separator:
                raise AttnError(f"option '--{name}' takes no value, but has '{value}'")
            setattr(options, known[name].name, True)
        elif not separator and (not rest or (rest[0].startswith("-") and rest[0] != STANDARD)):
            raise AttnError(f"option '{word}' needs a value")
        else:
            _set(options, known[name], name, value if separator else rest.pop(0))
    return options


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '--{close[0]}'?" if close else "; --help lists the options"


def _set(options: ToolOptions, field: Field[Any], name: str, text: str) -> None:
    before, words = getattr(options, field.name), field.metadata.get("words")
    if words and text not in words:
        raise AttnError(f"'{text}' is not a value of --{name} (use {', '.join(words)})")
    if isinstance(before, list):
        before.append(text)
    elif before is None or isinstance(before, str):
        setattr(options, field.name, text)
    elif text.isdigit() and int(text):
        setattr(options, field.name, int(text))
    else:
        raise AttnError(f"'{text}' is not a value of --{name} (use a whole number from 1 on)")


# ----- what names a device

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


@dataclass
class StepOptions(ToolOptions):
    """What the command lines of tools that work in steps have in common, parsed."""

    device: str = option("", words=tuple(DRIVERS))
    folder: str = ""
    run: str = ""
    finish: str = ""
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    compile_limit: int = 120
    run_limit: int = 60
    compile_only: bool = False
    quiet: bool = False


Steps = TypeVar("Steps", bound=StepOptions)


@dataclass(frozen=True)
class StepTool(Generic[Steps]):
    """A command that works in steps: what was done stays, and is not done again."""

    name: str
    usage: str
    options: Callable[[], Steps]
    work: Callable[[Steps], int]
    handed_on: tuple[str, ...] = ("--iree-", "-iree-")

    def main(self, arguments: Sequence[str] | None) -> int:
        """The exit code; in a child of this process where the command line is this process's."""
        if arguments is None:
            return guarded(self.name, lambda: self.main(sys.argv[1:]))
        return run_tool(self.name, lambda: self._main(arguments))

    def _main(self, arguments: Sequence[str]) -> int:
        options = parse_options(arguments, self.options(), self.handed_on)
        if options.is_answered(self.usage):
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
