"""Measured times, for the page beside what was priced."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ..errors import AttnError


@dataclass(frozen=True)
class Profile:
    """Seconds of a call before and after the passes (None: not measured), and of each kernel."""

    before: float | None = None
    after: float | None = None
    kernels: dict[str, float] = field(default_factory=dict)


def read_profile(text: str, name: str) -> Profile:
    """The profile in the file `name`: `{"before": 0.012, "after": 0.009, "kernels": {...}}` in
    seconds, or what `iree-profile dispatch --format=jsonl` prints; AttnError for other text."""
    try:
        data = json.loads(text)
    except ValueError:
        return _from_lines(text, name)
    if not isinstance(data, dict) or not data.keys() & {"before", "after", "kernels"}:
        raise AttnError("no profile: it needs 'before' and 'after', or 'kernels', in seconds", name)
    kernels = data.get("kernels", {})
    numbers = [data.get("before", 0), data.get("after", 0)]
    if not isinstance(kernels, dict) or not all(map(_is_time, [*numbers, *kernels.values()])):
        raise AttnError("no profile: its times are to be numbers of seconds, from 0 on", name)
    return Profile(data.get("before"), data.get("after"), kernels)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _from_lines(text: str, name: str) -> Profile:
    kernels: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line) if line.strip() else {}
        except ValueError:
            words = "no JSON: a profile is an object, or lines of iree-profile's"
            raise AttnError(words, f"{name}:{number}:1") from None
        if isinstance(row, dict) and row.get("type") in _ROWS and _is_time(row.get("total_ns")):
            function = str(row.get("key") or "unknown")
            kernels[function] = kernels.get(function, 0.0) + row["total_ns"] * 1e-9
    if not kernels:
        raise AttnError("no profile: none of its lines has the time of a dispatch", name)
    return Profile(kernels=kernels)


# Times of a device, and of a host that is one.
_ROWS = ("dispatch_group", "host_dispatch_group")
