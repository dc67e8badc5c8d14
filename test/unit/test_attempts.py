"""Compiles in processes of their own: crashes lead to the next thing to leave out."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from attnpass.cli.attempts import CompileState, Done, Ended, Tell, compile_in_children
from attnpass.cli.guard import HeldText
from attnpass.driver.fallbacks import ATTENTION, PLAIN, FallbackSearch
from attnpass.errors import AttnError

CHANGED = {"attn-configure": "", "attn-propagate-layout": "", ATTENTION: ""}


def crashes_unless(chosen: str, log: Path) -> int:
    """The exit code of a compile that crashes unless this is left out. By IREE alone it tells
    nothing before."""

    def body(searches: Sequence[FallbackSearch], tell: Tell) -> int:
        (search,) = searches
        with log.open("a") as out:
            print(search.chosen.name if search.chosen else "nothing", file=out)
        if search.chosen is not PLAIN:
            tell(CompileState(0, CHANGED))
        if not (search.chosen and search.chosen.name.startswith(chosen)):
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)
        tell(Done(0))
        tell(Ended())
        # The child is a copy of the tests' process, too: only the command ends there.
        os._exit(0)

    return compile_in_children("x.mlir", [FallbackSearch()], body)


@pytest.fixture(autouse=True)
def _standard_error(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The children write to the process's own."""
    with capfd.disabled():
        yield


@pytest.mark.parametrize("chosen", ["configurations", "attention ops"])
def test_a_crash_leads_to_what_mends_it(chosen: str, tmp_path: Path) -> None:
    assert crashes_unless(chosen, tmp_path / "log") == 0
    tried = (tmp_path / "log").read_text().splitlines()
    assert tried[0] == "nothing" and tried[-1].startswith(chosen)
    # Behind IREE alone only what hands it other ops.
    assert (PLAIN.name in tried) == (chosen == "attention ops")


def test_a_crash_with_everything_left_out(tmp_path: Path) -> None:
    with pytest.raises(AttnError, match="crashed") as error:
        crashes_unless("nothing of this", tmp_path / "log")
    assert error.value.location == "x.mlir"
    tried = (tmp_path / "log").read_text().splitlines()
    assert PLAIN.name in tried and len(tried) == len(set(tried)) < 8


def test_only_tracebacks_are_said_of_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[HeldText] = []
    monkeypatch.setattr(HeldText, "print", lambda text: said.append(text))
    for wanted in ("", "1"):
        monkeypatch.setenv("ATTNPASS_TRACEBACK", wanted)
        said.clear()
        log = tmp_path / f"log{wanted}"
        assert crashes_unless("configurations", log) == 0
        tried = log.read_text().splitlines()
        assert 1 < len(tried) < 5
        assert len(said) == (len(tried) if wanted else 1)
