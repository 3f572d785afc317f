"""Things that fail for a while: counted every time, logged when it begins and when it is over, not in between."""

from __future__ import annotations

from dataclasses import dataclass

from app.observe.logs import get_logger

log = get_logger(__name__)


@dataclass(slots=True)
class Outage:
    """One kind of failure.

    Attributes:
        failing: what is logged when it begins.
        over: what is logged when it is over.
        failures: since it began; 0 while all is well.
    """

    failing: str
    over: str
    failures: int = 0

    def failed(self, reason: str, count: int = 1) -> None:
        """Notes failures."""
        if not self.failures:
            log.warning(self.failing, reason=reason)
        self.failures += count

    def worked(self) -> None:
        """Notes a success."""
        if self.failures:
            log.info(self.over, failures=self.failures)
        self.failures = 0
