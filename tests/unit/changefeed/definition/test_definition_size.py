"""Every record of the jobs, control and answer topics fits, of the largest definition that is not refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, get_args

import pytest

from tests.feeds import WITH_MARKERS
from tidegate.changefeed.definition.definition_size import FEED_RECORD_BYTES, record_bytes, size_fault
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    FeedDefinition,
    FeedId,
    FeedState,
    FeedTarget,
    TableName,
)
from tidegate.changefeed.definition.names import TOPIC_NAME_LIMIT
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
    ack_key,
    control_key,
)
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    TakeoverRecord,
)
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.changefeed.lifecycle.registration import failed
from tidegate.changefeed.lifecycle.span_progress import spans_ahead
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.topic_ownership import check_sink
from tidegate.errors import FeedError, StatementError, brief
from tidegate.hlc import MAX, ResolvedTimestamp, Timestamp
from tidegate.processor.bounds import BOUNDS
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_ID: Final = FeedId("feed-" + "7" * 40)
_SINK: Final = "kafka://127.0.0.1:9092"
_LOG_PARTITIONS: Final = 1_000
_FRAME_BYTES: Final = 1_000  # of a record in Kafka, and of its batch


def _definition(tables: int, name_bytes: int = 5, statement: int = 0, letter: str = "t") -> FeedDefinition:
    names = tuple(TableName(f"{letter * name_bytes}{number}") for number in range(tables))
    text = "CREATE CHANGEFEED FOR TABLE " + ", ".join(map(str, names)) + " " + "x" * statement
    return FeedDefinition(_ID, FIRST_EPOCH, text, _SINK, names, WITH_MARKERS, 2**62)


def _largest(kind: str) -> FeedDefinition:
    """The largest definition of a kind that is not refused."""
    kinds: dict[str, Callable[[int], FeedDefinition]] = {
        "many tables": _definition,
        "long names": lambda size: _definition(size // 500 + 1, 1_000),
        "names beyond ASCII": lambda size: _definition(size // 500 + 1, 300, letter="\U0001d54b"),
        "a long statement": lambda size: _definition(3, statement=100 * size),
    }
    make = kinds[kind]
    low, high = 1, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if size_fault(make(middle)) else (middle, high)
    assert record_bytes(make(low)) > 0.9 * FEED_RECORD_BYTES
    return make(low)


def _targets(definition: FeedDefinition) -> tuple[FeedTarget, ...]:
    """Return the feed's tables with the longest topics, and the largest ids."""
    id_ = 2**62
    span = index_span(id_, 2**31)
    topic = "t" * TOPIC_NAME_LIMIT
    return tuple(FeedTarget(table, id_, topic, 100_000, (span,)) for table in definition.tables)


def _records(definition: FeedDefinition) -> Iterator[tuple[object, bytes, bytes]]:
    """Every record that is kept of a feed."""
    epoch, targets = definition.epoch, _targets(definition)
    resolved, reason = ResolvedTimestamp(Timestamp(2**62)), brief("\U0001d54b" * 10**6)
    positions = dict.fromkeys(range(_LOG_PARTITIONS), 2**62)
    pairs = [(b"%032d" % number, b"%032d" % (number + 1)) for number in range(0, 20_000, 2)]
    ahead = spans_ahead([(Span(*pair), Timestamp(2**62)) for pair in pairs], Timestamp(1))
    start = Timestamp(2**62, 7)
    topics = (OutputTopic("i" * 22, TopicOrigin.ANNOUNCED),) * (len(targets) + 1)
    jobs: list[JobRecord] = [
        DefinitionRecord(definition),
        DropRecord(_ID, 2**62),
        StateRecord(_ID, epoch, FeedState.FAILED, start, targets, positions, reason, "c" * 100, topics),
        ProgressRecord(_ID, epoch, resolved, positions),
        SpansRecord(_ID, epoch, ahead),
        TakeoverRecord(_ID, epoch, start, resolved, targets, "c" * 100, topics=topics),
    ]
    control: list[ControlMessage] = [
        Register(definition),
        Activate(definition, start, targets),
        Remove(_ID, epoch),
    ]
    known = tuple(KnownTable(table, 2**62) for table in definition.tables)
    acks: list[Ack] = [
        Registered(_ID, epoch, 999, 2**62, MAX, known, (reason,) * 3),
        Active(_ID, epoch, 999),
        Failed(_ID, epoch, 999, reason),
        Removed(_ID, epoch, 999),
    ]
    assert {type(each) for each in jobs} == set(get_args(JobRecord))
    assert {type(each) for each in control} == set(get_args(ControlMessage))
    assert {type(each) for each in acks} == set(get_args(Ack))
    for record in jobs:
        yield record, record.key, record.to_bytes()
    for message in control:
        yield message, control_key(message.feed_id), message.to_bytes()
    for ack in acks:
        yield ack, ack_key(ack), ack.to_bytes()


@pytest.mark.parametrize("kind", ["many tables", "long names", "names beyond ASCII", "a long statement"])
def test_every_record_of_the_largest_definition_fits(kind: str) -> None:
    definition = _largest(kind)
    for record, key, value in _records(definition):
        assert len(key) + len(value) + _FRAME_BYTES <= BOUNDS.record_bytes, type(record)


def test_a_statement_with_very_many_tables_is_refused_by_a_sentence() -> None:
    tables = ", ".join(f"table_{number}" for number in range(5_000))
    with pytest.raises(StatementError, match=r"with 5000 tables, is too large.*divide the tables") as refused:
        define_feed(f"CREATE CHANGEFEED FOR TABLE {tables} INTO '{_SINK}'", _ID, 1)
    assert len(str(refused.value)) < 1_000


def test_a_thousand_tables_are_not_too_many() -> None:
    tables = ", ".join(f"table_{number}" for number in range(1_000))
    defined = define_feed(f"CREATE CHANGEFEED FOR TABLE {tables} INTO '{_SINK}'", _ID, 1)
    assert len(defined.definition.tables) == 1_000


def test_a_definition_that_another_client_stored_fails_before_any_partition_is_told_of_it() -> None:
    with pytest.raises(FeedError, match="too large"):
        check_sink(_definition(5_000))
    check_sink(_definition(10))


def test_why_a_feed_failed_is_short_however_much_it_quotes() -> None:
    definition = replace(_definition(1), id=FeedId("one"))
    assert len(failed(definition, "no descriptor of table " + "x" * 10**6).error) == 1_000
