"""Schemas read from a registry by the ids that framed records name."""

from __future__ import annotations

from typing import Final

from confluent_kafka.schema_registry.error import SchemaRegistryError

from tidegate.changefeed.registry_uri import RegistryUri
from tidegate.client.registry_connection import Client, RegistryConnection
from tidegate.client.registry_faults import Errand, RegistryFaults
from tidegate.client.shared_answers import SharedAnswers
from tidegate.errors import MalformedRecord

#: A topic has one for each version of its table and one for its markers; texts are some kilobytes each.
_KEPT_SCHEMAS: Final = 1_000
_NO_SUCH_SCHEMA: Final = 40403  # Confluent's code; a 404 without it comes from somewhere else


class SchemaReader:
    """Reads the schemas of one registry, for any number of threads.

    Each schema is asked for once and on a connection of its own, so that there is nothing to close.
    """

    def __init__(self, uri: RegistryUri) -> None:
        """Raises ``StatementError`` for certificates that cannot be used."""
        RegistryConnection(uri).close()
        self._uri = uri
        self._faults = RegistryFaults(uri)
        self._texts = SharedAnswers(self._read, keep=_KEPT_SCHEMAS, patience_s=uri.timeout_s)

    def __repr__(self) -> str:
        return f"SchemaReader({self._faults.shown})"

    def schema_text(self, schema_id: int) -> str:
        """The schema as JSON text, at the latest after the registry's timeout.

        Raises ``MalformedRecord`` for an id that the registry does not have, ``RegistryAway`` and
        ``RegistryDenied``.
        """
        try:
            return self._texts.get(schema_id)
        except TimeoutError:
            raise self._faults.late(_errand(schema_id)) from None

    def _read(self, schema_id: int) -> str:
        with RegistryConnection(self._uri) as connection:
            return connection.call(_errand(schema_id), lambda client: self._text(client, schema_id))

    def _text(self, client: Client, schema_id: int) -> str:
        try:
            text = client.get_schema(schema_id).schema_str
        except SchemaRegistryError as error:
            if error.error_code != _NO_SUCH_SCHEMA:
                raise
            raise MalformedRecord(
                f"the schema registry at {self._faults.shown} has no schema {schema_id}"
            ) from None
        if not isinstance(text, str):
            raise ValueError("no schema in the answer")  # noqa: TRY004 - a wrong answer, not a wrong call
        return text


def _errand(schema_id: int) -> Errand:
    return Errand(f"the question for schema {schema_id}", "records with that schema cannot be read")
