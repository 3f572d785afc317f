"""Why a record became no event: stable names for dead letters and metrics, numbers for the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray


class Reason(StrEnum):
    """What a dead letter says (``__connect.errors.exception.class.name``, label of the metric). Names never change."""

    NULL_VALUE = "null-value"
    """The record has no value (a tombstone)."""
    UNDECODABLE = "undecodable"
    """The bytes are no Avro record of their schema."""
    UNKNOWN_SCHEMA_ID = "unknown-schema-id"
    """The registry does not know the schema."""
    SCHEMA = "schema"
    """The record's schema cannot be read as the one that the stream expects."""
    NO_TIME = "no-time"
    """The time is null."""
    NO_TYPE = "no-type"
    """The attribute that holds the event type is null."""
    TIME_AHEAD = "time-ahead"
    """The time is further ahead of the record's Kafka timestamp than the stream's ``max_ahead``."""
    TIME_OUT_OF_RANGE = "time-out-of-range"
    """The time is outside the years 1 to 9999."""


class Failure(IntEnum):
    """What exactly failed. 0 is success. Add at the end and never renumber: cached kernels have the numbers baked in."""

    NONE = 0
    TRUNCATED = 1
    VARINT_TOO_LONG = 2
    BAD_UNION_BRANCH = 3
    TRAILING_BYTES = 4
    NEGATIVE_LENGTH = 5
    INVALID_UTF8 = 6
    BAD_BOOLEAN = 7
    BAD_ENUM = 8
    OUT_OF_RANGE = 9
    BRANCH_UNREADABLE = 10
    SYMBOL_UNREADABLE = 11
    NULL_VALUE = 12
    NO_MAGIC_BYTE = 13
    NO_SCHEMA_ID = 14
    UNKNOWN_SCHEMA = 15
    SCHEMA_UNREADABLE = 16
    NO_TIME = 17
    NO_TYPE = 18
    OTHER = 19
    TIME_AHEAD = 20
    TIME_OUT_OF_RANGE = 21
    GENERAL_PATH = 255
    """Not a failure: the kernel leaves the record to fastavro."""


TEXTS: Mapping[Failure, tuple[Reason, str]] = {
    Failure.TRUNCATED: (Reason.UNDECODABLE, "the record ends too early"),
    Failure.VARINT_TOO_LONG: (Reason.UNDECODABLE, "a number has more than ten bytes"),
    Failure.BAD_UNION_BRANCH: (Reason.UNDECODABLE, "a union has no such branch"),
    Failure.TRAILING_BYTES: (Reason.UNDECODABLE, "bytes are left over behind the record"),
    Failure.NEGATIVE_LENGTH: (Reason.UNDECODABLE, "a length is negative"),
    Failure.INVALID_UTF8: (Reason.UNDECODABLE, "a text is no UTF-8"),
    Failure.BAD_BOOLEAN: (Reason.UNDECODABLE, "a boolean is neither 0 nor 1"),
    Failure.BAD_ENUM: (Reason.UNDECODABLE, "an enum has no such symbol"),
    Failure.OUT_OF_RANGE: (Reason.UNDECODABLE, "an int does not fit into 32 bit"),
    Failure.BRANCH_UNREADABLE: (Reason.SCHEMA, "the branch of a union cannot be read as what the stream expects"),
    Failure.SYMBOL_UNREADABLE: (Reason.SCHEMA, "the stream's enum does not have the symbol"),
    Failure.NULL_VALUE: (Reason.NULL_VALUE, "null value"),
    Failure.NO_MAGIC_BYTE: (Reason.UNDECODABLE, "no magic byte: not in the registry's wire format"),
    Failure.NO_SCHEMA_ID: (Reason.UNDECODABLE, "too short for a schema id"),
    Failure.UNKNOWN_SCHEMA: (Reason.UNKNOWN_SCHEMA_ID, "the registry does not know the schema"),
    Failure.SCHEMA_UNREADABLE: (Reason.SCHEMA, "the schema cannot be read as what the stream expects"),
    Failure.NO_TIME: (Reason.NO_TIME, "no time"),
    Failure.NO_TYPE: (Reason.NO_TYPE, "no type"),
    Failure.OTHER: (Reason.UNDECODABLE, "undecodable"),
    Failure.TIME_AHEAD: (Reason.TIME_AHEAD, "the time is too far ahead of the record's Kafka timestamp"),
    Failure.TIME_OUT_OF_RANGE: (Reason.TIME_OUT_OF_RANGE, "the time is outside the years 1 to 9999"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """Records that became no events.

    Attributes:
        rows: int64 (failures,), input rows, ascending.
        codes: uint8 (failures,) of `Failure`.
        details: row → text that says more than the code's own.
    """

    rows: NDArray[np.int64]
    codes: NDArray[np.uint8]
    details: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.rows)

    def reason(self, k: int) -> Reason:
        """The reason of the k-th failure."""
        return TEXTS[Failure(int(self.codes[k]))][0]

    def text(self, k: int) -> str:
        """What to tell a person about the k-th failure."""
        return self.details.get(int(self.rows[k])) or TEXTS[Failure(int(self.codes[k]))][1]

    def counts(self) -> dict[Reason, int]:
        """Failures per reason."""
        totals: dict[Reason, int] = {}
        for code, count in zip(*(part.tolist() for part in np.unique(self.codes, return_counts=True)), strict=True):
            reason = TEXTS[Failure(code)][0]
            totals[reason] = totals.get(reason, 0) + count
        return totals
