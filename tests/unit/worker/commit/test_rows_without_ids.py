"""Step 2a of one log partition: rows whose schemas a registry must give ids to before anything is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.logs import Record
from tests.unit.processor.schemed import (
    REGISTRY,
    schemas_for,
    schemed_options,
)
from tests.unit.worker.commit.hand_loop import settle
from tests.unit.worker.commit.schemed_loop import (
    JSON,
    KEY,
    NEW,
    OLD,
    OPTIONS,
    RECORDS,
    SCHEMED,
    VALUE,
    Owner,
    begun,
    run,
)
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_store import HandSink, HandStore
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.lifecycle.control import Failed, Remove, Removed
from tidegate.errors import FeedError
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.reference import ReferenceEngine
from tidegate.worker.commit.framing import Framing, Wanted
from tidegate.worker.kafka.fetched import FetchedBatch

_OTHER: Final = HandTable.of(105, "other")
_NEW_VALUE: Final = schemas_for(NEW.descriptor, OPTIONS).value


def test_nothing_of_a_batch_is_written_before_the_ids_of_all_its_schemas_are_there() -> None:
    async def scenario() -> None:
        owner = await begun()
        assert (owner.sink.rows, owner.store.offsets[-1]) == ([], 1)
        await owner.ids.give(KEY)
        await settle()
        assert (owner.sink.rows, owner.store.offsets[-1]) == ([], 1)
        await owner.ids.give(VALUE)
        await settle()
        assert sorted(owner.sink.topics) == ["plain", "s-plain"]
        assert owner.store.offsets[-1] == 2
        await owner.commit_loop.drain()

    run(scenario)


def test_the_registry_that_is_asked_is_the_one_that_the_feed_names() -> None:
    async def scenario() -> None:
        owner = await begun()
        assert owner.ids.asked == [(REGISTRY, SCHEMED.feed_id, KEY)]
        assert owner.ids.looked_up == {REGISTRY}, "feeds without schemas have none"
        await owner.commit_loop.drain()

    run(scenario)


def test_a_partition_tells_that_it_waits_and_that_it_goes_on() -> None:
    async def scenario() -> None:
        owner = await begun()
        states = [owner.commit_loop.waiting]
        await owner.ids.give(KEY, VALUE)
        await settle()
        assert [*states, owner.commit_loop.waiting] == [True, False]
        await owner.commit_loop.drain()

    run(scenario)


def test_ids_that_are_known_are_not_asked_for() -> None:
    async def scenario() -> None:
        owner = await begun()
        await owner.ids.give(KEY, VALUE)
        await settle()
        asked = len(owner.ids.asked)
        await owner.queue_records(4)
        assert owner.store.offsets[-1] == 6
        assert len(owner.ids.asked) == asked
        await owner.queue_records(1)
        assert owner.ids.asked[asked:] == [(REGISTRY, SCHEMED.feed_id, _NEW_VALUE)]
        await owner.commit_loop.drain()

    run(scenario)


def test_batches_before_the_one_that_waits_are_committed() -> None:
    async def scenario() -> None:
        owner = await begun(waits=True, inflight=9)
        await owner.ids.give(KEY, VALUE)
        await owner.queue_records(5)  # the last one waits for the new version
        owner.sink.acknowledge()
        await settle()
        assert (owner.commit_loop.waiting, owner.store.offsets[-1]) == (True, 6)
        await owner.commit_loop.drain()

    run(scenario)


def test_a_refused_feed_fails_in_the_transaction_of_the_batch_and_the_others_go_on() -> None:
    async def scenario() -> None:
        owner = await begun()
        await owner.ids.give(KEY)
        await owner.ids.refuse(VALUE, "409: not compatible")
        await settle()
        batch = owner.store.results[-1]
        assert batch.offset == 2
        assert [(ack.feed_id, ack.reason) for ack in batch.acks if isinstance(ack, Failed)] == [
            ("schemed", "409: not compatible")
        ]
        assert batch.checkpoint is not None
        assert [feed.feed_id for feed in batch.checkpoint.feeds] == ["json"]
        await owner.queue_records(99)
        assert owner.store.offsets[-1] == len(RECORDS) - 1
        assert owner.sink.topics == ["plain"] * 8
        await owner.commit_loop.drain()

    run(scenario)


def test_a_feed_that_is_removed_while_its_rows_wait_is_forgotten_and_has_not_failed() -> None:
    """A feed that goes on in another epoch is removed first. As one that failed it would never go on."""

    async def scenario() -> None:
        owner = await begun()
        await owner.tell(Remove(SCHEMED.feed_id, SCHEMED.definition.epoch))
        await settle()
        results = owner.store.results[-2:]  # the batch, and the step that takes the message up
        acks = [ack for result in results for ack in result.acks if ack.feed_id == SCHEMED.feed_id]
        assert acks
        assert all(isinstance(ack, Removed) and not ack.reason for ack in acks)
        assert not any(result.incidents for result in results)
        batch = results[0]
        assert batch.offset == 2
        assert batch.checkpoint is not None
        assert [feed.feed_id for feed in batch.checkpoint.feeds] == ["json"]
        await owner.queue_records(99)
        assert owner.sink.topics == ["plain"] * 8
        await owner.die()

    run(scenario)


def test_a_feed_that_is_refused_in_the_middle_keeps_what_it_has_written() -> None:
    async def scenario() -> None:
        owner = await begun()
        await owner.ids.give(KEY, VALUE)
        await owner.ids.refuse(_NEW_VALUE, "409")
        await owner.queue_records(99)
        assert owner.sink.topics.count("s-plain") == 4
        assert owner.sink.topics.count("plain") == 8
        await owner.commit_loop.drain()

    run(scenario)


def test_letting_go_of_a_partition_gives_the_waiting_batch_up_at_once() -> None:
    async def scenario() -> None:
        owner = await begun()
        await asyncio.wait_for(owner.commit_loop.drain(), 5)
        assert owner.store.offsets[-1] == 1
        assert owner.sink.rows == []
        await settle()
        assert owner.ids.open == [], "nobody asks for the lost partition any more"
        assert not owner.commit_loop.waiting

    run(scenario)


def test_what_was_in_flight_before_the_waiting_batch_becomes_durable_when_the_partition_is_let_go() -> None:
    async def scenario() -> None:
        owner = await begun(waits=True, inflight=9)
        await owner.ids.give(KEY, VALUE)
        await owner.queue_records(5)  # the last one waits for the new version
        draining = asyncio.ensure_future(owner.commit_loop.drain())
        await settle()
        assert (draining.done(), owner.store.offsets[-1]) == (False, 1)
        owner.sink.acknowledge()
        await draining
        assert owner.store.offsets[-1] == 6

    run(scenario)


def test_a_successor_repeats_the_batch_that_was_given_up() -> None:
    async def scenario() -> None:
        owner = await begun()
        await owner.commit_loop.drain()
        successor = Owner(HandIds(lambda _: True), owner.sink, owner.store)
        assert successor.next == 2
        await successor.queue_records(99)
        assert _written(owner.sink) == _expected()
        await successor.commit_loop.drain()

    run(scenario)


def _unwritable() -> tuple[Record, ...]:
    """A row of the schemed feed that is fine, and one behind it that no feed of the table can read."""
    log = HandLog(partitions=1)
    log.describe(OLD, _OTHER)
    rows, others = log.open_range(1, OLD.span), log.open_range(2, _OTHER.span)
    rows.apply(OLD.put(1, 1, "fine"), close=1)
    rows.apply(OLD.put(2, 2, "x")._replace(value=b"\x00\x00\x00\x00\x0agarbage"), close=2)
    others.apply(_OTHER.put(3, 1, "beside"), close=3)
    return log.partitions[0]


@pytest.mark.parametrize("known", [False, True])
def test_a_feed_that_failed_in_the_step_waits_for_no_registry(known: bool) -> None:
    """Its rows before the fault are written only if that needs no question."""

    async def scenario() -> None:
        owner = Owner(HandIds(lambda _: known), HandSink(), HandStore())
        await owner.tell(SCHEMED, activation([_OTHER.descriptor], feed_id="beside"))
        records = _unwritable()
        owner.commit_loop.queue_batch(FetchedBatch("log", 0, 0, len(records), len(records), records))
        await settle()
        assert owner.ids.asked == []
        assert sorted(owner.sink.topics) == ["other", "s-plain"][: 2 if known else 1]
        batch = owner.store.results[-1]
        assert batch.offset == len(records) - 1
        assert [ack.feed_id for ack in batch.acks if isinstance(ack, Failed)] == ["schemed"]
        assert batch.checkpoint is not None
        assert [feed.feed_id for feed in batch.checkpoint.feeds] == ["beside"]
        await owner.commit_loop.drain()

    run(scenario)


def test_what_a_feed_waits_for_is_shown_without_its_registrys_password() -> None:
    wanted = Wanted(SCHEMED.feed_id, FeedEpoch(1), "http://user:hush@127.0.0.1:1", [])
    assert "hush" not in repr(wanted)


def test_of_two_feeds_that_wait_each_has_its_own_answer() -> None:
    async def scenario() -> None:
        other_options = schemed_options("o-")
        other = activation([OLD.descriptor], other_options, feed_id="other")
        owner = Owner(HandIds(), HandSink(), HandStore())
        await owner.tell(SCHEMED, other)
        await owner.queue_records(3)
        assert {feed_id for _, feed_id, _ in owner.ids.asked} == {"schemed", "other"}, "both are asked for"
        await owner.ids.refuse(schemas_for(OLD.descriptor, other_options).key, "422")
        await settle()
        assert owner.commit_loop.waiting
        await owner.ids.give(KEY, VALUE)
        await settle()
        assert owner.sink.topics == ["s-plain"]
        assert [ack.feed_id for ack in owner.store.acks if isinstance(ack, Failed)] == ["other"]
        await owner.commit_loop.drain()

    run(scenario)


# ---- any interleaving


def _expected() -> dict[tuple[str, int, bytes], list[bytes | None]]:
    engine = ReferenceEngine(1, [SCHEMED, JSON])
    engine.step(0, RECORDS)
    rows = (
        (place.topic, place.partition, record.key, record.value)
        for place, records in engine.output.items()
        for record in records
    )
    return _by_key((topic, partition, key, value) for topic, partition, key, value in rows if key is not None)


def _written(sink: HandSink) -> dict[tuple[str, int, bytes], list[bytes | None]]:
    return _by_key((row.topic, row.partition, row.key, row.value) for row in sink.rows)


def _by_key(
    rows: Iterator[tuple[str, int, bytes, bytes | None]] | Any,
) -> dict[tuple[str, int, bytes], list[bytes | None]]:
    """The values of each key in order, exact duplicates removed."""
    found: dict[tuple[str, int, bytes], list[bytes | None]] = {}
    for topic, partition, key, value in rows:
        values = found.setdefault((topic, partition, key), [])
        if value not in values:
            values.append(value)
    return found


_EVENTS: Final = st.one_of(
    st.tuples(st.just("queue_records"), st.integers(1, 4)),
    st.tuples(st.just("give"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["acknowledge", "let go", "die", "turn"]), st.just(0)),
)


@given(st.lists(_EVENTS, max_size=25))
def test_whatever_comes_in_whatever_order_the_output_is_the_reference_engines(
    actions: list[tuple[str, int]],
) -> None:
    """Records, ids, acknowledgements, releases and deaths: duplicates are exact, and nothing is missing."""

    async def scenario() -> None:
        store, sink = HandStore(), HandSink(waits=True)
        owner = Owner(HandIds(), sink, store)
        await owner.tell(SCHEMED, JSON)
        for action, number in actions:
            owner = await _act(owner, action, number)
        owner = await _act(owner, "die", 0)
        await owner.ids.give(KEY, VALUE, _NEW_VALUE)
        await owner.queue_records(99, batch=3)
        for _ in RECORDS:
            sink.acknowledge()
            await settle()
        await owner.commit_loop.drain()
        assert store.offsets[-1] == len(RECORDS) - 1
        assert store.offsets == sorted(store.offsets)
        assert _written(sink) == _expected()

    run(scenario)


async def _act(owner: Owner, action: str, number: int) -> Owner:
    ids, sink, store = owner.ids, owner.sink, owner.store
    match action:
        case "queue_records":
            await owner.queue_records(number, batch=2)
        case "give":
            await ids.give((KEY, VALUE, _NEW_VALUE)[number])
        case "acknowledge":
            sink.acknowledge()
        case "turn":
            await asyncio.sleep(0)
        case "let go":
            draining = asyncio.ensure_future(owner.commit_loop.drain())
            while not draining.done():
                sink.acknowledge()
                await asyncio.sleep(0)
            return Owner(HandIds(), sink, store)
        case "die":
            await owner.die()
            return Owner(HandIds(), sink, store)
    return owner


@given(st.lists(st.one_of(_EVENTS, st.tuples(st.just("refuse"), st.integers(0, 2))), min_size=5, max_size=25))
def test_whatever_is_refused_and_when_no_committed_checkpoint_names_a_feed_whose_rows_are_not_written(
    actions: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        store, sink = HandStore(), HandSink()
        owner = Owner(HandIds(), sink, store)
        await owner.tell(SCHEMED, JSON)
        for action, number in actions:
            if action == "refuse":
                await owner.ids.refuse((KEY, VALUE, _NEW_VALUE)[number], "409")
            else:
                owner = await _act(owner, action, number)
            await settle()
            assert _uncovered(sink, store) == []
        await owner.die()

    run(scenario)


def _uncovered(sink: HandSink, store: HandStore) -> list[tuple[str, int]]:
    """The rows, as topic and second, that a committed checkpoint speaks of and that nobody wrote."""
    written = {(row.topic, row.timestamp_ms) for row in sink.rows}
    topics = {SCHEMED.feed_id: "s-plain", JSON.feed_id: "plain"}
    promised = {
        (topics[feed.feed_id], second)
        for result in store.results
        if result.checkpoint is not None
        for feed in result.checkpoint.feeds
        for one in result.checkpoint.ranges
        for second in (1, 2, 3, 4, 6, 7, 8, 9)
        if at(second) <= one.resolved
    }
    return sorted((topic, second) for topic, second in promised if (topic, at(second).wall_ms) not in written)


def test_an_answer_of_a_registry_that_nobody_foresaw_fails_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ids(*_: object) -> None:
        raise RecursionError("an odd answer")

    async def scenario() -> None:
        registry = HandIds()
        monkeypatch.setattr(registry, "ids", ids)
        framing = Framing(PartitionProcessor(0, 1, ProcessorConfig()), registry)
        answer = await framing.ask(Wanted(SCHEMED.feed_id, FeedEpoch(1), REGISTRY, [KEY]))
        assert isinstance(answer, FeedError)
        assert "RecursionError (test_rows_without_ids.py" in str(answer)

    run(scenario)
