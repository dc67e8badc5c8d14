"""attn-compile compiles again where IREE fails on a configuration or an attention op of ours."""

from __future__ import annotations

from typing import Any

import pytest

from attnpass.cli import attn_compile
from attnpass.errors import CompileError
from attnpass.iree.flags import parse_arguments

FLAGS = ["model.mlir", "--iree-hal-target-device=cuda"]


def _compile(
    monkeypatch: pytest.MonkeyPatch,
    configured: bool,
    *flags: str,
    raised: bool = False,
    failures: int = 1,
) -> tuple[Any, Any]:
    """What comes out where the first compiles fail, and the hook."""
    left = failures

    options = parse_arguments([*FLAGS, *flags])
    given = attn_compile._hook(options)

    def compile_once(session: Any, options: Any, hook: Any, data: bytes) -> bytes:
        nonlocal left
        hook.configured, hook.raised = configured, raised
        left -= 1
        if left >= 0:
            raise CompileError("IREE fails")
        return b"compiled"

    monkeypatch.setattr(attn_compile, "_compile", compile_once)
    session: Any = None
    return attn_compile._compile_somehow(session, options, given, b""), given


def test_compiles_again_without_configurations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, hook = _compile(monkeypatch, True)
    assert output == b"compiled"
    assert any("compiled without configurations" in note for note in hook.report.notes)
    assert "warning: IREE fails on attention as configured" in capsys.readouterr().err


def test_other_failures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was configured, or the user chose the passes: the failure is told."""
    with pytest.raises(CompileError):
        _compile(monkeypatch, False)
    with pytest.raises(CompileError):
        _compile(monkeypatch, True, "--attn-pipeline=attn-configure")


@pytest.mark.parametrize("configured", [False, True])
def test_compiles_again_without_raising(
    configured: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attention that was written out stays so where IREE fails on the op in any case."""
    output, hook = _compile(monkeypatch, configured, raised=True, failures=1 + configured)
    assert output == b"compiled"
    assert any("compiled without attn-raise" in note for note in hook.report.notes)
    assert "compiling again without attn-raise" in capsys.readouterr().err


def test_fails_where_nothing_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError):
        _compile(monkeypatch, False, "--attn-raise=false", raised=True)
