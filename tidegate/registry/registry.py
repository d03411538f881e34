"""Reads a registry for readers of feeds: finds a schema's text by the id in a record, and a schema's id."""

from __future__ import annotations

import logging
import time
from typing import Final

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tidegate.access.destinations import Destinations
from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.encoding.confluent import MAX_SCHEMA_ID, SubjectSchema
from tidegate.errors import InputError, MalformedRecord, RegistryAway
from tidegate.registry.registry_connection import Client, RegistryConnection
from tidegate.registry.registry_faults import Errand, RegistryFaults
from tidegate.registry.shared_answers import SharedAnswers

#: A topic has two schemas for each version of its table and one for its markers. A text is some kilobytes
#: long.
_KEPT_SCHEMAS: Final = 1_000
#: Confluent's error codes. A 404 without one of them is not from a registry.
NO_SUBJECT: Final = 40401
NO_SCHEMA: Final = 40403
#: If a registry that has answered before is away, a reader repeats its question for so many seconds.
AWAY_S: Final = 60.0
_PAUSE_S: Final = 1.0

_log = logging.getLogger("tidegate.registry")


class SchemaReader:
    """Reads one registry and writes nothing to it, for any number of threads.

    Each answer is asked for once and on a connection of its own, so there is nothing to close. Every method
    raises ``RegistryAway`` and ``RegistryDenied``, at the latest after the registry's timeout. But once the
    registry has given a schema, ``schema_text`` goes on asking for another one for ``AWAY_S`` seconds. So a
    reader does not end when its registry is started again.
    """

    def __init__(self, uri: RegistryUri, allowed: Destinations) -> None:
        """Raises ``StatementError`` for certificates that cannot be used."""
        RegistryConnection(uri, allowed).close()
        self._allowed = allowed
        self._uri = uri
        self._faults = RegistryFaults(uri)
        self._texts = SharedAnswers(self._read, keep=_KEPT_SCHEMAS, patience_s=uri.timeout_s)
        self._ids = SharedAnswers(self._find, keep=_KEPT_SCHEMAS, patience_s=uri.timeout_s)
        self._has_answered = False

    def __repr__(self) -> str:
        return f"SchemaReader({self._faults.shown})"

    def schema_text(self, schema_id: int) -> str:
        """Return the schema as JSON text.

        Raises ``MalformedRecord`` for an id that the registry does not have.
        """
        deadline = time.monotonic() + AWAY_S
        while True:
            try:
                text = self._text_now(schema_id)
            except RegistryAway as away:
                if not self._has_answered or time.monotonic() >= deadline:
                    raise
                _log.warning("a schema is asked for again: %s", away)
                time.sleep(_PAUSE_S)
            else:
                self._has_answered = True
                return text

    def _text_now(self, schema_id: int) -> str:
        try:
            return self._texts.get(schema_id)
        except TimeoutError:
            raise self._faults.late(_reading(schema_id)) from None

    def id_of(self, schema: SubjectSchema) -> int:
        """Return the id that a schema was registered with.

        Raises ``InputError`` if the schema is not registered under its subject.
        """
        try:
            return self._ids.get(schema)
        except TimeoutError:
            raise self._faults.late(_finding(schema)) from None

    def _read(self, schema_id: int) -> str:
        with RegistryConnection(self._uri, self._allowed) as connection:
            return connection.call(_reading(schema_id), lambda client: self._text(client, schema_id))

    def _text(self, client: Client, schema_id: int) -> str:
        try:
            text = client.get_schema(schema_id).schema_str
        except SchemaRegistryError as error:
            if error.error_code != NO_SCHEMA:
                raise
            raise MalformedRecord(
                f"the schema registry at {self._faults.shown} has no schema {schema_id}"
            ) from None
        if not isinstance(text, str):
            raise ValueError("no schema in the answer")  # noqa: TRY004 - a wrong answer, not a wrong call
        return text

    def _find(self, schema: SubjectSchema) -> int:
        with RegistryConnection(self._uri, self._allowed) as connection:
            return connection.call(_finding(schema), lambda client: self._id(client, schema))

    def _id(self, client: Client, schema: SubjectSchema) -> int:
        try:
            found = client.lookup_schema(schema.subject, ClientSchema(schema.text, "AVRO")).schema_id
        except SchemaRegistryError as error:
            if error.error_code not in (NO_SUBJECT, NO_SCHEMA):
                raise
            raise InputError(
                f"The schema registry at {self._faults.shown} does not have the feed's schema under the"
                f" subject {schema.subject}. So the feed has written no record with it. "
                f"Look whether this is the feed's registry. The schema is {schema.text}"
            ) from None
        return checked_id(found)


def checked_id(found: object) -> int:
    """Return the id in an answer. Raises ``ValueError`` for anything else."""
    if type(found) is not int or not 0 <= found <= MAX_SCHEMA_ID:  # bool is an int
        raise ValueError(f"{found!r} is no schema id")
    return found


def _reading(schema_id: int) -> Errand:
    return Errand(f"the question for schema {schema_id}", "records with that schema cannot be read")


def _finding(schema: SubjectSchema) -> Errand:
    return Errand(
        f"the question for a schema under the subject {schema.subject}",
        "records with that schema cannot be expected",
    )
