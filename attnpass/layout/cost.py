"""What a rewrite costs: bytes moved and launches, compared with the program as it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Bytes read and written and dispatches launched, more (or, negative, fewer) than before.

    Both are differences against the unchanged program, so that zero means no change.
    """

    bytes: int = 0
    launches: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.bytes + other.bytes, self.launches + other.launches)

    def __bool__(self) -> bool:
        return self != FREE

    def seconds(self, bytes_per_second: float, launch_seconds: float) -> float:
        """Time on a device with this memory bandwidth and this cost of a launch."""
        return self.bytes / bytes_per_second + self.launches * launch_seconds


FREE = Cost()
