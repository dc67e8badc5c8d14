"""While a thread waits for workers it does not take their cores, and is what it was behind that."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from attnpass.program.scheduling import behind_workers

if sys.platform != "linux":
    pytest.skip("policies are Linux's", allow_module_level=True)


def policies_within(policy: int) -> list[int]:
    """The policy of a thread of one in a call, and behind one that fails."""
    found: list[int] = []

    def wait() -> None:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        with pytest.raises(ValueError), behind_workers():
            found.append(os.sched_getscheduler(0))
            raise ValueError
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    return found


def test_a_thread_waits_its_turn() -> None:
    assert policies_within(os.SCHED_OTHER) == [os.SCHED_BATCH, os.SCHED_OTHER]


def test_another_policy_stays() -> None:
    assert policies_within(os.SCHED_BATCH) == [os.SCHED_BATCH] * 2


def test_a_system_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    before = os.sched_getscheduler(0)
    with behind_workers():
        assert os.sched_getscheduler(0) == before
