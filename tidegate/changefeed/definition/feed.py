"""A feed: its definition, its targets and its states."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NewType

from tidegate.changefeed.definition.names import is_topic_name
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.definition.sink import SinkUri, parse_sink_uri
from tidegate.changefeed.definition.sql_identifier import quoted_identifier, sql_identifier
from tidegate.changefeed.definition.stored_fields import (
    MAX_EPOCH,
    MAX_INT32,
    flag,
    id_of_feed,
    items,
    members,
    plain_text,
    text,
    whole,
)
from tidegate.errors import StatementError
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.rows.descriptor import TableDescriptor
from tidegate.spans import Span

#: A feed's id: a short text that the client chooses. Ids sort by creation. ``feed_id`` makes one of a text.
FeedId = NewType("FeedId", str)
#: Counts a feed's definitions from 1. Targets and output partition counts change only in a new epoch.
FeedEpoch = NewType("FeedEpoch", int)

FIRST_EPOCH: Final = FeedEpoch(1)
#: The most partitions that a feed's topics may have together: a marker has a record for each of them.
PARTITIONS_MAX: Final = 1_048_576
_FEED_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Words that are reserved in tidegate's grammar of statements and not in SQL.
_OUR_WORDS: Final = frozenset({"database"})


def feed_id(text: str) -> FeedId:
    """Return the text as a feed id.

    Raises ``StatementError`` unless it is 1 to 64 letters, digits, ``_`` and ``-``.
    """
    if _FEED_ID.fullmatch(text) is None:
        raise StatementError(f"not a feed id: {text!r} (1 to 64 letters, digits, _ and -)")
    return FeedId(text)


class FeedState(enum.Enum):
    """The state of a feed. If CockroachDB has the same state, the word is CockroachDB's."""

    PENDING = "pending"
    """The feed is defined; not every log partition has taken it up yet."""
    STARTING = "starting"
    """The feed's start timestamp and targets are stored; not every log partition emits yet."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """Ended: everything that the feed had to emit is emitted."""
    FAILED = "failed"
    """Ended because the feed cannot go on. The reason is stored."""
    DROPPED = "dropped"
    """Ended by a user (CockroachDB: canceled)."""


class Engine(enum.Enum):
    """The engine that runs a feed.

    A feed has one engine at a time, and moves to another engine by a new epoch (docs/protocols/hand-over.md).
    """

    WORKERS = "workers"
    SPARK = "spark"
    BACKFILL = "backfill"
    """A batch job. It brings the feed up to a timestamp, and then moves it to workers or to Spark
    (docs/protocols/backfill.md)."""


#: The engines that may run a feed without a limit of time.
LASTING: Final = (Engine.WORKERS, Engine.SPARK)


#: States in which a feed emits nothing more. Its topics are free once every log partition has removed it.
ENDED: Final = frozenset({FeedState.SUCCEEDED, FeedState.FAILED, FeedState.DROPPED})
#: States in which a feed may emit rows and markers: its start and its targets are stored.
LIVE: Final = frozenset({FeedState.STARTING, FeedState.RUNNING})


class TableName(NamedTuple):
    """The full name of a table. ``a`` stands for ``defaultdb.public.a``, ``db.a`` for ``db.public.a``."""

    name: str
    schema: str = "public"
    database: str = "defaultdb"

    @classmethod
    def of(cls, table: TableDescriptor) -> TableName:
        """Return the name of a descriptor's table."""
        return cls(table.name, table.schema, table.database)

    def __str__(self) -> str:
        return ".".join(map(_identifier, (self.database, self.schema, self.name)))

    def to_json(self) -> list[str]:
        """Return the stored form: database, schema, name."""
        return [self.database, self.schema, self.name]

    @classmethod
    def from_json(cls, stored: list[str]) -> TableName:
        """Read the stored form. Raises ``ValueError`` for anything else."""
        database, schema, name = (plain_text(each, "a table's name") for each in stored)
        return cls(name, schema, database)


def _identifier(name: str) -> str:
    """Return the name as statements read it.

    A name with characters beyond ASCII is always quoted, since SQL reads some spaces there as letters.
    """
    if name.isascii() and name not in _OUR_WORDS:
        return sql_identifier(name)
    return quoted_identifier(name)


@dataclass(frozen=True, slots=True)
class AcceptedCluster:
    """The operator's permission for a feed to continue on another Kafka cluster
    (docs/protocols/accept-cluster.md).

    ``epoch`` is the feed's first epoch there. ``cluster`` is the cluster's id, empty for the engine's own.
    The feed writes every version above ``begin`` there. If ``begin`` is ``None``, it writes everything from
    its start on, its initial scan included. ``copied_above`` says that a mirror had brought the rows above
    this timestamp, up to ``begin``. If it is zero, the mirror had brought all rows up to ``begin``. If it is
    ``None``, the acceptance says nothing of a mirror. Acceptances that earlier versions stored are like that.
    """

    epoch: FeedEpoch
    cluster: str
    begin: Timestamp | None
    copied_above: Timestamp | None = None

    @property
    def complete_above(self) -> Timestamp | None:
        """The timestamp above which the cluster has all rows of the feed; ``None`` if it has them all."""
        if self.begin is None or self.copied_above == ZERO:
            return None
        return self.begin if self.copied_above is None else self.copied_above

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        begin = None if self.begin is None else self.begin.decimal()
        body = {"epoch": self.epoch, "cluster": self.cluster, "begin": begin}
        if self.copied_above is not None:
            body["copied_above"] = self.copied_above.decimal()
        return body

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> AcceptedCluster:
        """Read the stored form. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        begin, copied = stored["begin"], stored.get("copied_above")
        return cls(
            FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
            text(stored, "cluster"),
            None if begin is None else parse_decimal(begin),
            None if copied is None else parse_decimal(copied),
        )


@dataclass(frozen=True, slots=True)
class FeedDefinition:
    """A feed as the client asked for it.

    ``description`` is the statement without secrets and may be shown. ``sink_uri`` is what the user wrote: it
    has the secrets, and stays out of ``repr``. ``sink`` is the same URI, parsed. ``created_ns`` is the wall
    clock of the client at the creation of the feed, in nanoseconds. ``accepted`` is the last cluster that an
    operator has accepted, in this epoch or an earlier one. ``goes_on`` is only for engines. It says that rows
    of earlier epochs stand on the feed's topics, and that this epoch adds the rows above its start to them.
    """

    id: FeedId
    epoch: FeedEpoch
    description: str
    sink_uri: str = field(repr=False)
    tables: tuple[TableName, ...]
    options: FeedOptions
    created_ns: int
    engine: Engine = Engine.WORKERS
    accepted: AcceptedCluster | None = None
    goes_on: bool = False

    @property
    def sink(self) -> SinkUri:
        """The place that the feed's records go to. Raises ``StatementError`` for a URI that cannot be
        read."""
        return parse_sink_uri(self.sink_uri)

    @property
    def accepted_epoch(self) -> FeedEpoch | None:
        """The first epoch on the cluster that was accepted last; ``None`` when none was accepted."""
        return None if self.accepted is None else self.accepted.epoch

    @property
    def may_go_on(self) -> bool:
        """Whether earlier epochs may have written rows that count.

        If ``goes_on`` is true, they may. Definitions that earlier versions stored have no ``goes_on``. So a
        definition without it also counts as going on if it has a cursor and its epoch is not the first,
        unless this epoch begins anew on an accepted cluster.
        """
        if self.goes_on or self.epoch == FIRST_EPOCH or self.options.cursor is None:
            return self.goes_on
        return self.accepted is None or self.accepted.epoch != self.epoch or self.accepted.begin is not None

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        body: dict[str, Any] = {
            "id": self.id,
            "epoch": self.epoch,
            "description": self.description,
            "sink_uri": self.sink_uri,
            "tables": [table.to_json() for table in self.tables],
            "options": self.options.to_json(),
            "created_ns": self.created_ns,
            "engine": self.engine.value,
        }
        if self.accepted is not None:
            body["accepted"] = self.accepted.to_json()
        if self.goes_on:
            body["goes_on"] = True
        return body

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FeedDefinition:
        """Read the stored form. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        accepted = stored.get("accepted")
        return cls(
            id=FeedId(id_of_feed(stored, "id")),
            epoch=FeedEpoch(whole(stored, "epoch", 1, MAX_EPOCH)),
            description=text(stored, "description"),
            sink_uri=text(stored, "sink_uri"),
            tables=tuple(TableName.from_json(table) for table in items(stored, "tables")),
            options=FeedOptions.from_json(members(stored, "options")),
            created_ns=whole(stored, "created_ns"),
            engine=Engine(stored.get("engine", Engine.WORKERS.value)),
            accepted=None if accepted is None else AcceptedCluster.from_json(accepted),
            goes_on=flag(stored, "goes_on"),
        )


@dataclass(frozen=True, slots=True)
class FeedTarget:
    """A table of a feed as it was found when the feed began: id, topic, and the spans of its keys.

    ``partitions`` is the topic's partition count, which stays the same for the epoch.
    """

    table: TableName
    table_id: int
    topic: str
    partitions: int
    spans: tuple[Span, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; keys are hexadecimal."""
        return {
            "table": self.table.to_json(),
            "table_id": self.table_id,
            "topic": self.topic,
            "partitions": self.partitions,
            "spans": [[span.start.hex(), span.end.hex()] for span in self.spans],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FeedTarget:
        """Read the stored form. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
        return cls(
            table=TableName.from_json(stored["table"]),
            table_id=whole(stored, "table_id", 0),  # 0 stands for a survey of a log, which emits no rows
            topic=_topic(stored),
            partitions=whole(stored, "partitions", 1, MAX_INT32),
            spans=tuple(_span(*span) for span in items(stored, "spans")),
        )


def targets_from_json(stored: Mapping[str, Any]) -> tuple[FeedTarget, ...]:
    """Read a feed's targets, as ``FeedTarget.from_json`` does.

    Raises ``ValueError`` if their topics have too many partitions: a marker has a record for each.
    """
    targets = tuple(FeedTarget.from_json(target) for target in items(stored, "targets"))
    if sum(target.partitions for target in targets) > PARTITIONS_MAX:
        raise ValueError(f"topics of more than {PARTITIONS_MAX} partitions")
    return targets


def _topic(stored: Mapping[str, Any]) -> str:
    """Read a target's topic, which is empty in a survey of a log.

    Raises ``ValueError`` for a text that is no topic's name.
    """
    topic = text(stored, "topic")
    if topic and not is_topic_name(topic):
        raise ValueError("a target's topic is no name of a topic")
    return topic


def _span(start: str, end: str) -> Span:
    span = Span(bytes.fromhex(start), bytes.fromhex(end))
    span.validate()
    return span
