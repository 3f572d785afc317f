"""Why a streaming query ended, in a few lines: Spark's texts hold the plan, the whole progress and several stack traces."""

from __future__ import annotations

import re

PLAN = "=== Streaming Query ==="
_TRACE = re.compile(r"\s|Traceback|SQLSTATE|Driver stacktrace|During handling|The above exception|\.{3} \d+ more")
"""Beginnings of lines that belong to a stack trace, and of those that say nothing to people."""
_RESTART = "hint: the whole of it is in the log; a new start goes on at the batch that failed"
_REGISTRY_AWAY = "the schema registry has been away"
_HINTS = (
    ("failOnDataLoss", "hint: records were deleted before they were read; kafka.fail_on_data_loss: false goes on without them"),
    ("RecordTooLarge", "hint: a topic's max.message.bytes is below topics.max_record_bytes"),
    ("AuthorizationException", "hint: the broker's access lists do not allow it"),
    (_REGISTRY_AWAY, "hint: is it up, is schema_registry.url right? a new start waits for it again"),
    (
        "Timed out waiting for a node assignment",
        "hint: the brokers have not answered for three minutes; a new start goes on where this one was",
    ),
    ("UnknownTopicOrPartition", "hint: was a topic deleted? cep topics plan shows it"),
)
_REFUSED = "AuthenticationException"
_REFUSED_HINT = (
    _REFUSED,
    "hint: the broker refuses these credentials; are the files of kafka.security right? a new start reads them again",
)
_BROKERS_AWAY = ("Cannot fetch record for offset", "expired before the position", "No resolvable bootstrap urls")
"""What Spark's tasks say when no broker answers them any more."""
_BROKERS_HINT = tuple((word, "hint: the brokers do not answer; a new start goes on where this one was") for word in _BROKERS_AWAY)

_OUTSIDE = (*(word for word, _ in _HINTS), "SPARK_JOB_CANCELLED", "SparkContext was shut down")
"""Words of failures that records have no part in."""


def lies_outside(failure: str) -> bool:
    """Whether a failure has nothing to do with the records of its batch, so that leaving them out would not help.

    >>> lies_outside("AuthorizationException: not allowed"), lies_outside("ValueError: a value too many")
    (True, False)
    """
    return any(word in failure for word in _OUTSIDE)


def registry_is_away(failure: str) -> bool:
    """Whether the batch has waited for the registry for as long as it may.

    >>> registry_is_away("DependencyError: the schema registry has been away for 60 s, and batch 3 needs its schema 7: down")
    True
    """
    return _REGISTRY_AWAY in failure


def credentials_refused(failure: str) -> bool:
    """Whether the broker did not let us in: perhaps only until the files of secrets that are being exchanged have arrived, so it is worth another try.

    >>> credentials_refused("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"), credentials_refused("disk full")
    (True, False)
    """
    return _REFUSED in failure


def storage_is_away(failure: str) -> bool:
    """Whether the checkpoint's storage did nothing for a task: not now, perhaps soon.

    >>> storage_is_away("app.storage.store.StorageAwayError: cannot read models/a: timeout"), storage_is_away("MissingError: no file")
    (True, False)
    """
    return "StorageAwayError" in failure


def brokers_are_away(failure: str) -> bool:
    """Whether tasks waited for the brokers for as long as they do: no fault of the records.

    >>> brokers_are_away("TimeoutException: Cannot fetch record for offset 7 in 120000 milliseconds"), brokers_are_away("ValueError: offset 7")
    (True, False)
    """
    return any(word in failure for word in _BROKERS_AWAY)


def access_refused(failure: str) -> bool:
    """Whether the broker does not know us, or does not let us do this.

    >>> access_refused("TopicAuthorizationException: Not authorized to access topics: [a]"), access_refused("TimeoutException")
    (True, False)
    """
    return "AuthorizationException" in failure or credentials_refused(failure)


def cause(failure: str, *, hint: bool = True) -> str:
    r"""What happened and what to do, from the text of a query's exception.

    >>> print(cause("[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n  File \"x.py\"\nOSError: disk full\n SQLSTATE: 38000\n=== Streaming Query ===\nplan"))
    [PYTHON_EXCEPTION] An exception was thrown from the Python worker
    OSError: disk full
    hint: the whole of it is in the log; a new start goes on at the batch that failed
    """
    told = failure.partition(PLAN)[0].strip() or failure
    first, *more = told.splitlines() or ["no reason is known"]
    kept = [line.strip() for line in more if line.strip() and not _TRACE.match(line)]
    lines = [first.replace("Traceback (most recent call last):", "").rstrip(" :"), *kept[-2:]]
    hints = [next((text for word, text in (*_HINTS, _REFUSED_HINT, *_BROKERS_HINT) if word in failure), _RESTART)] if hint else []
    return "\n".join([*dict.fromkeys(lines), *hints])
