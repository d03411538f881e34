"""The interface between fronts and subscriptions. It knows nothing of Kafka and of clients' protocols.

The fronts (`postgres`, `web`) speak to clients. The classes that implement these protocols read topics. They
may share one reader and one table of rows by key between all streams of a table, and give the same batch
object to several of them. A batch is then encoded once for each form (`encoded_batches`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from tidegate.serve.metrics import ServeCounts
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.statement.switches import SubscribeSwitches
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.relation import Relations


class ShownType(enum.Enum):
    """The type that clients are told for a column. The value is its name in PostgreSQL.

    The values of some types have texts that PostgreSQL's clients could not read as that type. A column of
    such a type is ``TEXT``.
    """

    BOOL = "bool"
    INT8 = "int8"
    FLOAT8 = "float8"
    NUMERIC = "numeric"
    TEXT = "text"
    JSONB = "jsonb"
    BYTEA = "bytea"
    UUID = "uuid"


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """The columns of a stream's rows: their names and, in the same order, their types."""

    header: tuple[str, ...]
    types: tuple[ShownType, ...]


class SubscriptionStream(Protocol):
    """One open subscription of one client."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""

    @property
    def types(self) -> tuple[ShownType, ...]:
        """The types of the columns, in the same order."""

    async def next(self) -> SubscriptionBatch | None:
        """Return the next batch, as soon as there is one; ``None`` at the end, and at every later call.

        With PROGRESS the first batch is the opening: it has one progress row at AS OF, no snapshot and no
        token. A call that is cancelled loses no batch. Raises errors that have ``code`` and ``sqlstate``.

        A front calls this only when its client is ready. Until then the source waits, and drops nothing.
        """

    async def close(self) -> None:
        """End the subscription. A second call does nothing."""


class Subscriptions(Protocol):
    """All that can be subscribed to."""

    async def parse(self, text: str) -> SubscribeStatement:
        """Parse a statement, and let other clients go on meanwhile.

        Raises ``SubscribeStatementError``.
        """

    async def describe(
        self, statement: SubscribeStatement | str, *, dialect: Dialect = Dialect.TIDEGATE
    ) -> StreamColumns:
        """Return the columns that a statement's rows would have, without opening it.

        Raises ``SubscribeStatementError``.
        """

    async def open(
        self,
        statement: SubscribeStatement | str,
        *,
        token: str = "",
        dialect: Dialect = Dialect.TIDEGATE,
    ) -> SubscriptionStream:
        """Open a subscription. With ``token`` it goes on after the batch of that token, without a snapshot.

        Raises ``SubscribeStatementError``, ``TokenRefused``, ``HistoryLost``, ``ObjectDropped``.
        """

    async def relations(self) -> Relations:
        """Return the relations that statements can name now.

        Raises ``RetryError`` if they cannot be found out now.
        """

    counts: ServeCounts
    """The counts of what has happened since the server began; the fronts count there too."""

    switches: SubscribeSwitches
    """The outputs that statements may ask for."""

    def metrics(self) -> str:
        """Return all metrics in the text format of Prometheus."""

    async def close(self) -> None:
        """End all readers and all open streams."""
