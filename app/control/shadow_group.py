"""Shows ordinary lag tools how far the application has read: after each batch its offsets are committed to a consumer group that nobody is in.

Nobody reads them again: where the application goes on is in its checkpoint alone. So nothing here may hold a batch up, or end one: a thread of its own
commits what it was told last, offsets that newer ones have overtaken are passed over, and what fails is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from app.control.outages import Outage
from app.observe.metrics import Metrics

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition, the offset after the last record of a finished batch."""
Commit = Callable[[Offsets], None]
"""Commits offsets to the group; takes as long as it takes, and raises what it likes."""

RENEW_S = 3600.0
"""Offsets are committed again so often though they are the same: brokers forget those of a group that is silent for a week."""
RETRY_S = 30.0
"""After a failure, when no batch comes that would be a reason to try again."""
STOP_S = 2.0
"""How long the end waits for a commit; a broker that is away must not hold a stop up."""


class ShadowGroup:
    """A thread that commits.

    Args:
        commit: to the group; called from the thread alone.
        metrics: counts commits and failures.
    """

    def __init__(self, commit: Commit, metrics: Metrics, renew_s: float = RENEW_S, retry_s: float = RETRY_S) -> None:
        self._commit, self._metrics = commit, metrics
        self._renew_s, self._retry_s = renew_s, retry_s
        self._outage = Outage("offsets are not committed to the shadow group", "offsets are committed to the shadow group again")
        self._told: Offsets = {}
        self._news, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="shadow-group", daemon=True)
        self._thread.start()

    def tell(self, offsets: Offsets) -> None:
        """A batch is over; returns at once."""
        self._told = dict(offsets)
        self._news.set()

    def stop(self) -> None:
        """Commits what is not committed yet, if that goes quickly, and ends."""
        self._stopped.set()
        self._news.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        good, stopping = True, False
        while not stopping:
            self._news.wait(self._renew_s if good else self._retry_s)
            self._news.clear()
            stopping = self._stopped.is_set()
            if offsets := self._told:
                good = self._committed(offsets)

    def _committed(self, offsets: Offsets) -> bool:
        try:
            self._commit(offsets)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the commits
            self._metrics.add("cep_shadow_commit_errors_total", 1)
            self._outage.failed(str(error) or type(error).__name__)
            return False
        self._metrics.add("cep_shadow_commits_total", 1)
        self._outage.worked()
        return True
