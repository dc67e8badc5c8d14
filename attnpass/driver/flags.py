"""The command line of attn-compile: ours, iree-compile's own, and the compiler's flags."""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import AttnError
from ..phases import V_TRANSPOSE_FLAG, phase_index
from ..pipeline import PipelineOptions, choice, flag_of, flagged, listed
from .fallbacks import BARRIERS, LEVEL
from .files import decode, printable, read_input

FAIL_ON = ("refused", "moved", "known-wrong", "fallback", "ignored")

# Where the user names no level. IREE's own is O0: on an H200 O2 is 1.1 times as fast for a layer of
# Llama, on 16 cores 1.7 (BERT) and 21 times (a step of decode); O3 gains nothing over it.
LEVEL_FLAG = "--iree-opt-level"
DEFAULT_LEVEL = "O2"

# Devices whose backend has another name.
_BACKENDS = {"hip": "rocm"}

# Flags that iree-compile's main function handles itself (IREE 3.13); the rest are the
# compiler's. Those that print something and stop, or that choose another compile mode,
# have no phases to hook into and go to iree-compile as they are.
_TOOL_VALUES = {
    "o": "output",
    "output-format": "output_format",
    "compile-from": "compile_from",
    "compile-to": "compile_to",
    "dump-compilation-phases-to": "dump_phases",
    "emit-mlir-bytecode-version": "bytecode_version",
    "remarks-filter": "remarks_filter",
    "remarks-output-file": "remarks_file",
}
_TOOL_SWITCHES = {
    "emit-mlir-bytecode": "emit_bytecode",
    "split-input-file": "split_input",
    "verify": "verify",
}
_HANDED_ON = (
    "h",
    "help",
    "help-hidden",
    "help-list",
    "help-list-hidden",
    "version",
    "print-options",
    "print-all-options",
    "iree-hal-list-target-backends",
    "iree-list-plugins",
    "iree-llvmcpu-list-targets",
    "iree-vm-c-dump-config",
)
OUTPUT_FORMATS = ("vm-bytecode", "vm-c", "vm-asm")


@listed
@dataclass
class PassOptions(PipelineOptions):
    """What `compile_file` and `compile_str` take beside the arguments of IREE's functions. A file
    may be an `os.PathLike`; None is as if it were not given."""

    pipeline: str = choice("", "passes to run instead of the default ones", form="TEXT")
    phase: str = choice(
        "", "run the passes on tensors at this phase instead of their own", form="PHASE"
    )
    target: str = choice("", "the target to price for, instead of the module's own", form="NAME")
    explain: str = choice(
        "",
        "write the report as a page for a browser, with drawings and IR diffs",
        form="PAGE.html",
    )
    summary: bool = choice(False, "print what was gained and every decision to standard error")
    remarks: bool = choice(False, "print a remark an op, file:line:col, to standard error")
    dump_ir: str = choice("", "write the IR before and after the passes", form="DIR")
    fail_on: Sequence[str] = choice(
        (),
        "exit with 1, by commas: refused (an operand), moved (bytes),\n"
        "known-wrong (numbers that nothing makes right), fallback (a\n"
        "step was left out because the compile failed with it),\n"
        "ignored (a flag without effect)",
        FAIL_ON,
        form="WORDS",
    )
    disable: bool = choice(False, "plain iree-compile")

    def flags(self) -> list[str]:
        """The same as flags of attn-compile."""
        given = ((field, getattr(self, field.name)) for field in flagged(PassOptions))
        return [
            f"--{flag_of(field)}={_word(value)}"
            for field, value in given
            if value != field.default and value not in (None, "", [])
        ]


def _word(value: bool | str | os.PathLike[str] | Sequence[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return os.fspath(value) if isinstance(value, str | os.PathLike) else ",".join(value)


@dataclass
class CompileOptions(PassOptions):
    """A parsed command line. `compiler_flags` are for the compiler as they were given;
    `without_ours` is the whole line for iree-compile."""

    input: str = ""
    output: str = "-"
    output_format: str = "vm-bytecode"
    compile_from: str = "start"
    compile_to: str = "end"
    dump_phases: str = ""
    emit_bytecode: bool = False
    bytecode_version: str = "-1"
    remarks_filter: str = ""
    remarks_file: str = "mlir-remarks.yaml"
    split_input: bool = False
    verify: bool = True
    compiler_flags: list[str] = field(default_factory=list)
    without_ours: list[str] = field(default_factory=list)
    handed_on: bool = False

    report: str = choice(
        "", "write every decision as JSON (-: as --attn-summary does)", form="FILE"
    )
    show_pipeline: bool = choice(False, "print what would run with these flags, and why")
    help: bool = choice(False, "print this")

    @property
    def input_name(self) -> str:
        """What messages call the input."""
        return "<stdin>" if self.input == "-" else printable(self.input)

    @property
    def is_binary(self) -> bool:
        """Whether the output is bytes and no text."""
        if self.compile_to == "end":
            return self.output_format == "vm-bytecode"
        return self.emit_bytecode

    @property
    def added_flags(self) -> dict[str, str]:
        """Flags for the compiler where the user left a decision to us: on V^T, on the level; by
        the name of what they stand for in a list of fallbacks."""
        given = {flag.lstrip("-").partition("=")[0] for flag in self.compiler_flags}
        ours = {
            BARRIERS: (V_TRANSPOSE_FLAG, "false"),
            LEVEL: (LEVEL_FLAG, DEFAULT_LEVEL),
        }
        return {
            what: f"{name}={value}"
            for what, (name, value) in ours.items()
            if name.lstrip("-") not in given
        }


# Flags of ours, by name.
_OURS = {flag_of(field): field for field in flagged(CompileOptions)}


def backends_of(flags: Iterable[str]) -> set[str]:
    """The backends that flags of the compiler name: cuda, rocm, llvm-cpu and others; none where
    they leave it to the module."""
    values: dict[str, set[str]] = {}
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        values.setdefault(name, set()).update(value.split(","))
    found = set(values.get("iree-hal-target-backends", ()))
    for device in values.get("iree-hal-target-device", ()):
        local = values.get("iree-hal-local-target-device-backends", {"llvm-cpu"})
        kind = device.rpartition("=")[2].partition("[")[0]
        found |= local if kind == "local" else {_BACKENDS.get(kind, kind)}
    return found - {""}


def level_of(flags: Iterable[str]) -> str:
    """The optimisation level (`O0` to `O3`) that flags of a session name; '' where none does."""
    levels = [flag.partition("=")[2] for flag in flags if flag.startswith(f"{LEVEL_FLAG}=")]
    return levels[-1] if levels else ""


def parse_arguments(arguments: Sequence[str]) -> CompileOptions:
    """Options from the command line; AttnError for a flag of ours that is wrong."""
    options = CompileOptions()
    candidates: list[tuple[int, str, str]] = []
    rest = _expanded(arguments)
    only_files = False
    while rest:
        word = rest.pop(0)
        if not word.lstrip("-").startswith("attn-") or not word.startswith("-") or only_files:
            options.without_ours.append(word)
        if word == "--" and not only_files:
            only_files = True
            continue
        if word == "-" or not word.startswith("-") or only_files:
            before = options.compiler_flags[-1] if options.compiler_flags else ""
            candidates.append((len(options.compiler_flags), word, before))
            options.compiler_flags.append(word)
            continue
        name, separator, value = word.lstrip("-").partition("=")
        if name.startswith("attn-"):
            _take_ours(options, name, separator, value, rest)
        elif name in _TOOL_VALUES:
            if not separator and rest:
                options.without_ours.append(rest[0])
            setattr(options, _TOOL_VALUES[name], _value(word, separator, value, rest))
        elif name in _TOOL_SWITCHES:
            setattr(options, _TOOL_SWITCHES[name], _truth(word, separator, value))
        else:
            is_std = name == "compile-mode" and value == "std"
            handed = name in _HANDED_ON or (name == "compile-mode" and not is_std)
            options.handed_on = options.handed_on or handed
            if not is_std:
                options.compiler_flags.append(word)
    _find_input(options, candidates)
    if not options.handed_on and not options.help and not options.show_pipeline:
        _check(options)
    return options


def _expanded(arguments: Sequence[str], within: tuple[Path, ...] = ()) -> list[str]:
    """The arguments with each `@file` replaced by the words in that file, as LLVM does; `within`
    are the files that name these."""
    words: list[str] = []
    for word in arguments:
        path = Path(os.path.realpath(word[1:]))
        if not word.startswith("@") or not path.is_file():
            words.append(word)
        elif path in within:
            raise AttnError(f"'{word}' names itself, by the files of flags that it names")
        else:
            words += _expanded(_words_in(word[1:]), (*within, path))
    return words


def _words_in(path: str) -> list[str]:
    try:
        return shlex.split(decode(read_input(path), path), comments=False)
    except ValueError as error:
        raise AttnError(f"cannot read flags in it: {str(error).lower()}", path) from None


def _take_ours(
    options: CompileOptions, name: str, separator: str, value: str, rest: list[str]
) -> None:
    field = _OURS.get(name)
    if field is None:
        close = difflib.get_close_matches(name, _OURS, n=1)
        hint = f"; did you mean '--{close[0]}'?" if close else "; --attn-help lists our flags"
        raise AttnError(f"unknown flag '--{name}'{hint}")
    if isinstance(field.default, bool):
        setattr(options, field.name, _truth(f"--{name}", separator, value))
        return
    text, words = _value(f"--{name}", separator, value, rest), field.metadata["words"]
    values = tuple(text.split(",")) if field.default == () else (text,)
    for wrong in (value for value in values if words and value not in words):
        raise AttnError(f"'{wrong}' is not a value of --{name} (use {', '.join(words)})")
    setattr(options, field.name, values if field.default == () else text)


def _value(word: str, separator: str, value: str, rest: list[str]) -> str:
    if separator:
        return value
    if not rest:
        raise AttnError(f"flag '{word}' needs a value")
    return rest.pop(0)


def _truth(word: str, separator: str, value: str) -> bool:
    known = {"": True, "true": True, "1": True, "false": False, "0": False}
    if value.lower() not in known or (separator and not value):
        raise AttnError(f"flag '{word}' takes true or false")
    return known[value.lower()]


def _find_input(options: CompileOptions, candidates: list[tuple[int, str, str]]) -> None:
    """Takes the input file out of `compiler_flags`. A word behind a flag without `=` may be
    that flag's value: then the compiler is asked which flags take one."""
    unclear = [c for c in candidates if c[2].startswith("-") and "=" not in c[2]]
    inputs = candidates
    if unclear and len(candidates) > 1:
        takes_value = _flags_with_values()
        inputs = [c for c in candidates if c[2].lstrip("-") not in takes_value or c not in unclear]
    if len(inputs) > 1:
        names = " and ".join(f"'{word}'" for _, word, _ in inputs)
        raise AttnError(f"more than one input file: {names}")
    if inputs:
        place, options.input, _ = inputs[0]
        del options.compiler_flags[place]


def _flags_with_values() -> set[str]:
    text = subprocess.run(
        [iree_compile(), "--help-list-hidden"], capture_output=True, text=True, check=False
    ).stdout
    names = set()
    for line in text.splitlines():
        name, separator, _ = line.strip().split(" ")[0].lstrip("-").partition("=")
        if separator:
            names.add(name)
    return names


def iree_compile() -> str:
    """Path of the iree-compile that belongs to the installed compiler."""
    from iree.compiler.tools.binaries import find_tool

    return find_tool("iree-compile")


def _check(options: CompileOptions) -> None:
    if not options.input:
        raise AttnError("no input file; give a path, or - for standard input")
    if options.output_format not in OUTPUT_FORMATS:
        raise AttnError(
            f"'{options.output_format}' is not a value of --output-format "
            f"(use {', '.join(OUTPUT_FORMATS)})"
        )
    if not options.bytecode_version.lstrip("-").isdigit():
        raise AttnError("--emit-mlir-bytecode-version takes a whole number")
    if phase_index(options.compile_from) > phase_index(options.compile_to):
        raise AttnError("--compile-from names a later phase than --compile-to")
    if options.phase:
        phase_index(options.phase)
