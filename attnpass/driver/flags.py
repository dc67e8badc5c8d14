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
from ..pipeline import PipelineOptions, choices, flag_of
from .fallbacks import BARRIERS, LEVEL
from .files import decode, printable, read_input

FAIL_ON = ("refused", "moved", "known-wrong", "fallback", "ignored")

# Where the user names no level. IREE's own is O0: on an H200 O2 is 1.1 times as fast for a layer of
# Llama, on 16 cores 1.7 (BERT) and 21 times (a step of decode); O3 gains nothing over it.
LEVEL_FLAG = "--iree-opt-level"
DEFAULT_LEVEL = "O2"

# Flags of ours: name -> (field, allowed words).
_OURS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{flag_of(f): (f.name, f.metadata["words"]) for f in choices() if f.default is not True},
    "attn-pipeline": ("pipeline", ()),
    "attn-phase": ("phase", ()),
    "attn-report": ("report", ()),
    "attn-explain": ("explain", ()),
    "attn-dump-ir": ("dump_ir", ()),
    "attn-target": ("target", ()),
}
# Those that take several of their words, by commas.
_OUR_LISTS = {"attn-fail-on": ("fail_on", FAIL_ON)}
_OUR_SWITCHES = {
    **{flag_of(f): f.name for f in choices() if f.default is True},
    "attn-disable": "disable",
    "attn-remarks": "remarks",
    "attn-summary": "summary",
    "attn-show-pipeline": "show_pipeline",
    "attn-help": "help",
}

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


@dataclass
class CompileOptions(PipelineOptions):
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

    pipeline: str = ""
    phase: str = ""
    report: str = ""
    explain: str = ""
    summary: bool = False
    remarks: bool = False
    dump_ir: str = ""
    target: str = ""
    fail_on: tuple[str, ...] = ()
    disable: bool = False
    show_pipeline: bool = False
    help: bool = False

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
    if name in _OUR_SWITCHES:
        setattr(options, _OUR_SWITCHES[name], _truth(f"--{name}", separator, value))
        return
    if name not in _OURS and name not in _OUR_LISTS:
        close = difflib.get_close_matches(name, [*_OURS, *_OUR_LISTS, *_OUR_SWITCHES], n=1)
        hint = f"; did you mean '--{close[0]}'?" if close else "; --attn-help lists our flags"
        raise AttnError(f"unknown flag '--{name}'{hint}")
    attribute, words = _OURS.get(name) or _OUR_LISTS[name]
    text = _value(f"--{name}", separator, value, rest)
    values = tuple(text.split(",")) if name in _OUR_LISTS else (text,)
    for wrong in (value for value in values if words and value not in words):
        raise AttnError(f"'{wrong}' is not a value of --{name} (use {', '.join(words)})")
    setattr(options, attribute, values if name in _OUR_LISTS else text)


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
