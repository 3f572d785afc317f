"""Records of a topic read with the schema that they name."""

from __future__ import annotations

import io
from typing import Any

import fastavro

from app.config.settings import SchemaRegistry, Settings
from app.errors import CepError
from app.events.avro import SchemaError
from app.events.registry import Registry, registry_settings

HEAD_BYTES = 5
"""A zero byte and the schema's id."""


class UnreadableError(CepError):
    """A record cannot be read; the text says why, and what to do."""


class Decoder:
    """Reads records, each by its own schema.

    Args:
        settings: of the registry.
    """

    def __init__(self, settings: SchemaRegistry) -> None:
        self._registry, self._url = Registry(registry_settings(settings)), settings.url

    def read(self, value: bytes | None) -> Any:
        """A record.

        Raises:
            UnreadableError: it cannot be read.
            DependencyError: the registry does not answer.
        """
        if value is None or len(value) < HEAD_BYTES or value[0] != 0:
            raise UnreadableError("it is not in the registry's wire format\nhint: does somebody else write to this topic?")
        number = int.from_bytes(value[1:HEAD_BYTES], "big")
        try:
            schema = self._registry.schema(number)
        except SchemaError as error:
            raise UnreadableError(
                f"its schema {number} is no Avro schema: {error}\nhint: does somebody else write to this topic?"
            ) from error
        if schema is None:
            hint = "is schema_registry.url the registry that the writer uses?"
            raise UnreadableError(f"the registry at {self._url} does not know its schema {number}\nhint: {hint}")
        try:
            return fastavro.schemaless_reader(io.BytesIO(value[HEAD_BYTES:]), schema.root, None)
        except Exception as error:
            raise UnreadableError(f"it is no record of its schema {number}: {error}\nhint: its writer is broken") from error


def as_written(settings: Settings, value: bytes) -> dict[str, Any]:
    """For `cep dlq show`: the record, or why it cannot be read."""
    try:
        return {"record": Decoder(settings.schema_registry).read(value), "unreadable": None}
    except CepError as error:
        return {"record": None, "unreadable": str(error).partition("\n")[0]}
