"""Messages about feeds that come while a batch waits for ids of its schemas
(docs/protocols/rows-with-schemas.md, step 2a)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import at
from tests.unit.worker.commit.hand_loop import settle
from tests.unit.worker.commit.schemed_loop import JSON, KEY, OLD, SCHEMED, VALUE, Owner, begun, run
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_store import HandSink, HandStore
from tidegate.changefeed.definition.feed import FeedEpoch
from tidegate.changefeed.lifecycle.control import Active, Register, Registered, Remove, Removed
from tidegate.processor.batch import ControlRecord
from tidegate.raftlog.entry import Offset


def test_a_feed_that_is_removed_while_it_waits_lets_the_others_go_on() -> None:
    """Its registry may never come back, and dropping the feed must help then."""

    async def scenario() -> None:
        owner = await begun()
        await owner.tell(Remove(SCHEMED.feed_id, SCHEMED.definition.epoch))
        await owner.queue_records(99)
        assert owner.sink.topics == ["plain"] * 8
        assert [type(ack) for ack in owner.store.acks if ack.feed_id == "schemed"][-1] is Removed
        assert owner.ids.open == []
        await owner.commit_loop.drain()

    run(scenario)


@pytest.mark.parametrize(
    "message", [Remove(JSON.feed_id, FeedEpoch(1)), Remove(SCHEMED.feed_id, FeedEpoch(0))]
)
def test_no_other_removal_ends_the_wait_of_a_feed(message: Remove) -> None:
    async def scenario() -> None:
        owner = await begun()
        await owner.tell(message)
        assert owner.commit_loop.waiting
        await owner.ids.give(KEY, VALUE)
        await settle()
        assert owner.sink.topics.count("s-plain") == 1
        await owner.commit_loop.drain()

    run(scenario)


def test_messages_about_feeds_are_taken_up_behind_the_batch_that_waits() -> None:
    async def scenario() -> None:
        owner = await begun()
        third = activation([OLD.descriptor], feed_id="third").definition
        await owner.tell(Register(third))
        assert not any(isinstance(ack, Registered) for ack in owner.store.acks)
        await owner.ids.give(KEY, VALUE)
        await settle()
        (answer,) = (ack for ack in owner.store.acks if isinstance(ack, Registered))
        assert answer.position == 3
        await owner.commit_loop.drain()

    run(scenario)


def test_what_is_repeated_while_a_batch_waits_is_kept_once() -> None:
    """The jobs agent repeats every 5 s what has no answer, and a registry may be away for days."""

    async def scenario() -> None:
        owner = await begun()
        third = activation([OLD.descriptor], feed_id="third")
        fourth = activation([OLD.descriptor], feed_id="fourth")
        for _ in range(50):
            await owner.tell(Register(third.definition), Register(fourth.definition))
        assert len(owner.commit_loop._input._controls) == 2
        await owner.ids.give(KEY, VALUE)
        await settle()
        answers = [ack.feed_id for ack in owner.store.acks if isinstance(ack, Registered)]
        assert answers == ["third", "fourth"]
        assert owner.processor.next_control_offset == 102
        await owner.commit_loop.drain()

    run(scenario)


def test_a_repeated_message_does_not_pass_one_that_came_between() -> None:
    async def scenario() -> None:
        owner = await begun()
        third = activation([OLD.descriptor], start=at(9), feed_id="third")
        await owner.tell(Register(third.definition), third, Register(third.definition))
        await owner.ids.give(KEY, VALUE)
        await settle()
        answers = [type(ack) for ack in owner.store.acks if ack.feed_id == "third"]
        assert answers == [Registered, Active, Active], "never an activation before the registration"
        await owner.commit_loop.drain()

    run(scenario)


def test_a_message_of_another_epoch_is_no_repetition() -> None:
    async def scenario() -> None:
        owner = await begun()
        third = activation([OLD.descriptor], feed_id="third").definition
        newer = replace(third, epoch=FeedEpoch(2))
        await owner.tell(Register(newer), Register(third))
        await owner.ids.give(KEY, VALUE)
        await settle()
        answers = [ack.epoch for ack in owner.store.acks if isinstance(ack, Registered)]
        assert answers == [2, 2], "the stale one is answered by the newer"
        await owner.commit_loop.drain()

    run(scenario)


def test_the_control_position_passes_over_nothing_that_still_waits() -> None:
    """A registration waits for the present, others do not: it is the last repetition that is read again."""

    async def scenario() -> None:
        owner = Owner(HandIds(), HandSink(), HandStore(), present=3)
        third = activation([OLD.descriptor], feed_id="third")
        await owner.tell(Register(third.definition), JSON, Register(third.definition))
        assert owner.processor.next_control_offset == 2, "behind the one, before the other"
        await owner.die()
        successor = Owner(HandIds(), owner.sink, owner.store)
        successor.commit_loop.control([ControlRecord(Offset(2), Register(third.definition))])
        await settle()
        assert [ack.feed_id for ack in owner.store.acks if isinstance(ack, Registered)] == ["third"]
        await successor.commit_loop.drain()

    run(scenario)


def test_a_registration_that_was_overtaken_is_taken_up_where_it_was_repeated() -> None:
    async def scenario() -> None:
        owner = Owner(HandIds(), HandSink(), HandStore(), present=3)
        third = activation([OLD.descriptor], feed_id="third")
        await owner.tell(Register(third.definition), JSON, Register(third.definition))
        await owner.queue_records(4)
        assert [ack.feed_id for ack in owner.store.acks if isinstance(ack, Registered)] == ["third"]
        await owner.commit_loop.drain()

    run(scenario)
