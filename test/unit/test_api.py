"""`attnpass.run` and what the package itself promises at import."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from iree.compiler import ir

import attnpass

ROOT = Path(__file__).parents[2]

# A projection whose result is V: `always` absorbs V^T into it.
PROJECTION = """
#q = affine_map<(m, n, k1, k2) -> (m, k1)>
#k = affine_map<(m, n, k1, k2) -> (k2, k1)>
#v = affine_map<(m, n, k1, k2) -> (k2, n)>
#s = affine_map<(m, n, k1, k2) -> ()>
#o = affine_map<(m, n, k1, k2) -> (m, n)>
module {
  func.func @f(%q: tensor<16x8xf32>, %k: tensor<32x8xf32>, %x: tensor<32x24xf32>,
               %w: tensor<24x8xf32>) -> tensor<16x8xf32> {
    %scale = arith.constant 0.25 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x8xf32>
    %init = linalg.fill ins(%zero : f32) outs(%e : tensor<32x8xf32>) -> tensor<32x8xf32>
    %v = linalg.matmul ins(%x, %w : tensor<32x24xf32>, tensor<24x8xf32>)
        outs(%init : tensor<32x8xf32>) -> tensor<32x8xf32>
    %out = tensor.empty() : tensor<16x8xf32>
    %r = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]>
        ins(%q, %k, %v, %scale :
            tensor<16x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>, f32)
        outs(%out : tensor<16x8xf32>) {
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
    } -> tensor<16x8xf32>
    return %r : tensor<16x8xf32>
  }
}
"""
ALWAYS = "attn-propagate-layout{mode=always operands=v}"


def parse(text: str = PROJECTION) -> ir.Module:
    context = ir.Context()
    context.load_all_available_dialects()
    return ir.Module.parse(text, context)


def decision(report: attnpass.Report) -> str:
    (attention,) = report.attentions
    (value,) = [record for record in attention.operands if record.operand == "value"]
    return value.decision


@pytest.mark.parametrize(
    "handle", [lambda m: m, lambda m: m.operation, lambda m: m.operation.opview]
)
def test_run_rewrites_in_place_and_reports(handle) -> None:
    module = parse()
    report = attnpass.run(handle(module), f"{ALWAYS},canonicalize,cse")
    assert decision(report) == "absorbed"
    assert "tensor<8x32xf32>" in str(module)
    assert module.operation.verify()
    assert json.loads(report.to_json())["version"] == 4


def test_never_changes_nothing() -> None:
    module = parse()
    before = str(module)
    attnpass.run(module, mode="never")
    assert str(module) == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pipeline": "attn-no-such"}, attnpass.PipelineError),
        ({"mode": "sometimes"}, attnpass.PipelineError),
        ({"target": "pdp11"}, attnpass.AttnError),
        ({"pipeline": "func.func(attn-fold-transpose)"}, attnpass.PipelineError),
    ],
)
def test_mistakes_change_nothing(arguments: dict[str, str], error: type[Exception]) -> None:
    module = parse()
    before = str(module)
    with pytest.raises(error):
        attnpass.run(module, **arguments)
    assert str(module) == before


def test_two_threads_on_contexts_of_their_own() -> None:
    module = parse()
    attnpass.run(module, f"{ALWAYS},cse")
    wanted = str(module)
    results: dict[int, list[tuple[str, str]]] = {0: [], 1: []}
    start = threading.Barrier(2)

    def work(name: int) -> None:
        start.wait()
        for _ in range(20):
            mine = parse()
            report = attnpass.run(mine, f"{ALWAYS},cse")
            results[name].append((str(mine), decision(report)))

    threads = [threading.Thread(target=work, args=(name,)) for name in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    for name in results:
        assert results[name] == [(wanted, "absorbed")] * 20


def test_a_hundred_runs_in_one_process() -> None:
    """Runs on one context, one after the other, all give the same."""
    context = ir.Context()
    context.load_all_available_dialects()
    texts: set[str] = set()
    for _ in range(100):
        module = ir.Module.parse(PROJECTION, context)
        report = attnpass.run(module, f"{ALWAYS},canonicalize,cse")
        assert decision(report) == "absorbed"
        texts.add(str(module))
    assert len(texts) == 1


@pytest.mark.parametrize("name", attnpass.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(attnpass, name) is not None


def test_the_package_lists_its_names() -> None:
    assert set(attnpass.__all__) < set(dir(attnpass))
    assert "importlib" not in dir(attnpass)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compile_all'"):
        attnpass.compile_all  # noqa: B018


@pytest.mark.parametrize("found", ["3.12.0", "3.14.0", "2.9.0rc1", "4.0.0", "20240410.859"])
def test_an_untested_iree_says_so(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    wanted = f"iree-base-compiler >=3.13,<3.14, but {found} is installed"
    assert wanted in attnpass._check_iree()


def test_passes_that_mend_another_iree_say_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.14.0")
    monkeypatch.setattr(attnpass, "untested", attnpass._check_iree())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for names in ("attn-keep-tiles", "attn-gather-indices", "attn-gather-indices"):
            with ir.Context() as context:
                context.load_all_available_dialects()
                attnpass.run(ir.Module.parse("module {}"), names)
    (warning,) = (str(one.message) for one in said)
    assert warning.startswith("attn-gather-indices was tested with iree-base-compiler >=3.13")


@pytest.mark.parametrize("found", ["3.13.0", "3.13.1", "3.13.0rc20260101"])
def test_tested_versions_of_iree_pass(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    assert attnpass._check_iree() == ""


def test_without_iree_the_import_says_so() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import attnpass"
    done = subprocess.run(
        # -I -S: no site-packages, so that IREE is not installed.
        [sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: attnpass needs iree-base-compiler >=3.13,<3.14, which is not installed: "
        "pip install 'iree-base-compiler>=3.13,<3.14'"
    )


def test_the_tools_import_little() -> None:
    """What costs time to import is not imported before it is needed."""
    code = (
        "import sys; from attnpass.cli import attn_opt; attn_opt.main(['--help']);"
        "slow = [m for m in ('numpy', 'iree.runtime', 'iree.compiler.ir') if m in sys.modules];"
        "sys.exit(str(slow) if slow else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
