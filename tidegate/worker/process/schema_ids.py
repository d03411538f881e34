"""The interface by which all writers of records with schemas ask for the ids of these schemas.

One object of this kind serves all feeds and partitions of a worker (``Runtime.schema_ids``), so that one call
registers a schema. ``schemas.schema_ids`` implements it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema


@dataclass(frozen=True, slots=True)
class RegistryWait:
    """A feed that waits for its schema registry.

    ``registry`` is its URL without secrets and parameters. ``cause`` is why the last of ``tries`` calls
    failed; empty during the first call. ``since`` is the monotonic time, in seconds, at which the wait began.
    """

    feed_id: FeedId
    registry: str
    cause: str
    tries: int
    since: float


class SchemaIds(Protocol):
    """The ids that registries have given to schemas. ``url`` names a feed's registry, and may hold secrets.

    Only the event loop calls the methods, except ``known``.
    """

    def known(self, url: str, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int] | None:
        """Return the ids if all are known without a call, else ``None``.

        Never blocks; any thread may call it.
        """

    async def ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """Return the ids; schemas whose ids are not known yet are registered.

        While the registry is away, or refuses our login, this waits and asks again without limit. The log,
        the metrics and ``waiting`` tell of the wait. Cancel the task to give up. Raises ``SchemaRejected``
        for a schema that the registry refuses.
        """

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """Return the ids as ``ids`` does, but try only once.

        First it makes sure that the URL is that of a registry, and that the registry accepts our login.
        Raises ``RegistryAway`` if the registry does not answer, ``RegistryDenied`` if it refuses the login,
        and ``SchemaRejected`` if it refuses a schema, or if the URL cannot be that of a registry.
        """

    async def require_new(self, url: str, subjects: NewSubjects) -> None:
        """Raise ``FeedError`` for a subject under which others have registered schemas. It tries only once.

        Raises ``RegistryAway`` and ``RegistryDenied`` as ``try_ids`` does.
        """

    def waiting(self) -> tuple[RegistryWait, ...]:
        """Return the feeds that wait in ``ids`` now."""

    def close_unused(self, urls: Collection[str]) -> None:
        """Close the connections to registries that neither this call nor the call before has named.

        ``urls`` are the registries of live feeds. The connection to a registry that is being asked stays
        open. A feed that comes back opens a new one.
        """

    def close(self) -> None:
        """Ask no more. Calls that are under way are not waited for."""
