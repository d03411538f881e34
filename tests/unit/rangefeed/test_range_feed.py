"""The feeds of one range: order, bounds, ends. The rules that have vectors are in tests/conformance too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rangefeed.feeding import (
    RANGE,
    T1,
    T2,
    at,
    checkpoint,
    closed,
    commit,
    intent,
    range_feed,
    register,
    taken,
    value,
    write,
)
from tidegate.errors import ForbiddenOp, InlineValue, MalformedEntry, StartBelowGC
from tidegate.hlc import MAX, Timestamp
from tidegate.raftlog.entry import AbortTxn, CommitIntent, DeleteRange, TxnId, UpdateIntent, WriteValue
from tidegate.rangefeed.event import CheckpointEvent, DeleteRangeEvent, FeedEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.feed_end import Again, EndReason, FeedEnd
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig, WhenFull
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.ranges.push_attempt import TXNS_PER_PUSH_MAX, PushAnswer, PushTarget, TxnStatus
from tidegate.spans import Span

WHOLE = FeedRequest(RANGE)


# ---- order ----


def test_a_checkpoint_comes_right_behind_the_op_that_allowed_it() -> None:
    feeds = range_feed()
    feed = register(feeds, WHOLE)
    feeds.offer_ops([intent(T1, 10)])
    feeds.offer_closed(closed(20))
    feeds.offer_ops([commit(T1, "k", 15), write("m", 30)])
    assert taken(feed) == [
        checkpoint(RANGE, 9),
        value("k", 15),
        checkpoint(RANGE, 20),
        value("m", 30),
    ]


def test_the_first_event_is_a_checkpoint_even_at_zero_and_marks_the_steady_state() -> None:
    feeds = RangeFeed(RANGE)
    feed = feeds.register(WHOLE)
    assert feed is not None
    assert not feed.steady
    assert taken(feed) == [checkpoint(RANGE, 0)]
    assert feed.steady


@pytest.mark.parametrize("wall", [0, 20])
def test_with_the_intents_that_are_older_than_the_log_a_feed_is_resolved(wall: int) -> None:
    feeds = RangeFeed(RANGE)
    feed = register(feeds, WHOLE)
    feeds.offer_closed(closed(wall))
    feeds.offer_ops([intent(T2, 10)])
    assert taken(feed) == []
    assert feeds.initialise([intent(T1, 5)])
    assert taken(feed) == ([checkpoint(RANGE, 4)] if wall else [])
    feeds.offer_closed(closed(30))
    feeds.offer_ops([AbortTxn(T1)])
    assert taken(feed)[-1] == checkpoint(RANGE, 9)


def test_a_feed_first_gives_what_it_missed_and_then_what_came_meanwhile() -> None:
    feeds = range_feed()
    feeds.offer_ops([write("b", 5)])
    feed = feeds.register(WHOLE._replace(start=at(1)), [value("b", 5)])
    assert feed is not None
    feeds.offer_ops([write("c", 6)])
    assert feed.take(1) == [value("b", 5)]
    assert not feed.steady
    assert taken(feed) == [checkpoint(RANGE, 0), value("c", 6)]


def test_a_feed_that_starts_at_zero_has_no_catch_up() -> None:
    feed = range_feed().register(WHOLE, [value("b", 5)])
    assert feed is not None
    assert taken(feed) == [checkpoint(RANGE, 0)]


def test_a_catch_up_that_fails_ends_its_feed_behind_what_it_gave() -> None:
    def failing() -> Iterator[FeedEvent]:
        yield value("b", 5)
        raise InlineValue("no timestamp")

    feeds = range_feed()
    other = register(feeds, WHOLE)
    feed = feeds.register(WHOLE._replace(start=at(1)), failing())
    assert feed is not None
    assert taken(feed) == [value("b", 5)]
    assert feed.ended == FeedEnd(EndReason.FAILED, "no timestamp")
    assert other.ended is None


# ---- routing ----


def test_deletions_of_ranges_are_clipped_and_files_are_not() -> None:
    feeds = range_feed()
    feed = register(feeds, FeedRequest(Span(b"c", b"f")))
    file = SSTableEvent(Span(b"b", b"x"), at(9), b"data")
    feeds.offer_ops([DeleteRange(b"a", b"d", at(8)), DeleteRange(b"f", b"g", at(8))])
    feeds.offer_sstable(file)
    assert taken(feed) == [DeleteRangeEvent(Span(b"c", b"d"), at(8)), file]


def test_a_deletion_at_or_below_the_start_is_not_the_feeds() -> None:
    feeds = range_feed()
    late = register(feeds, WHOLE._replace(start=at(9)))
    early = register(feeds, WHOLE._replace(start=at(8)))
    feeds.offer_ops([DeleteRange(b"a", b"d", at(9))])
    assert (len(taken(late)), len(taken(early))) == (0, 1)


def test_an_empty_previous_value_is_none() -> None:
    feeds = range_feed()
    feed = register(feeds, WHOLE._replace(with_diff=True))
    feeds.offer_ops([write("b", 5, prev=""), write("b", 6, prev="old")])
    assert taken(feed) == [value("b", 5), value("b", 6, prev="old")]


_keys = st.sampled_from([b"b", b"c", b"d", b"e"])
_requests = st.builds(
    FeedRequest,
    st.tuples(_keys, _keys).filter(lambda keys: keys[0] < keys[1]).map(lambda keys: Span(*keys)),
    st.integers(0, 6).map(Timestamp),
    with_diff=st.booleans(),
    with_filtering=st.booleans(),
    omit_remote=st.booleans(),
)
_writes = st.builds(
    WriteValue,
    _keys,
    st.integers(1, 12).map(Timestamp),
    st.just(b"v"),
    st.sampled_from([None, b"", b"old"]),
    st.booleans(),
    st.integers(0, 1),
)


def wants(request: FeedRequest, op: WriteValue) -> bool:
    """The rule, word for word."""
    return (
        request.span.contains(op.key)
        and op.timestamp > request.start
        and not (op.omit_in_rangefeeds and request.with_filtering)
        and not (op.origin_id != 0 and request.omit_remote)
    )


@given(st.lists(_requests, min_size=1, max_size=6), st.lists(_writes, max_size=8))
def test_every_feed_receives_what_it_asked_for_and_nothing_else(
    requests: list[FeedRequest], ops: list[WriteValue]
) -> None:
    feeds = range_feed()
    registered = [register(feeds, request) for request in requests]
    feeds.offer_ops(ops)
    for request, feed in zip(requests, registered, strict=True):
        expected = [
            ValueEvent(op.key, op.timestamp, b"v", (op.prev_value or None) if request.with_diff else None)
            for op in ops
            if wants(request, op)
        ]
        assert taken(feed) == expected
        assert feeds.needs_value(request.span)
    assert feeds.needs_previous(RANGE) is any(request.with_diff for request in requests)


# ---- what the log may not say ----


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        (write("b", 10), ForbiddenOp),
        (write("A", 11), MalformedEntry),
        (write("z", 11), MalformedEntry),
        (commit(T1, "zz", 11), MalformedEntry),
        (DeleteRange(b"b", b"zz", at(11)), MalformedEntry),
        (DeleteRange(b"A", b"b", at(11)), MalformedEntry),
        (WriteValue(b"b", at(11), None), MalformedEntry),
    ],
)
@pytest.mark.parametrize("when_full", WhenFull)
def test_a_fault_of_the_log_ends_all_feeds_and_none_of_them_sees_it(
    op: WriteValue | CommitIntent | DeleteRange, fault: type[Exception], when_full: WhenFull
) -> None:
    feeds = range_feed(when_full=when_full)
    feed = register(feeds, WHOLE)
    feeds.offer_closed(closed(10))
    taken(feed)
    with pytest.raises(fault):
        feeds.offer_ops([op])
    assert feed.ended is not None
    assert feed.ended.reason is EndReason.FAILED
    assert taken(feed) == []
    assert not feeds.offer_closed(closed(12))


def test_the_whole_range_may_be_written() -> None:
    feeds = range_feed()
    feed = register(feeds, WHOLE)
    feeds.offer_ops([write("a", 1), write("yz", 2), DeleteRange(b"a", b"z", at(3))])
    assert taken(feed) == [value("a", 1), value("yz", 2), DeleteRangeEvent(RANGE, at(3))]


def test_a_value_that_is_missing_is_no_fault_where_no_feed_looks() -> None:
    feeds = range_feed()
    feed = register(feeds, FeedRequest(Span(b"c", b"d")))
    assert feeds.offer_ops([WriteValue(b"b", at(11), None), write("c", 12)])
    assert taken(feed) == [value("c", 12)]


def test_a_commit_at_or_below_the_resolved_timestamp_is_counted() -> None:
    feeds = range_feed()
    feed = register(feeds, WHOLE)
    feeds.offer_closed(closed(10))
    feeds.offer_ops([*(commit(T1, "k", wall) for wall in (9, 10, 11)), write("k", 12), write("k", 13)])
    assert len(taken(feed)) == 6
    assert feeds.late_commits == 2


def test_a_late_commit_counts_though_its_value_is_missing_and_nobody_wants_it() -> None:
    feeds = range_feed()
    register(feeds, FeedRequest(Span(b"c", b"d")))
    feeds.offer_closed(closed(10))
    assert feeds.offer_ops([commit(T1, "b", 9)._replace(value=None)])
    assert feeds.late_commits == 1


# ---- bounds ----


def test_a_feed_that_is_not_read_ends_behind_what_had_room_and_harms_no_other() -> None:
    feeds = range_feed(buffered=3)
    slow, quick = register(feeds, WHOLE), register(feeds, WHOLE)
    received: list[FeedEvent] = []
    for wall in range(1, 6):
        feeds.offer_ops([write("k", wall)])
        received += quick.take(10)
    assert received == [value("k", wall) for wall in range(1, 6)]
    assert (len(feeds.feeds), slow.ended) == (2, None)
    assert taken(slow) == [value("k", wall) for wall in range(1, 4)]
    assert slow.ended is not None
    assert (slow.ended.reason, slow.ended.again) == (EndReason.SLOW_CONSUMER, Again.SAME_SPAN)
    assert (len(feeds.feeds), feeds.counters.slow_consumers) == (1, 1)


def test_a_feed_that_lost_an_event_receives_none_behind_it() -> None:
    feeds = range_feed(buffered=2)
    slow = register(feeds, WHOLE)
    register(feeds, WHOLE)
    feeds.offer_ops([write("k", wall) for wall in (1, 2, 3)])
    assert slow.take(1) == [value("k", 1)]
    feeds.offer_ops([write("k", 4)])
    assert taken(slow) == [value("k", 2)]
    assert slow.ended is not None


def test_a_catch_up_is_read_in_as_many_pieces_as_its_reader_likes() -> None:
    feeds = range_feed()
    missed: list[FeedEvent] = [value("b", wall) for wall in range(2, 9)]
    feed = feeds.register(WHOLE._replace(start=at(1)), missed)
    assert feed is not None
    pieces = [feed.take(3) for _ in range(4)]
    assert [event for piece in pieces for event in piece] == [*missed, checkpoint(RANGE, 0)]
    assert [len(piece) for piece in pieces] == [3, 3, 2, 0]


def test_a_feed_that_overflows_while_it_catches_up_gets_its_catch_up_whole() -> None:
    feeds = range_feed(buffered=2)
    feed = feeds.register(WHOLE._replace(start=at(1)), [value("b", wall) for wall in range(2, 7)])
    assert feed is not None
    for wall in range(7, 10):
        feeds.offer_ops([write("k", wall)])
    assert taken(feed) == [*(value("b", wall) for wall in range(2, 7)), checkpoint(RANGE, 0), value("k", 7)]
    assert feed.ended is not None


def test_what_is_refused_is_not_lost_and_comes_in_order_once_there_is_room() -> None:
    feeds = range_feed(buffered=1, pending=1, when_full=WhenFull.REFUSE)
    feed = register(feeds, WHOLE)
    ops = [write("k", wall) for wall in range(1, 8)]
    offered = 0
    received: list[FeedEvent] = []
    while len(received) < len(ops):
        while offered < len(ops) and feeds.offer_ops([ops[offered]]):
            offered += 1
        assert len(feed.buffer) <= 1
        assert offered <= len(received) + 3  # one waits for its reader, one for room, one is pending
        received += feed.take(1)
        feeds.run()
    assert received == [value("k", wall) for wall in range(1, 8)]
    assert feed.ended is None


def test_room_that_a_reader_made_counts_for_the_next_input() -> None:
    feeds = range_feed(buffered=1, pending=1, when_full=WhenFull.REFUSE)
    feed = register(feeds, WHOLE)
    assert [feeds.offer_ops([write("k", wall)]) for wall in (1, 2, 3, 4)] == [True, True, True, False]
    assert feed.take(1) == [value("k", 1)]
    assert feeds.offer_ops([write("k", 4)])


def test_all_inputs_that_have_room_are_processed_at_once() -> None:
    feeds = range_feed(buffered=3, when_full=WhenFull.REFUSE)
    feed = register(feeds, WHOLE)
    for wall in range(1, 8):
        assert feeds.offer_ops([write("k", wall)])
    received = []
    for _ in range(3):
        received.append(taken(feed))
        feeds.run()
    assert received == [[value("k", wall) for wall in walls] for walls in ((1, 2, 3), (4, 5, 6), (7,))]


def test_a_command_larger_than_every_buffer_goes_through_piece_by_piece() -> None:
    feeds = range_feed(buffered=2, pending=1, when_full=WhenFull.REFUSE)
    feed = register(feeds, WHOLE)
    assert feeds.offer_ops([write("k", wall) for wall in range(1, 10)])
    received: list[FeedEvent] = []
    while events := feed.take(2):
        received += events
        feeds.run()
    assert received == [value("k", wall) for wall in range(1, 10)]


def test_a_feed_does_not_see_what_was_taken_in_before_it() -> None:
    feeds = range_feed(buffered=1, pending=4, when_full=WhenFull.REFUSE)
    first = register(feeds, WHOLE)
    feeds.offer_ops([write("k", 1), write("k", 2)])
    second = feeds.register(WHOLE)
    assert second is not None
    assert taken(second) == []
    feeds.offer_ops([write("k", 3)])
    received: list[FeedEvent] = []
    seen: list[FeedEvent] = []
    for _ in range(6):
        received += first.take(1)
        seen += second.take(1)
        feeds.run()
    assert received == [value("k", wall) for wall in (1, 2, 3)]
    assert seen == [checkpoint(RANGE, 0), value("k", 3)]


# ---- ends ----


def test_a_feed_that_waits_to_begin_ends_with_the_others() -> None:
    feeds = range_feed(buffered=1, when_full=WhenFull.REFUSE)
    register(feeds, WHOLE)
    feeds.offer_ops([write("k", 1), write("k", 2)])
    waiting = feeds.register(WHOLE)
    assert waiting is not None
    feeds.stop(FeedEnd(EndReason.RANGE_SPLIT))
    assert waiting.ended == FeedEnd(EndReason.RANGE_SPLIT)


def test_when_the_last_feed_ends_the_ranges_feeds_are_over() -> None:
    feeds = range_feed()
    one, other = register(feeds, WHOLE), register(feeds, WHOLE)
    feeds.offer_ops([intent(T1, 5)])
    one.end(FeedEnd(EndReason.CANCELLED))
    assert feeds.offer_ops([write("k", 6)])
    other.end(FeedEnd(EndReason.CANCELLED))
    assert not feeds.offer_ops([write("k", 7)])
    assert feeds.register(WHOLE) is None
    assert len(feeds.resolver.queue) == 0


@pytest.mark.parametrize("when_full", WhenFull)
def test_the_first_end_of_a_ranges_feeds_counts_and_nothing_is_taken_after_it(when_full: WhenFull) -> None:
    feeds = range_feed(when_full=when_full)
    feed = register(feeds, WHOLE)
    assert feeds.offer_closed(closed(0))  # closes nothing
    assert taken(feed) == []
    feeds.stop(FeedEnd(EndReason.RANGE_SPLIT))
    feeds.stop(FeedEnd(EndReason.CANCELLED))
    assert feeds.ended == feed.ended == FeedEnd(EndReason.RANGE_SPLIT)
    assert not feeds.offer_closed(closed(0))
    assert not feeds.offer_closed(closed(5))
    assert not feeds.offer_ops([write("k", 6)])


def test_a_feed_that_ended_receives_nothing_and_keeps_its_first_reason() -> None:
    feeds = range_feed()
    feed = register(feeds, WHOLE)
    register(feeds, WHOLE)
    feeds.offer_ops([write("k", 1)])
    feed.end(FeedEnd(EndReason.CANCELLED))
    feeds.stop(FeedEnd(EndReason.RANGE_SPLIT))
    assert taken(feed) == []
    assert feed.ended == FeedEnd(EndReason.CANCELLED)


def test_rewritten_history_ends_the_feeds_that_look_at_it() -> None:
    feeds = range_feed()
    left, right = (
        register(feeds, FeedRequest(Span(b"a", b"f"))),
        register(feeds, FeedRequest(Span(b"f", b"z"))),
    )
    feeds.disconnect(Span(b"g", b"h"), FeedEnd(EndReason.HISTORY_MUTATED))
    assert left.ended is None
    assert right.ended is not None
    assert right.ended.again is Again.NEVER


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        (EndReason.RANGE_SPLIT, Again.NEW_BOUNDARIES),
        (EndReason.RANGE_MERGED, Again.NEW_BOUNDARIES),
        (EndReason.NO_LEASEHOLDER, Again.NEW_BOUNDARIES),
        (EndReason.RAFT_SNAPSHOT, Again.SAME_SPAN),
        (EndReason.LOGICAL_OPS_MISSING, Again.SAME_SPAN),
        (EndReason.FAILED, Again.NEVER),
    ],
)
def test_an_end_says_how_to_begin_again(reason: EndReason, again: Again) -> None:
    assert FeedEnd(reason).again is again


@pytest.mark.parametrize(("start", "refused"), [(0, False), (9, True), (10, True), (11, False)])
def test_a_start_must_be_above_the_gc_threshold_unless_it_is_zero(start: int, refused: bool) -> None:
    feeds = range_feed()
    feeds.gc_threshold = at(10)
    if not refused:
        assert isinstance(feeds.register(WHOLE._replace(start=at(start))), Registration)
        return
    with pytest.raises(StartBelowGC, match=rf"start at {at(start)}.*GC threshold 10\.0000000000"):
        feeds.register(WHOLE._replace(start=at(start)))


@pytest.mark.parametrize("span", [Span(b"A", b"c"), Span(b"y", b"zz"), Span(b"c", b"c")])
def test_a_feed_of_keys_that_the_range_does_not_hold_is_refused(span: Span) -> None:
    with pytest.raises(ValueError, match="not within the range"):
        range_feed().register(FeedRequest(span))


# ---- pushes ----


def pushing() -> tuple[RangeFeed, Registration]:
    feeds = range_feed()
    feed = register(feeds, WHOLE)
    feeds.offer_ops([intent(T1, 10), intent(T2, 20)])
    feeds.offer_closed(closed(50))
    taken(feed)
    return feeds, feed


def names(feeds: RangeFeed, older_than: Timestamp = MAX) -> list[bytes]:
    return [txn.txn_id for txn in feeds.begin_push(older_than)]


def test_one_push_at_a_time_for_what_is_strictly_older() -> None:
    feeds, _ = pushing()
    assert names(feeds, at(10)) == []
    assert names(feeds, at(20)) == [T1]
    assert names(feeds) == []
    feeds.finish_push(None)
    assert names(feeds) == [T1, T2]


def test_a_push_names_the_oldest_up_to_its_bound_and_the_next_one_the_others() -> None:
    assert RangeFeedConfig().txns_per_push_max == TXNS_PER_PUSH_MAX
    third = TxnId(b"3" * 16)
    feeds = RangeFeed(RANGE, config=RangeFeedConfig(txns_per_push_max=2))
    feeds.initialise()
    register(feeds, WHOLE)
    feeds.offer_ops([intent(T2, 20), intent(T1, 10), intent(third, 30)])
    assert names(feeds) == [T1, T2]
    feeds.finish_push(PushAnswer(tuple(PushTarget(txn, TxnStatus.ABORTED, at(20)) for txn in (T1, T2))))
    assert names(feeds) == [third]


def test_a_committed_transaction_stays_until_its_commits_come_and_an_aborted_one_goes() -> None:
    feeds, feed = pushing()
    names(feeds)
    answer = PushAnswer(
        (
            PushTarget(T1, TxnStatus.COMMITTED, at(30), (Span(b"A", b"c"), Span(b"zz", b"zzz"))),
            PushTarget(T2, TxnStatus.ABORTED, at(20), (Span(b"d", b"e"),)),
        )
    )
    resolutions = feeds.finish_push(answer)
    assert [(item.txn_id, item.span) for item in resolutions] == [
        (T1, Span(b"a", b"c")),
        (T2, Span(b"d", b"e")),
    ]
    assert taken(feed) == [checkpoint(RANGE, 19), checkpoint(RANGE, 29)]
    feeds.offer_ops([commit(T1, "b", 30)])
    assert taken(feed) == [value("b", 30), checkpoint(RANGE, 50)]


def test_an_abort_that_was_only_concluded_is_not_believed_without_a_barrier() -> None:
    feeds, feed = pushing()
    answer = PushAnswer((PushTarget(T1, TxnStatus.ABORTED, at(10)),), ambiguous_abort=True)
    names(feeds, at(20))
    assert feeds.finish_push(answer) == ()
    assert taken(feed) == []
    names(feeds, at(20))
    feeds.finish_push(answer, barrier_passed=True)
    assert taken(feed) == [checkpoint(RANGE, 19)]


def test_an_answer_must_name_as_many_transactions_as_were_pushed() -> None:
    feeds, _ = pushing()
    names(feeds)
    with pytest.raises(ValueError, match="2 transactions were pushed, the answer has 0"):
        feeds.finish_push(PushAnswer(()))


def test_a_transaction_that_writes_again_after_its_abort_is_tracked_again() -> None:
    feeds, feed = pushing()
    feeds.offer_ops([AbortTxn(T1), AbortTxn(T2), intent(T1, 60), UpdateIntent(T2, at(70))])
    feeds.offer_closed(closed(90))
    assert [event for event in taken(feed) if isinstance(event, CheckpointEvent)][-1] == checkpoint(RANGE, 59)
    assert names(feeds) == [T1]
