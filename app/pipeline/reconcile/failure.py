"""What keeps a reconciliation from being made, in words for an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from app.errors import AccessRefusedError, CepError, DependencyError
from app.pipeline.causes import access_refused, cause


class ReconcileError(CepError):
    """It cannot be said what the application would have found (exit code 1)."""


class NothingToDoError(ReconcileError):
    """There is nothing to compare, and will be nothing: a job that runs every hour has done its work."""


class NothingShedsError(NothingToDoError):
    """None of the queries sheds, and none was named."""


class NothingCameError(NothingToDoError):
    """No event of the interval has come, and none waits."""


class NotThereYetError(ReconcileError):
    """The application has not come so far: what there is it may yet find itself."""


class DeletedError(ReconcileError):
    """Retention has deleted records that are needed.

    Attributes:
        possible_ms: event time from which on shedding can be made good, as far as that can be told.
    """

    def __init__(self, text: str, possible_ms: int | None = None) -> None:
        super().__init__(text)
        self.possible_ms = possible_ms


def too_far_ahead(topic: str, ahead_ms: int) -> ReconcileError:
    """What was believed of a topic does not hold."""
    seconds = -(-ahead_ms // 1000)
    return ReconcileError(
        f"event times in {topic} are {seconds} s ahead of Kafka's timestamps, so earlier records may be of the interval as well\n"
        f"hint: --ahead '{2 * seconds} s' begins so much earlier"
    )


@contextmanager
def told_by_spark(doing: str) -> Iterator[None]:
    """Says in a few lines what Spark says in many.

    Args:
        doing: what is being done, as ``read what was published``.

    Raises:
        AccessRefusedError: the brokers do not let us.
        DependencyError: Spark, or what it needs, is not there.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        told = f"Spark could not {doing}: {cause(text, hint=False)}"
        if access_refused(text):
            raise AccessRefusedError(
                f"{told}\nhint: the user needs READ and DESCRIBE on these topics (ops/runbooks/operate.md, Permissions)"
            ) from None
        raise DependencyError(f"{told}\nhint: nothing was published; are the brokers up? call it again") from None


def moment(time_ms: int) -> str:
    """A time as people read it.

    >>> moment(1_780_000_000_250)
    '2026-05-28T20:26:40.250Z'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
