from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
    TakeoverRecord,
)
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.subscribe.feed_term import FeedTerm, OtherFeeds, other_feeds_of, term_of
from tidegate.errors import InputError
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp

_PETS: Final = HandTable.of(104, "pets").descriptor
_OWNERS: Final = HandTable.of(105, "owners").descriptor


def _jobs(*records: JobRecord) -> JobsView:
    view = JobsView()
    for record in records:
        view.apply(record.key, record.to_bytes())
    return view


def _feed(feed_id: str, start: int, high_water: int | None, *, table: object = _PETS) -> list[JobRecord]:
    """A feed that runs; ``high_water`` is persisted."""
    assert table in (_PETS, _OWNERS)
    active = activation([_PETS if table is _PETS else _OWNERS], feed_id=feed_id, start=Timestamp(start))
    records: list[JobRecord] = [
        DefinitionRecord(active.definition),
        StateRecord(FeedId(feed_id), FIRST_EPOCH, FeedState.RUNNING, Timestamp(start), active.targets),
    ]
    if high_water is not None:
        records.append(_progress(feed_id, high_water))
    return records


def _progress(feed_id: str, high_water: int, epoch: FeedEpoch = FIRST_EPOCH) -> ProgressRecord:
    return ProgressRecord(FeedId(feed_id), epoch, ResolvedTimestamp(Timestamp(high_water)), {})


def _drop(feed_id: str) -> DropRecord:
    return DropRecord(FeedId(feed_id), requested_ns=0)


def test_a_feed_that_runs_has_no_end_and_one_that_was_dropped_ends_at_its_high_water() -> None:
    records = _feed("1", 100, 180)
    assert term_of(_jobs(*records), FeedId("1")) == FeedTerm(Timestamp(100), Timestamp(100).prev(), None)
    term = term_of(_jobs(*records, _drop("1")), FeedId("1"))
    assert term.end == Timestamp(180)
    assert term.is_later(Timestamp(180).next())
    assert not term.is_later(Timestamp(180))


def test_a_feed_that_ended_before_any_progress_has_written_no_marker() -> None:
    term = term_of(_jobs(*_feed("1", 100, None), _drop("1")), FeedId("1"))
    assert term.end == ZERO
    assert term.is_later(Timestamp(100))


def test_the_highest_high_water_of_all_epochs_counts() -> None:
    first, second = _feed("1", 100, 180), FeedEpoch(FIRST_EPOCH + 1)
    defined = first[0]
    assert isinstance(defined, DefinitionRecord)
    moved = DefinitionRecord(replace(defined.definition, epoch=second))
    dropped = term_of(_jobs(*first, moved, _drop("1")), FeedId("1"))
    assert dropped.end == Timestamp(180), "before the takeover"
    taken = TakeoverRecord(FeedId("1"), second, Timestamp(100), ResolvedTimestamp(Timestamp(190)))
    assert term_of(_jobs(*first, moved, taken, _drop("1")), FeedId("1")).end == Timestamp(190)
    later = _progress("1", 200, second)
    assert term_of(_jobs(*first, moved, taken, later, _drop("1")), FeedId("1")).end == Timestamp(200)


def test_markers_of_an_earlier_feed_on_the_topic_say_nothing_even_above_the_start() -> None:
    """A store that is idle closes timestamps without writing, and a feed starts at the last version."""
    earlier = [*_feed("1", 100, 500), _drop("1")]
    term = term_of(_jobs(*earlier, *_feed("2", 200, None)), FeedId("2"))
    assert term == FeedTerm(Timestamp(200), Timestamp(500), None)
    assert term.is_earlier(Timestamp(500))
    assert not term.is_earlier(Timestamp(501))
    assert term_of(_jobs(*earlier, *_feed("2", 200, 700)), FeedId("1")).before < Timestamp(100)


def test_a_feed_that_ended_was_earlier_whatever_clock_its_id_is_from() -> None:
    records = [*_feed("9", 100, 500), _drop("9"), *_feed("2", 200, None)]
    assert term_of(_jobs(*records), FeedId("2")).before == Timestamp(500)
    assert term_of(_jobs(*records), FeedId("9")).end == Timestamp(500)


def test_feeds_on_other_topics_and_those_that_run_do_not_count() -> None:
    other = [*_feed("1", 100, 500, table=_OWNERS), _drop("1")]
    assert term_of(_jobs(*other, *_feed("2", 200, None)), FeedId("2")).before < Timestamp(200)


def test_a_feed_that_has_not_started_has_no_term() -> None:
    with pytest.raises(InputError, match="has no topics yet"):
        term_of(_jobs(_feed("1", 100, None)[0]), FeedId("1"))


def test_the_neighbours_of_a_feed_on_its_topics_are_known() -> None:
    first, second, other = _feed("1", 100, 180), _feed("2", 200, None), _feed("3", 100, 150, table=_OWNERS)
    jobs = _jobs(*first, _drop("1"), *second, *other)
    assert other_feeds_of(jobs, FeedId("1")) == OtherFeeds(earlier=False, later=True)
    assert other_feeds_of(jobs, FeedId("2")) == OtherFeeds(earlier=True, later=False)
    assert other_feeds_of(jobs, FeedId("3")) == OtherFeeds(earlier=False, later=False)
