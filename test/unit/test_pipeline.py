"""Pass pipelines: parsing, running, and what is said when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from attnpass import passes
from attnpass.codegen.kernel import run_passes
from attnpass.errors import AttnError, PassError, PipelineError
from attnpass.passes import Pass, PassContext, option
from attnpass.report.records import Report
from attnpass.runner import (
    Foreign,
    Instrumentation,
    check_foreign,
    parse_options,
    parse_pipeline,
    run_pipeline,
    stage_name,
)


@dataclass(frozen=True)
class Mark(Pass):
    """Marks the module, so that tests see which passes ran, with what, and in what order."""

    name = "attn-mark"
    summary = "mark the module"
    word: str = option("x", "what to add to the mark", ("x", "y", "z"))
    times: int = option(1, "how often")
    twice: bool = option(False, "whether to double it")
    operands: tuple[str, ...] = option(("v",), "a list", ("q", "k", "v"))

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        old = module.attributes["test.mark"].value if "test.mark" in module.attributes else ""
        count = self.times * (2 if self.twice else 1)
        module.attributes["test.mark"] = ir.StringAttr.get(old + self.word * count, module.context)
        return True


@dataclass(frozen=True)
class Break(Pass):
    """Leaves a module that does not verify: a terminator of the wrong type."""

    name = "attn-break"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        function = module.regions[0].blocks[0].operations[0]
        with module.context:
            wrong = ir.TypeAttr.get(ir.Type.parse("() -> i32"))
        function.operation.attributes["function_type"] = wrong
        return True


@dataclass(frozen=True)
class Deny(Break):
    """Says that it left the module as it was."""

    name = "attn-deny"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        return not super().run(module, context)


@dataclass(frozen=True)
class Refuse(Pass):
    """A pass that cannot work on its input."""

    name = "attn-refuse"

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        raise AttnError("not for me", "m.mlir:2:1")


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_entries", passes._entries.__wrapped__)
    for cls in (Mark, Break, Deny, Refuse):
        monkeypatch.setitem(passes.REGISTRY, cls.name, f"{__name__}:{cls.__name__}")


@pytest.fixture
def module() -> ir.Module:
    context = ir.Context()
    context.load_all_available_dialects()
    return ir.Module.parse("module {\n  func.func @f() {\n    return\n  }\n}\n", context)


def run(module: ir.Module, text: str, **kwargs: Any) -> None:
    run_pipeline(module.operation, parse_pipeline(text), PassContext(Report()), **kwargs)


def mark(module: ir.Module) -> str:
    return module.operation.attributes["test.mark"].value


@pytest.mark.parametrize(
    "text",
    [
        "attn-mark{word=y times=2},canonicalize,func.func(cse,canonicalize{top-down=false})",
        "builtin.module(attn-mark{word=y,times=2},canonicalize,"
        "func.func(cse,canonicalize{top-down=false}))",
        " builtin.module( attn-mark{ word=y  times=2 } ,\n canonicalize\t,"
        " func.func( cse , canonicalize{top-down=false} ) ) ",
    ],
)
def test_stages(text: str) -> None:
    mark, *foreign = parse_pipeline(text)
    assert mark == Mark(word="y", times=2)
    assert foreign == [
        Foreign("canonicalize"),
        Foreign("func.func(cse,canonicalize{top-down=false})"),
    ]
    check_foreign(foreign)


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ("", Mark()),
        ("twice", Mark(twice=True)),
        ("twice=false times=-3", Mark(times=-3)),
        ("operands=q,k word=z", Mark(operands=("q", "k"), word="z")),
        ("operands={q,k},word=z", Mark(operands=("q", "k"), word="z")),
        ("word=z,operands=q,k,times=4", Mark(operands=("q", "k"), word="z", times=4)),
        ("operands={}", Mark(operands=())),
    ],
)
def test_options(options: str, made: Mark) -> None:
    assert parse_pipeline(f"attn-mark{{{options}}}") == [made]


@pytest.mark.parametrize("text", ["", "  ", "builtin.module()", " builtin.module( ) "])
def test_empty_pipelines_do_nothing(text: str) -> None:
    assert parse_pipeline(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("attn-mark,,cse", "column 11: expected a pass name"),
        ("attn-mark,", "column 11: expected a pass name"),
        (",cse", "column 1: expected a pass name"),
        ("builtin.module(cse", "column 19: expected ')'"),
        ("builtin.module(cse))", "column 20: unexpected ')'"),
        ("cse}", "column 4: unexpected '}'"),
        ("attn-mark{word=y", "column 17: missing '}'"),
        ("attn-mark{word={y}", "column 19: missing '}'"),
        ("attn-mark cse", "unknown pass 'attn-mark cse'; did you mean 'attn-mark'?"),
        ("attn-marc", "unknown pass 'attn-marc'; did you mean 'attn-mark'?"),
        ("attn-mark{=y}", "pass 'attn-mark': malformed option '=y' (use key=value)"),
        ("attn-mark{word=x word=y}", "option 'word' is given twice"),
        ("attn-mark{color=red}", "has no option 'color' (it has: word, times, twice, operands)"),
        ("attn-mark{word=w}", "'w' is not a value of option 'word' (use x, y, z)"),
        ("attn-mark{operands=q,w}", "'w' is not a value of option 'operands' (use q, k, v)"),
        ("attn-mark{times=1.5}", "'1.5' is not a value of option 'times' (use a whole number)"),
        ("attn-mark{times=--5}", "'--5' is not a value of option 'times'"),
        ("attn-mark{times=²}", "'²' is not a value of option 'times'"),
        ("attn-mark{twice=perhaps}", "'perhaps' is not a value of option 'twice'"),
        ("attn-mark(cse)", "'attn-mark' is a pass: nothing can be nested under it"),
        ("func.func(attn-mark)", "'attn-mark' at column 11 is nested under 'func.func'"),
        (
            "builtin.module(cse,func.func(scf.for( attn-mark)))",
            "'attn-mark' at column 39 is nested under 'scf.for'",
        ),
        ("cse,builtin.module(cse)", "'builtin.module(...)' must enclose the whole pipeline"),
        ("builtin.module{a=1}(cse)", "'builtin.module' takes no options"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse_pipeline(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no-such-pass", "pass 'no-such-pass': 'no-such-pass' does not refer to a registered"),
        ("func.func(no-such-pass)", "'no-such-pass' does not refer to a registered pass"),
        ("cse{no-such-option=1}", "no such option no-such-option"),
    ],
)
def test_foreign_mistakes(text: str, says: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_foreign(parse_pipeline(text))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab-=,(){} \n", max_size=30))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text makes the parser fail otherwise; what parses is stable when written out."""
    try:
        stages = parse_pipeline(text)
    except PipelineError:
        return
    again = parse_pipeline(",".join(stage_name(stage) for stage in stages))
    assert again == stages


def test_options_keep_lists_together() -> None:
    assert parse_options("p", "a=1,2,3 b={x y,z},c") == {"a": "1,2,3", "b": "{x y,z},c"}


def test_passes_run_in_order(module: ir.Module) -> None:
    run(module, "attn-mark{word=x},cse,attn-mark{word=y twice},canonicalize,attn-mark{word=z}")
    assert mark(module) == "xyyz"


def test_instrumentation_sees_each_stage(module: ir.Module) -> None:
    seen: list[str] = []
    watch = Instrumentation(
        before=lambda name, op: seen.append(f"before {name} {'test.mark' in op.attributes}"),
        after=lambda name, op: seen.append(f"after {name} {'test.mark' in op.attributes}"),
    )
    run(module, "func.func(cse),attn-mark", instrumentation=watch)
    assert seen == [
        "before func.func(cse) False",
        "after func.func(cse) False",
        "before attn-mark False",
        "after attn-mark True",
    ]
    assert [name for name, _ in watch.seconds] == ["func.func(cse)", "attn-mark"]
    assert all(seconds >= 0 for _, seconds in watch.seconds)


def test_a_pass_that_breaks_the_ir_is_named(module: ir.Module) -> None:
    with pytest.raises(PassError) as error:
        run(module, "attn-mark,attn-break,attn-mark")
    assert "pass 'attn-break' left invalid IR: " in error.value.message
    assert error.value.location == "-:2:3" or error.value.location == "-:3:5"
    assert mark(module) == "x"


def test_invalid_ir_of_a_pass_that_says_it_left_the_module_is_told(module: ir.Module) -> None:
    with pytest.raises(PassError, match="pass 'attn-deny' left invalid IR: "):
        run(module, "attn-mark,attn-deny")


# Errors in modules in modules: another thread finds them, and tells the handlers of the bindings,
# which wait for Python's lock.
NESTED = """
from iree.compiler import ir
from attnpass.errors import PassError
from attnpass.passes import PassContext
from attnpass.report.records import Report
from attnpass.runner import parse_pipeline, run_pipeline

context = ir.Context()
context.load_all_available_dialects()
context.enable_multithreading(True)
function = "func.func @{}() -> i32 {{ %c = arith.constant 0 : i32 return %c : i32 }}"
functions = " ".join(function.format(name) for name in "fgh")
for _ in range(5):
    functions = f"module @a {{ {functions} }} module @b {{ {functions} }}"
module = ir.Module.parse(f"module {{ {functions} }}", context).operation
with context:
    wrong = ir.TypeAttr.get(ir.Type.parse("() -> i64"))
def spoil(op):
    if op.name == "func.func":
        op.attributes["function_type"] = wrong
    return ir.WalkResult.ADVANCE
module.walk(spoil)
for _ in range(100):
    try:
        run_pipeline(module, parse_pipeline("attn-same-types"), PassContext(Report()))
    except PassError as error:
        print(error.message)
"""


def test_errors_in_nested_modules_are_told() -> None:
    command = [sys.executable, "-c", NESTED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 100
    assert all("pass 'attn-same-types' left invalid IR: type of return" in line for line in lines)


def test_verification_can_be_turned_off(module: ir.Module) -> None:
    run(module, "attn-break,attn-mark", verify=False)
    assert mark(module) == "x"


def test_a_refusal_reaches_the_caller_as_it_is(module: ir.Module) -> None:
    with pytest.raises(AttnError) as error:
        run(module, "attn-refuse,attn-mark")
    assert str(error.value) == "m.mlir:2:1: error: not for me"
    assert "test.mark" not in module.operation.attributes


def test_a_failing_foreign_pass_is_named(module: ir.Module) -> None:
    with pytest.raises(PassError) as error:
        run(module, "cse,iree-global-opt-propagate-linalg-transpose")
    assert "pass 'iree-global-opt-propagate-linalg-transpose' failed: unable" in str(error.value)
    assert "func.func(" in str(error.value)


def test_a_failing_foreign_pass_tells_the_place() -> None:
    context = ir.Context()
    context.load_all_available_dialects()
    text = """module {
  func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}"""
    with pytest.raises(PassError) as error:
        run(ir.Module.parse(text, context), "iree-verify-input-legality")
    assert error.value.location == "-:3:10"
    assert "pass 'iree-verify-input-legality' failed: 'tosa.abs'" in error.value.message


@pytest.mark.parametrize(
    ("passes", "why"),
    [
        ("cse,iree-no-such-pass", "'iree-no-such-pass' does not refer to a registered pass"),
        ("iree-codegen-generic-vectorization{none=1}", "no such option none"),
        ("cse", ""),
    ],
)
def test_a_pass_that_iree_has_renamed_is_a_reason(passes: str, why: str) -> None:
    """Rewrites of kernels leave the kernel to IREE then, and say why."""
    with ir.Context():
        module = ir.Module.parse("func.func @f() {\n  return\n}")
        function = module.body.operations[0].operation
        said = run_passes(function, passes)
    assert why in said and bool(said) == bool(why)


def test_values_read_twice_are_walked_once() -> None:
    """32 squares in front of a sum: 2^32 ways to the first, which a minute is too short for."""
    kind, maps = "tensor<1024x1024xf32>", ", ".join(["affine_map<(i, j) -> (i, j)>"] * 3)
    lines = [
        f"%x{at + 1} = linalg.generic {{indexing_maps = [{maps}],"
        f' iterator_types = ["parallel", "parallel"]}} ins(%x{at}, %x{at} : {kind}, {kind})'
        f" outs(%e : {kind}) {{\n^bb0(%a: f32, %b: f32, %o: f32):\n%t = arith.mulf %a, %b : f32\n"
        f"linalg.yield %t : f32\n}} -> {kind}"
        for at in range(32)
    ]
    text = f"""func.func @f(%x0: {kind}, %e: {kind}, %s: tensor<f32>) -> tensor<f32> {{
      %zero = arith.constant 0.0 : f32
      {chr(10).join(lines)}
      %f = linalg.fill ins(%zero : f32) outs(%s : tensor<f32>) -> tensor<f32>
      %r = linalg.reduce {{arith.addf}} ins(%x32 : {kind}) outs(%f : tensor<f32>)
        dimensions = [0, 1]
      return %r : tensor<f32>
    }}"""
    target = '#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]>'
    context = ir.Context()
    context.load_all_available_dialects()
    given = f"module attributes {{hal.device.targets = [{target} : !hal.device]}} {{\n{text}\n}}"
    module = ir.Module.parse(given, context)
    run(module, "func.func(linalg-generalize-named-ops),attn-split-sums")
    assert str(module).count("linalg.generic") == 34
