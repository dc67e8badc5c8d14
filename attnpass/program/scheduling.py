"""What a thread that waits for IREE's workers is to the system's scheduler."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def behind_workers() -> Iterator[None]:
    """Has the calling thread not take a worker's core as it wakes, on Linux.

    The worker that ends a call wakes the caller, and has a few steps left then. IREE 3.13 spins
    for these: on that worker's core, which it takes by the system's rules, for a slice of its time,
    milliseconds. A thread of SCHED_BATCH waits until a core is free. Other policies than the
    default, and a system that refuses, stay as they are.
    """
    is_batch = _take(_DEFAULT, _BATCH)
    try:
        yield
    finally:
        if is_batch:
            _take(_BATCH, _DEFAULT)


if sys.platform == "linux":
    _DEFAULT, _BATCH = os.SCHED_OTHER, os.SCHED_BATCH

    def _take(before: int, policy: int) -> bool:
        """Gives the calling thread a policy, if it has the one before; whether it did."""
        try:
            if os.sched_getscheduler(0) != before:
                return False
            os.sched_setscheduler(0, policy, os.sched_param(0))
        except OSError:
            return False
        return True

else:
    _DEFAULT = _BATCH = 0

    def _take(before: int, policy: int) -> bool:
        return False
