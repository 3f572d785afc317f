"""Spark's progress, batch by batch, on its way to the control plane."""

from __future__ import annotations

import json
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from app.control.plane import ControlPlane
from app.observe.logs import get_logger

log = get_logger(__name__)


class ProgressListener(StreamingQueryListener):
    """Hands Spark's progress to the control plane; an error there must not end the stream.

    Events are Java's own objects: what pyspark makes of them looks names up in all jars of the class path, which took 60 ms of CPU per batch,
    43 % of all that the JVM did (``ops/decisions/0034-latency.md``).

    Args:
        plane: told of every batch.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._in_java: Any = None

    @property
    def _jlistener(self) -> Any:
        if self._in_java is None:
            jvm: Any = SparkContext._jvm  # noqa: SLF001 - pyspark's own way to it
            self._in_java = jvm.PythonStreamingQueryListenerWrapper(self)
        return self._in_java

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Notes it."""
        log.info("query started", run_id=str(event.runId()))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A batch was committed."""
        try:
            self._plane.on_progress(json.loads(event.progress().json()))
        except Exception:
            log.exception("progress could not be used")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A query with nothing to read is as ready as one that has read: a restart on quiet topics must not wait for the next event."""
        self._plane.first_batch.good()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Notes it."""
        log.info("query terminated", run_id=str(event.runId()), failed=event.exception().isDefined())

    class Java:
        """Read by py4j, which calls the listener as it is."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
