"""A stopwatch that says where time went."""

from __future__ import annotations

from time import perf_counter_ns


class Spent:
    """Time per phase, in ns."""

    def __init__(self) -> None:
        self._at = perf_counter_ns()
        self.by_phase: dict[str, int] = {}

    def phase(self, name: str) -> None:
        """What passed since the last phase belongs to this one."""
        now = perf_counter_ns()
        self.by_phase[name] = self.by_phase.get(name, 0) + now - self._at
        self._at = now
