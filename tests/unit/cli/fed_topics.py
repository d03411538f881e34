"""Topics of a feed on a real broker; the test plays the worker."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sim.log.history import HistoryVersion
from tests.unit.client.feeds import definition, tell
from tests.unit.client.topics import create_topic, write
from tests.unit.verify.streams import at, everywhere, row
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedState, FeedTarget, TableName
from tidegate.changefeed.encoding.resolved_topic import offset_marker_value
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.client.jobs import jobs_topic
from tidegate.hlc import ResolvedTimestamp
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import BROADCAST, DescriptorUpdate
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    TableCodec,
    TableDescriptor,
    encode_descriptor,
    parse_sql_type,
)
from tidegate.verify import TopicRecord


class Topic:
    """A topic of two partitions and what is written to it."""

    config: ClassVar[dict[str, str]] = {}

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.kafka: tuple[str, ...] = ("--timeout", "60", "-b", bootstrap)
        create_topic(bootstrap, name, 2, **self.config)

    def row(self, key: int, ms: int) -> TopicRecord:
        return row(key, at(ms), self.name)

    def markers(self, ms: int) -> list[TopicRecord]:
        return everywhere(at(ms), {self.name: 2})

    def write(self, *records: TopicRecord) -> None:
        write(self.bootstrap, records)


TABLE = TableDescriptor(
    id=104,
    name="accounts",
    version=1,
    modified=at(1),
    columns=(
        Column(1, "k", parse_sql_type("INT8"), nullable=False),
        Column(2, "v", parse_sql_type("INT8")),
    ),
    primary_key=(KeyPart(1),),
    families=(Family(0, "primary", (1, 2)),),
)


class Fed(Topic):
    """A topic that a feed of ``TABLE`` writes from 2 ms on; the table stands in the log."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        super().__init__(bootstrap, f"{prefix}accounts")
        self.kafka = ("--timeout", "60", "-b", bootstrap, "--app-id", prefix)
        create_topic(bootstrap, jobs_topic(prefix), cleanup_policy="compact")
        create_topic(bootstrap, f"{prefix}raftlog")
        self._describe(prefix)
        self.targets = (FeedTarget(TableName("accounts"), TABLE.id, self.name, 2, ()),)
        self.prefix = prefix
        self.definition = feed = self._definition(prefix)
        state = StateRecord(feed.id, FIRST_EPOCH, FeedState.RUNNING, at(2), self.targets)
        tell(bootstrap, prefix, DefinitionRecord(feed), state)
        self.feed = ("--feed", feed.id)
        self.log = ("--topic-prefix", prefix)

    def _definition(self, prefix: str) -> FeedDefinition:
        return definition()

    def _describe(self, prefix: str) -> None:
        update = DescriptorUpdate(TABLE.id, 1, TABLE.modified, encode_descriptor(TABLE))
        value = encode_entry(update)
        self.write(TopicRecord(f"{prefix}raftlog", 0, -1, encode_key(BROADCAST), value, 1))

    def version(self, key: int, ms: int, value: int) -> HistoryVersion:
        stored_key, stored_value = TableCodec(TABLE).encode((key, value))
        return HistoryVersion(TABLE.id, stored_key, at(ms), stored_value)


def fed_row(fed: Fed, key: int, ms: int, value: int) -> TopicRecord:
    text = f'{{"after": {{"k": {key}, "v": {value}}}, "updated": "{at(ms)}"}}'
    return fed.row(key, ms)._replace(value=text.encode())


class FedAside(Fed):
    """The same with markers on a topic of their own, and rows on a compacted one."""

    config: ClassVar = {"cleanup_policy": "compact"}

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.aside = f"{prefix}markers"
        super().__init__(bootstrap, prefix)
        create_topic(bootstrap, self.aside, 2)

    def _definition(self, prefix: str) -> FeedDefinition:
        feed = super()._definition(prefix)
        return replace(feed, options=replace(feed.options, resolved_topic=self.aside))

    def both(self, ms: int, *ends: int) -> list[TopicRecord]:
        resolved = ResolvedTimestamp(at(ms))
        values = [offset_marker_value(resolved, {self.name: end}) for end in ends]
        return [TopicRecord(self.aside, i, -1, None, value, 0) for i, value in enumerate(values)]
