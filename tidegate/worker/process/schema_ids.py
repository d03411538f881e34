"""The ids of schemas, as everything that writes records with schemas asks for them.

One object of this kind serves all feeds and partitions of a worker (``Runtime.schema_ids``), so that a schema
is registered by one call. What stands behind it is the agents' (``schemas.schema_ids``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import SubjectSchema


@dataclass(frozen=True, slots=True)
class RegistryWait:
    """A feed that waits for its schema registry.

    ``registry`` is its URL without secrets and parameters. ``cause`` is why the last of ``tries`` calls gave
    nothing, empty while the first one is on its way. ``since`` is monotonic time.
    """

    feed_id: FeedId
    registry: str
    cause: str
    tries: int
    since: float


class SchemaIds(Protocol):
    """Schema ids of the registries that feeds name by ``url``, which may hold secrets.

    Each method but ``known`` is the event loop's.
    """

    def known(self, url: str, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int] | None:
        """The ids when all of them are known without a call, else ``None``. From any thread; never blocks."""

    async def ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """The ids, registered where they are not yet known.

        While the registry is away or lets us not in this waits, and asks again for ever; the log, the
        metrics and ``waiting`` tell of it. Cancel it to give up. Raises ``SchemaRejected`` for a schema that
        the registry will not take.
        """

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        """The same by one try, after it was made sure that the registry is one and lets us in.

        Raises ``RegistryAway``, ``RegistryDenied`` or ``SchemaRejected``.
        """

    def waiting(self) -> tuple[RegistryWait, ...]:
        """Who waits in ``ids`` at the moment."""

    def close(self) -> None:
        """Ask nothing more; calls under way are left to themselves."""
