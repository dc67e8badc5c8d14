"""The compile hook: attn-compile, compile_file/compile_str and pipeline_hook on llvm-cpu."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import warm
from helpers import CPU, MAPS, compile_and_run, compile_text, in_each_way, rel_error, run_module
from iree.compiler import ir
from iree.compiler.api import Output, Session, Source
from iree.compiler.tools import CompilerToolError

import attnpass
from attnpass.driver import session as driver
from attnpass.driver.flags import iree_compile
from attnpass.driver.modules import module_bytes

ROOT = Path(__file__).parents[3]
OFF = "--iree-global-opt-enable-attention-v-transpose=false"
# Where a compile of ours is given none.
LEVEL = "--iree-opt-level=O2"
ROWS, WIDTH, HEADS, HEAD = 16, 32, 2, 8

# One layer: q, k and v are projections of x, split into heads; v's projection is named.
MHA = (
    MAPS
    + """
func.func @main(%x: tensor<16x32xf32>, %wq: tensor<32x16xf32>, %wk: tensor<32x16xf32>,
                %wv: tensor<32x16xf32>) -> tensor<2x16x8xf32> {
  %scale = arith.constant 0.353553391 : f32
  %q = func.call @heads(%x, %wq) : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<2x16x8xf32>
  %k = func.call @heads(%x, %wk) : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<2x16x8xf32>
  PROJECT
  %out = tensor.empty() : tensor<2x16x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
      ins(%q, %k, %v, %scale : tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, f32)
      outs(%out : tensor<2x16x8xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> tensor<2x16x8xf32>
  return %r : tensor<2x16x8xf32>
}
"""
)
SPLIT = """\
  %zero_Z = arith.constant 0.0 : f32
  %empty_Z = tensor.empty() : tensor<16x16xf32>
  %fill_Z = linalg.fill ins(%zero_Z : f32) outs(%empty_Z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %flat_Z = linalg.matmul ins(%x, %w_Z : tensor<16x32xf32>, tensor<32x16xf32>)
      outs(%fill_Z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %split_Z = tensor.expand_shape %flat_Z [[0], [1, 2]] output_shape [16, 2, 8]
      : tensor<16x16xf32> into tensor<16x2x8xf32>
  %heads_Z = tensor.empty() : tensor<2x16x8xf32>
  %Z = linalg.transpose ins(%split_Z : tensor<16x2x8xf32>) outs(%heads_Z : tensor<2x16x8xf32>)
      permutation = [1, 0, 2]
"""


def _heads(name: str) -> str:
    return SPLIT.replace("%w_Z", f"%w{name}").replace("_Z", f"_{name}").replace("%Z", f"%{name}")


MODEL = re.sub(r"  %(.) = func.call.*\n", lambda m: _heads(m[1]), MHA)
MODEL = MODEL.replace("  PROJECT\n", _heads("v"))


def _inputs() -> list[np.ndarray]:
    random = np.random.default_rng(7)
    shapes = [(ROWS, WIDTH), *[(WIDTH, HEADS * HEAD)] * 3]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


_OF_FRONT_ENDS = {
    "StableHLO": "%r = stablehlo.add %x, %x : tensor<2xf32>",
    "TOSA": "%r = tosa.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    "torch": """%t = torch_c.from_builtin_tensor %x : tensor<2xf32> -> !torch.vtensor<[2],f32>
  %s = torch.aten.neg %t : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %r = torch_c.to_builtin_tensor %s : !torch.vtensor<[2],f32> -> tensor<2xf32>""",
}


@pytest.mark.parametrize(
    ("front_end", "bytecode"), in_each_way(((name,) for name in _OF_FRONT_ENDS), [False, True])
)
def test_ops_of_front_ends_are_imported_unasked(front_end: str, bytecode: bool) -> None:
    """attn-compile has IREE look for them only where a name of theirs stands in the module."""
    body = _OF_FRONT_ENDS[front_end]
    text = f"""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  {body}
  return %r : tensor<2xf32>
}}
"""
    given: str | bytes = text
    if bytecode:
        with ir.Context() as context:
            context.load_all_available_dialects()
            given = module_bytes(ir.Module.parse(text))
    made = attnpass.compile_str(given, extra_args=[*CPU, "--compile-to=input"])
    assert made is not None and b"linalg.generic" in made


def _reference(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    def heads(w: np.ndarray) -> np.ndarray:
        flat = x.astype(np.float64) @ w
        return flat.reshape(ROWS, HEADS, HEAD).transpose(1, 0, 2)

    q, k, v = map(heads, weights)
    scores = q @ k.transpose(0, 2, 1) * 0.353553391
    weight = np.exp(scores - scores.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True)) @ v


def attn_compile(*arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [*warm.command("attn-compile"), *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=120, check=False)


def plain(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [iree_compile(), *arguments], capture_output=True, timeout=120, check=False
    )


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    return str(path)


def v_types(flow: bytes) -> list[str]:
    """V's type in each attention of a module at `flow`."""
    pattern = rb"iree_linalg_ext\.attention .*? ins\(.*? : [^,]*, [^,]*, ([^,]*),"
    return [found.decode() for found in re.findall(pattern, flow)]


# The command.


@pytest.mark.parametrize("mode", ["always", "cost", "never"])
def test_numbers_are_right_in_each_mode(mode: str) -> None:
    inputs = _inputs()
    assert rel_error(compile_and_run(MODEL, inputs, mode=mode), _reference(*inputs)) < 1e-5


def test_never_is_iree_compile_without_its_transpose_of_v(model: str) -> None:
    ours = attn_compile(model, *CPU, "--attn-mode=never", "--attn-configure=false")
    theirs = plain(model, *CPU, OFF, LEVEL)
    assert (ours.returncode, theirs.returncode) == (0, 0)
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr


def test_disabled_is_iree_compile(model: str) -> None:
    assert attn_compile(model, *CPU, "--attn-disable").stdout == plain(model, *CPU).stdout


def test_the_users_flag_for_v_holds(model: str) -> None:
    on = OFF.replace("false", "true")
    ours = attn_compile(model, *CPU, "--attn-mode=never", "--attn-configure=false", on)
    assert ours.returncode == 0
    assert ours.stdout == plain(model, *CPU, on, LEVEL).stdout


def test_text_bytecode_standard_input_and_a_stop_between_give_one_module(
    model: str, tmp_path: Path
) -> None:
    mode = "--attn-mode=always"
    whole = attn_compile(model, *CPU, mode).stdout
    inputs = _inputs()
    wanted = run_module(whole, inputs)

    bytecode = str(tmp_path / "model.mlirbc")
    stop = ["--compile-to=preprocessing", "--emit-mlir-bytecode", "-o", bytecode]
    assert attn_compile(model, *CPU, mode, *stop).returncode == 0
    resume = [*CPU, mode, "--compile-from=preprocessing"]
    from_file = attn_compile(bytecode, *resume)
    from_pipe = attn_compile("-", *resume, data=Path(bytecode).read_bytes())
    text_pipe = attn_compile("-", *CPU, mode, data=MODEL.encode())
    for result in (from_file, from_pipe, text_pipe):
        assert result.returncode == 0, result.stderr.decode()
        assert np.array_equal(run_module(result.stdout, inputs), wanted)


def test_report_summary_and_dumped_ir(model: str, tmp_path: Path) -> None:
    report, dump, out = tmp_path / "r.json", tmp_path / "ir", tmp_path / "m.vmfb"
    result = attn_compile(
        model, *CPU, "--attn-mode=always", f"--attn-report={report}", "--attn-summary",
        f"--attn-dump-ir={dump}", "-o", str(out),
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, b"")
    data = json.loads(report.read_text())
    assert data["version"] == 4
    (record,) = data["attentions"]
    value = {o["operand"]: o for o in record["operands"]}["value"]
    assert value["decision"] == "absorbed"
    assert value["reason"] in result.stderr.decode()
    before, after = ((dump / f"preprocessing-{x}.mlir").read_text() for x in ("before", "after"))
    assert "(d0, d4, d2)" in before and "(d0, d2, d4)" not in before
    assert "(d0, d2, d4)" in after


def test_a_failed_compile_leaves_the_old_output(model: str, tmp_path: Path) -> None:
    out = tmp_path / "old.vmfb"
    out.write_bytes(b"old")
    broken = tmp_path / "broken.mlir"
    broken.write_text(MODEL.replace("%v, %scale", "%none, %scale"))
    result = attn_compile(str(broken), *CPU, "-o", str(out))
    place = MODEL[: MODEL.index("%v, %scale")].count("\n") + 1
    assert result.returncode == 1
    assert f"broken.mlir:{place}:".encode() in result.stderr
    assert out.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.mlir", "model.mlir", "old.vmfb"]


def test_output_goes_through_links_and_streams(model: str, tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "real"
    link.symlink_to(real)
    flags = [*CPU, "--compile-to=input"]
    wanted = attn_compile(model, *flags).stdout
    assert attn_compile(model, *flags, "-o", str(link)).returncode == 0
    assert link.is_symlink() and real.read_bytes() == wanted
    assert attn_compile(model, *flags, "-o", "/dev/stdout").stdout == wanted
    with open(tmp_path / "stream", "wb") as stream:
        command = [sys.executable, "-m", "attnpass.cli.attn_compile", model, *flags]
        subprocess.run(
            [*command, "-o", "/dev/stdout"], stdout=stream, check=True, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert (tmp_path / "stream").read_bytes() == wanted


# Python's compile_file and compile_str.


def test_compile_file_takes_irees_arguments(model: str, tmp_path: Path) -> None:
    out, report = str(tmp_path / "m.vmfb"), attnpass.Report()
    result = attnpass.compile_file(
        model, mode="always", report=report, target_backends=["llvm-cpu"],
        input_type="none", output_file=out, extra_args=["--iree-llvmcpu-target-cpu=generic"],
    )  # fmt: skip
    assert result is None
    assert [o.decision for o in report.attentions[0].operands if o.operand == "value"] == [
        "absorbed"
    ]
    inputs = _inputs()
    assert rel_error(run_module(Path(out).read_bytes(), inputs), _reference(*inputs)) < 1e-5


def test_compile_str_is_irees_where_the_passes_do_nothing() -> None:
    from iree.compiler.tools import compile_str

    ours = attnpass.compile_str(MODEL, mode="never", configure=False, extra_args=CPU)
    assert ours == compile_str(MODEL, extra_args=[*CPU, OFF, LEVEL])


def test_compile_str_writes_the_report_to_a_path(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    flags = [*CPU, "--compile-to=preprocessing"]
    data = attnpass.compile_str(MODEL.encode(), mode="always", report=report, extra_args=flags)
    assert data is not None and b"(d0, d2, d4)" in data
    assert json.loads(report.read_text())["mode"] == "always"


def test_compile_errors_are_irees_exception() -> None:
    with pytest.raises(CompilerToolError, match="<stdin>:1:1: error"):
        attnpass.compile_str("nonsense(", target_backends=["llvm-cpu"])
    with pytest.raises(CompilerToolError, match="unknown pass 'attn-foo'"):
        attnpass.compile_str(MODEL, pipeline="attn-foo", target_backends=["llvm-cpu"])


def test_a_report_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    for report, why in ((tmp_path, "it is a folder"), (tmp_path / "no" / "r.json", "no folder")):
        with pytest.raises(attnpass.AttnError, match=why):
            attnpass.compile_str("nonsense(", report=report)


def test_compile_file_takes_names_that_look_like_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "--help").write_text("nonsense(")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompilerToolError, match="/--help:1:1: error"):
        attnpass.compile_file("--help", target_backends=["llvm-cpu"])


def test_compile_str_in_two_threads() -> None:
    def compiled(mode: str) -> list[str]:
        return v_types(compile_text(MODEL, mode=mode, flags=["--compile-to=flow"]))

    with ThreadPoolExecutor(2) as pool:
        always, never = pool.map(compiled, ["always", "never"])
    assert always != never


# A Session of the caller's.


def _session() -> Session:
    session = Session()
    session.set_flags(*CPU)
    return session


def _parsed(session: Session, text: str = MODEL):
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    assert invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0"))
    return invocation


def _text(invocation) -> bytes:
    output = Output.open_membuffer()
    invocation.output_ir(output)
    return bytes(output.map_memory())


@pytest.mark.parametrize(
    ("mode", "phase"), in_each_way([("always",), ("cost",), ("never",)], [None, "input"])
)
def test_hook_gives_what_the_command_gives(mode: str, phase: str | None) -> None:
    hook = attnpass.pipeline_hook(mode=mode, phase=phase)
    flow = _text(hook.execute(_parsed(_session()), compile_to="flow"))
    # The level of a session that names none.
    flags = ["--iree-opt-level=O0", *([f"--attn-phase={phase}"] if phase else [])]
    command = compile_text(MODEL, mode=mode, flags=["--compile-to=flow", *flags])
    assert v_types(flow) == v_types(command)
    assert flow.count(b"flow.dispatch @") == command.count(b"flow.dispatch @")


@pytest.mark.parametrize("mode", ["always", "never"])
def test_hook_gives_right_numbers(mode: str) -> None:
    hook = attnpass.pipeline_hook(mode=mode)
    output = Output.open_membuffer()
    hook.execute(_parsed(_session())).output_vm_bytecode(output)
    inputs = _inputs()
    result = run_module(bytes(output.map_memory()), inputs)
    assert rel_error(result, _reference(*inputs)) < 1e-5
    assert len(hook.report.attentions) == 1


def test_without_passes_of_its_phase_the_hook_still_keeps_v() -> None:
    hook = attnpass.pipeline_hook("attn-propagate-layout{mode=never}", phase="input")
    flow = _text(hook.execute(_parsed(_session()), compile_to="flow"))
    assert v_types(flow) == v_types(compile_text(MODEL, flags=["--compile-to=flow", OFF]))


def test_a_users_spec_is_read_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several read it, IREE's threads may wait for one another for ever."""
    session, hook = _session(), attnpass.pipeline_hook()
    if session.context.get_num_threads() == 1:
        pytest.skip("MLIR has one thread here")
    hook.global_flags = ["--iree-codegen-tuning-spec-path=spec.mlir"]
    execute, threads = driver._execute, {}

    def watched(invocation, start: str, stop: str) -> None:
        threads[stop] = session.context.get_num_threads()
        execute(invocation, start, stop)

    monkeypatch.setattr(driver, "_execute", watched)
    hook.execute(_parsed(session), compile_to="executable-configurations")
    last = threads.pop("executable-configurations")
    assert last == 1 < min(threads.values())
    assert session.context.get_num_threads() > 1


def test_hundred_compiles_with_one_session() -> None:
    session, hook = _session(), attnpass.pipeline_hook(mode="always")
    first = _text(hook.execute(_parsed(session), compile_to="preprocessing"))
    for _ in range(99):
        last = _text(hook.execute(_parsed(session), compile_to="preprocessing"))
    assert last == first
    assert b"affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>" in last


def test_sessions_in_two_threads() -> None:
    def compiled(mode: str) -> list[list[str]]:
        session = _session()
        hook = attnpass.pipeline_hook(mode=mode)
        return [v_types(_text(hook.execute(_parsed(session), compile_to="flow"))) for _ in range(4)]

    with ThreadPoolExecutor(2) as pool:
        always, never = pool.map(compiled, ["always", "never"])
    assert always[0] != never[0]
    assert always == always[:1] * 4 and never == never[:1] * 4


def test_passes_behind_irees_transpose_say_so() -> None:
    hook = attnpass.pipeline_hook(mode="always", phase="global-optimization")
    hook.execute(_parsed(_session()), compile_to="flow")
    assert any("behind a barrier" in note for note in hook.report.notes)


def test_a_failing_pass_raises_and_the_session_lives_on() -> None:
    session = _session()
    with pytest.raises(attnpass.PipelineError, match="unknown pass"):
        attnpass.pipeline_hook("attn-foo")
    failing = attnpass.pipeline_hook("no-such-pass")
    with pytest.raises(attnpass.AttnError, match="no-such-pass"):
        failing.execute(_parsed(session))
    hook = attnpass.pipeline_hook(mode="never")
    assert v_types(_text(hook.execute(_parsed(session), compile_to="flow")))


@pytest.mark.parametrize("source", ["", "func.func @f("])
def test_without_a_module_the_hook_says_so(source: str) -> None:
    invocation = _session().invocation()
    if source:
        assert not invocation.parse_source(
            Source.wrap_buffer(invocation.session, source.encode() + b"\0")
        )
    with pytest.raises(attnpass.CompileError, match="no module to compile"):
        attnpass.pipeline_hook().execute(invocation)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals on this system")
def test_bytes_are_kept_off_a_terminal(model: str) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "attnpass.cli.attn_compile", model, *CPU]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, stdout=theirs, stderr=subprocess.PIPE, timeout=120, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 1
    assert done.stderr.startswith(b"attn-compile: error: the output is no text for a terminal")


def test_a_failing_compile_raises_each_time(capfd: pytest.CaptureFixture[str]) -> None:
    session = Session()  # names no target device: IREE stops behind flow
    for _ in range(2):
        with pytest.raises(attnpass.CompileError):
            attnpass.pipeline_hook().execute(_parsed(session))
        assert "error" in capfd.readouterr().err


# Configurations that IREE fails on.


@pytest.fixture
def bad_table(tmp_path: Path) -> str:
    """A table that gives MODEL's attention the pipeline of another kind of op."""
    maps = {"query": [1, 0, 3], "key": [4, 0, 3], "value": [4, 0, 2], "output": [0, 1, 2]}
    operands = {
        name: {"type": f"tensor<{'2x16' if name == 'output' else '16x2'}x8xf32>", "map": dims}
        for name, dims in maps.items()
    }
    operands["scale"] = {"type": "f32"}
    entry = {
        "target": "llvm-cpu generic",
        "attention": {"kind": "attention", "dims": 5, "operands": operands},
        "configuration": {
            "compilation_info": "#iree_codegen.compilation_info<lowering_config = "
            "#iree_cpu.lowering_config<distribution = [1, 4, 8, 0, 0]>, translation_info = "
            "#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<Mmt4dTilingExpert>>>"
        },
    }
    path = tmp_path / "table.json"
    data = {"format": "attnpass-attention-table", "version": 1, "entries": [entry]}
    path.write_text(json.dumps(data))
    return str(path)


def test_hook_compiles_again_without_configurations(
    bad_table: str, capfd: pytest.CaptureFixture[str]
) -> None:
    hook = attnpass.pipeline_hook(table=bad_table)
    output = Output.open_membuffer()
    with pytest.warns(RuntimeWarning, match="fallback: compiled without configurations"):
        hook.execute(_parsed(_session())).output_vm_bytecode(output)
    assert "error: failed to run translation" in capfd.readouterr().err
    (event,) = hook.report.events
    assert event.kind == "fallback" and event.reason.startswith("compiled without configurations")
    assert event.location.count(":") == 2
    assert len(hook.report.attentions) == 1
    inputs = _inputs()
    assert rel_error(run_module(bytes(output.map_memory()), inputs), _reference(*inputs)) < 1e-5


def test_a_part_compiled_again_keeps_the_records_of_others(bad_table: str, tmp_path: Path) -> None:
    half = MODEL.replace("f32", "f16")
    source, report = tmp_path / "parts.mlir", tmp_path / "report.json"
    source.write_text(f"{half}// -----\n{MODEL}// -----\n{half}")
    done = attn_compile(
        *[str(source), "-o", os.devnull, *CPU, "--split-input-file", f"--attn-table={bad_table}"],
        *[f"--attn-report={report}", "--iree-opt-level=O0"],
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"compiled without configurations") == 1
    # What IREE said of the compile that failed is in the warning.
    assert b"error:" not in done.stderr
    data = json.loads(report.read_text())
    types = [record["element_types"]["query"] for record in data["attentions"]]
    assert types == ["f16", "f32", "f16"]
    assert [event["kind"] for event in data["events"]] == ["fallback"]
    # The others keep theirs.
    configured = [record for record in data["records"] if record["what"] == "configured"]
    targets = [record["details"]["target"] for record in configured]
    assert targets == ["llvm-cpu generic"] * 2
