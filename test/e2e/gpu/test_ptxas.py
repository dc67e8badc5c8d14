"""attn-configure{check=ptxas}: kernels that spill are refused. A script stands in for ptxas."""

from __future__ import annotations

from pathlib import Path

import pytest
from attention_case import Case

import attnpass
from attnpass.errors import AttnError
from attnpass.report.records import Record

CASE = Case(40, 256, 256, 64, "f16")


def records(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> list[Record]:
    from iree.compiler import ir

    ptxas = folder / "ptxas"
    ptxas.write_text(f"#!/bin/sh\n{script}\n")
    ptxas.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(CASE.text("main"))
        report = attnpass.run(module, "attn-configure{target=sm_80 check=ptxas}")
        configured = "compilation_info" in str(module)
        assert configured == bool(report.found("configured"))
    return report.records


def test_few_spills_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f'grep -q ex2.approx "$3" && cp "$3" {tmp_path} && echo "552 bytes spill stores" >&2'
    (record,) = records(tmp_path, monkeypatch, said)
    assert record.details["target"] == "cuda sm_80"
    assert ".target sm_80" in (tmp_path / "kernel.ptx").read_text()


def test_many_spills_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'echo "8 bytes spill stores, 8668 bytes spill stores" >&2'
    (record,) = records(tmp_path, monkeypatch, said)
    assert record.reason.endswith("ptxas: its kernel spills 8668 bytes of registers to memory")


def test_a_failing_ptxas_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttnError, match="ptxas failed: no such target"):
        records(tmp_path, monkeypatch, "echo no such target >&2; exit 1")


def test_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnpass.machines.nvidia.ptxas import find_ptxas

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AttnError, match="needs ptxas"):
        find_ptxas()
