"""Schemas of what stands on topics, asked for when somebody looks. Whatever stands there, who looks waits for the registry once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from app.errors import AccessRefusedError, DependencyError
from app.events.avro import AvroSchema, SchemaError
from app.events.wire import MAGIC_ID

AWAY, REFUSED = "the schema registry does not answer", "the schema registry refuses access"
AGAIN_S = 10.0
"""A registry that has not answered is asked again no sooner: a question takes seconds then, and pages are made one at a time."""

SchemaOf = Callable[[int], AvroSchema | None]


class Schemas:
    """What the registry has told. Any thread may ask.

    Args:
        schema_of: the schema of an id of the registry.
        clock: seconds that never go back.
    """

    def __init__(self, schema_of: SchemaOf, clock: Callable[[], float] = time.monotonic) -> None:
        self._schema_of, self._clock = schema_of, clock
        self._known: dict[int, AvroSchema] = {}
        self._why, self._away_until_s = "", -math.inf

    def look(self) -> Look:
        """For what is looked at now."""
        return Look(self)

    def ask(self, number: int) -> tuple[AvroSchema | None, str]:
        """The schema of an id, None where there is none of one record; and why the registry could not be asked, empty where it could."""
        if (known := self._known.get(number)) is not None:
            return known, ""
        if self._clock() < self._away_until_s:
            return None, self._why
        try:
            schema = self._schema_of(number)
        except DependencyError as error:
            self._why, self._away_until_s = REFUSED if isinstance(error, AccessRefusedError) else AWAY, self._clock() + AGAIN_S
            return None, self._why
        except SchemaError:
            return None, ""
        if schema is None or len(schema.records()) != 1:
            return None, ""
        self._known[number] = schema  # what an id stands for never changes
        return schema, ""


class Look:
    """One look at topics: each schema is asked for once.

    Attributes:
        problem: why there are records that could not be read; empty when it is nobody's fault but theirs.
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._seen: dict[int, AvroSchema | None] = {}
        self.problem = ""

    def schema(self, value: bytes | None) -> AvroSchema | None:
        """The schema of a record's value; None where it names none that can be had."""
        if value is None or len(value) < 5 or value[0] != MAGIC_ID:
            return None
        number = int.from_bytes(value[1:5], "big")
        if number not in self._seen:
            self._seen[number], problem = self._schemas.ask(number)
            self.problem = self.problem or problem
        return self._seen[number]
