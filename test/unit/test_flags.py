"""The command line of attn-compile, without a compiler run except where it must be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnpass.driver.flags import level_of, parse_arguments
from attnpass.driver.session import check_backends
from attnpass.errors import AttnError
from attnpass.phases import PHASES, V_TRANSPOSE_FLAG, by_phase
from attnpass.runner import parse_pipeline


def test_ours_the_tools_and_the_compilers_flags_are_told_apart() -> None:
    options = parse_arguments(
        ["m.mlir", "--attn-mode=always", "-o", "out.vmfb", "--compile-to=flow", "--mlir-timing"]
    )
    assert (options.input, options.output, options.mode) == ("m.mlir", "out.vmfb", "always")
    assert options.compile_to == "flow"
    assert options.compiler_flags == ["--mlir-timing"]
    assert options.without_ours == [
        "m.mlir",
        "-o",
        "out.vmfb",
        "--compile-to=flow",
        "--mlir-timing",
    ]


def test_one_dash_spaces_and_switch_values_are_llvms() -> None:
    options = parse_arguments(
        ["-attn-mode", "never", "-", "--verify=false", "-compile-from", "abi"]
    )
    assert (options.mode, options.input, options.verify) == ("never", "-", False)
    assert options.compile_from == "abi"


def test_a_word_after_a_flag_may_be_its_value() -> None:
    options = parse_arguments(["--iree-hal-target-device", "local", "--mlir-timing", "m.mlir"])
    assert options.input == "m.mlir"
    assert options.compiler_flags == ["--iree-hal-target-device", "local", "--mlir-timing"]


def test_after_two_dashes_everything_is_a_file() -> None:
    options = parse_arguments(["--compile-to=input", "--", "--attn-mode"])
    assert options.input == "--attn-mode"
    assert options.without_ours == ["--compile-to=input", "--", "--attn-mode"]


def test_an_input_may_be_called_like_a_flag_of_ours() -> None:
    options = parse_arguments(["attn-x.mlir", "--attn-disable"])
    assert options.without_ours == ["attn-x.mlir"]


def test_words_come_from_a_file(tmp_path) -> None:
    (tmp_path / "flags").write_text("--compile-to=flow\n'--iree-hal-target-device=local'\n")
    options = parse_arguments(["m.mlir", f"@{tmp_path}/flags"])
    assert options.compile_to == "flow"
    assert options.compiler_flags == ["--iree-hal-target-device=local"]


@pytest.mark.parametrize(
    ("flags", "owned"),
    [
        ([], True),
        ([V_TRANSPOSE_FLAG], False),
        ([f"{V_TRANSPOSE_FLAG}=true"], False),
        ([V_TRANSPOSE_FLAG[1:] + "=false"], False),
    ],
)
def test_the_user_may_take_the_decision_on_v_back(flags: list[str], owned: bool) -> None:
    added = parse_arguments(["m.mlir", *flags]).added_flags.values()
    assert (f"{V_TRANSPOSE_FLAG}=false" in added) is owned


@pytest.mark.parametrize(
    ("flags", "added"),
    [
        ([], True),
        (["--iree-opt-level=O0"], False),
        (["-iree-opt-level", "O3"], False),
        (["--iree-global-optimization-opt-level=O1"], True),
    ],
)
def test_the_level_is_ours_where_the_user_names_none(flags: list[str], added: bool) -> None:
    found = parse_arguments(["m.mlir", *flags]).added_flags.values()
    assert ("--iree-opt-level=O2" in found) is added


def test_the_level_is_read_off_a_session() -> None:
    flags = ["--iree-opt-level=O0", "--iree-llvmcpu-mlir-opt-level=O1", "--iree-opt-level=O3"]
    assert level_of(flags) == "O3"
    assert level_of([]) == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input file"),
        (["a.mlir", "b.mlir"], "more than one input file: 'a.mlir' and 'b.mlir'"),
        (["m.mlir", "--attn-mod=always"], "unknown flag '--attn-mod'; did you mean '--attn-mode'?"),
        (["m.mlir", "--attn-mode=fast"], "'fast' is not a value of --attn-mode"),
        (["m.mlir", "--attn-mode"], "needs a value"),
        (["m.mlir", "--attn-disable=maybe"], "takes true or false"),
        (["m.mlir", "--compile-to=nowhere"], "unknown phase 'nowhere' (known: start, input"),
        (["m.mlir", "--attn-phase=nowhere"], "unknown phase 'nowhere'"),
        (["m.mlir", "--compile-from=flow", "--compile-to=abi"], "later phase"),
        (["m.mlir", "--output-format=exe"], "'exe' is not a value of --output-format"),
        (["m.mlir", "-o"], "needs a value"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(AttnError) as caught:
        parse_arguments(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("flag", ["--help", "--version", "--compile-mode=vm", "-h"])
def test_what_has_no_phases_goes_to_iree_compile(flag: str) -> None:
    options = parse_arguments([flag, "--attn-mode=always"])
    assert options.handed_on
    assert options.without_ours == [flag]


def test_unknown_backends_are_named_before_the_compiler_sees_them() -> None:
    check_backends(["--iree-hal-target-backends=llvm-cpu,cuda", "--mlir-timing"])
    with pytest.raises(AttnError, match=r"unknown backend 'gpu' \(known: .*llvm-cpu"):
        check_backends(["--iree-hal-local-target-device-backends=gpu"])


def test_stages_are_grouped_by_phase() -> None:
    stages = parse_pipeline("attn-propagate-layout,canonicalize,attn-fold-transpose")
    assert list(by_phase(stages)) == ["preprocessing"]
    assert by_phase(stages, "input") == {"input": stages}


def test_the_phases_are_the_compilers() -> None:
    """iree-compile lists them in its help."""
    import re
    import subprocess

    from attnpass.driver.flags import iree_compile

    text = subprocess.run(
        [iree_compile(), "--help-hidden"], capture_output=True, text=True, check=True
    ).stdout
    after = text[text.index("--compile-to=") :].split("\n")[1:]
    names = []
    for line in after:
        match = re.match(r"\s+=(\S+)", line)
        if match is None:
            break
        names.append(match[1])
    assert tuple(names) == PHASES


def test_functions_take_options_as_the_command_does() -> None:
    from attnpass.driver.flags import PassOptions

    given = PassOptions(
        summary=True, fail_on=["moved", "refused"], explain=Path("p.html"), phase=""
    )
    assert given.flags() == [
        "--attn-explain=p.html",
        "--attn-summary=true",
        "--attn-fail-on=moved,refused",
    ]


def test_a_command_in_an_error_can_be_pasted(tmp_path: Path) -> None:
    import subprocess

    import attnpass

    path = tmp_path / "it's a model.mlir"
    path.write_text("func.func @f() { foo }")
    with pytest.raises(attnpass.CompilerToolError) as caught:
        attnpass.compile_file(path, mode="never", extra_args=["--iree-hal-target-device=local[0]"])
    line = str(caught.value).partition("Invoked with:\n")[2].strip()
    again = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=300)
    assert again.returncode == 1 and "it's a model.mlir:1:18: error" in again.stderr
