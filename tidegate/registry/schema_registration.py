"""Registers each schema once, before the first record that needs it, and keeps its id.

A registry is idempotent: the same schema under the same subject always has the same id. So workers need not
agree on who registers it, and a repeated batch is written with the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Final

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tidegate.access.destinations import Destinations
from tidegate.access.secret_store import Secrets
from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.errors import FeedError
from tidegate.registry.registry import NO_SCHEMA, NO_SUBJECT, checked_id
from tidegate.registry.registry_connection import Client, RegistryConnection
from tidegate.registry.registry_faults import Errand
from tidegate.registry.shared_answers import SharedAnswers

#: A table version has three schemas: for its key, its value and its markers. So this is enough for more than
#: a thousand table versions in use at a time. At some kilobytes for each schema this is some ten megabytes. A
#: schema that was forgotten costs one more call.
_KEPT_IDS: Final = 4_096


class SchemaRegistrar:
    """One schema registry, shared by all feeds and threads of this process. Its user has to close it.

    If ``allowed`` does not name the registry, every call raises ``RegistryNotAllowed``, and nothing is sent.
    Raises ``StatementError`` for certificates that cannot be used.
    """

    def __init__(self, uri: RegistryUri, allowed: Destinations, secrets: Secrets | None = None) -> None:
        self._connection = RegistryConnection(uri, allowed, secrets)
        self._ids = SharedAnswers(self._register, keep=_KEPT_IDS, patience_s=uri.timeout_s)
        self._checked = SharedAnswers(self._check, keep=0, patience_s=uri.timeout_s)
        self._counting = Lock()
        self._calls = 0

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._connection.faults.shown})"

    @property
    def calls(self) -> int:
        """The number of registrations that were asked for, failed ones included."""
        return self._calls

    def known(self, schema: SubjectSchema) -> int | None:
        """Return the schema's id if it has been asked for before. Never waits for the registry."""
        return self._ids.known(schema)

    def id_of(self, schema: SubjectSchema) -> int:
        """Return the schema's id. All threads that ask for it at the same time share one call.

        A thread waits at most for the registry's timeout. Raises ``RegistryAway`` and ``RegistryDenied``,
        after which the same call may be made again, and ``SchemaRejected``.
        """
        try:
            return self._ids.get(schema)
        except TimeoutError:
            raise self._connection.faults.late(_registering(schema)) from None

    def check(self) -> None:
        """Check that the address answers as a registry does, and accepts our login.

        Raises and waits as ``id_of`` does.
        """
        try:
            self._checked.get(_CHECKING)
        except TimeoutError:
            raise self._connection.faults.late(_CHECKING) from None

    def require_new(self, subjects: NewSubjects) -> None:
        """Raise ``FeedError`` for the first subject under which others have registered schemas.

        Makes a call for each subject. If a subject has just one version, makes further calls to see whether
        its schema is ours. ``RegistryConnection.call`` says how long a call may take. Raises ``RegistryAway``
        and ``RegistryDenied`` too.
        """
        for name in subjects.names:
            own = [schema for schema in subjects.own if schema.subject == name]
            if not self._connection.call(_looking_for(name), partial(_is_new, name, own)):
                raise FeedError(
                    f"the schema registry at {self._connection.faults.shown} has the subject {name} already, "
                    "and no feed of this application has registered a schema there: choose another "
                    "avro_schema_prefix, delete the subject where nobody needs it, or create the feed with "
                    "existing_topics='use', and it registers its schemas there beside whoever else does"
                )

    def close(self) -> None:
        """Close the connections to the registry."""
        self._connection.close()

    def _register(self, schema: SubjectSchema) -> int:
        with self._counting:
            self._calls += 1
        return self._connection.call(_registering(schema), lambda client: _registered(client, schema))

    def _check(self, errand: Errand) -> bool:
        return self._connection.call(errand, _takes_avro)


_CHECKING: Final = Errand("the question for its schema types", "feeds that use it wait")


def _looking_for(subject: str) -> Errand:
    return Errand(f"the question for the subject {subject}", "the feed does not begin")


def _registering(schema: SubjectSchema) -> Errand:
    return Errand(
        f"the registration of a schema under the subject {schema.subject}",
        "no record that needs the schema is written until it has its id, and tidegate goes on asking",
    )


def _registered(client: Client, schema: SubjectSchema) -> int:
    return checked_id(client.register_schema(schema.subject, ClientSchema(schema.text, "AVRO")))


def _takes_avro(client: Client) -> bool:
    types = client.get_schema_types()
    if not isinstance(types, list) or "AVRO" not in types:
        raise ValueError("AVRO is not among its schema types")
    return True


def _is_new(subject: str, own: Sequence[SubjectSchema], client: Client) -> bool:
    """Return whether the subject does not exist, or has one of our ``own`` schemas and no other."""
    try:
        versions = client.get_versions(subject)
    except SchemaRegistryError as error:
        if error.error_code != NO_SUBJECT:
            raise
        return True
    if not isinstance(versions, list):
        raise ValueError("no versions in the answer")  # noqa: TRY004 - a wrong answer, not a wrong call
    return not versions or (len(versions) == 1 and any(_has(client, schema) for schema in own))


def _has(client: Client, schema: SubjectSchema) -> bool:
    try:
        client.lookup_schema(schema.subject, ClientSchema(schema.text, "AVRO"))
    except SchemaRegistryError as error:
        if error.error_code not in (NO_SUBJECT, NO_SCHEMA):
            raise
        return False
    return True
