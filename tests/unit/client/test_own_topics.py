"""Tests which topics an application may take for its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Removed
from tidegate.changefeed.lifecycle.feed_answers import FeedAnswers
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
    TakeoverRecord,
)
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.client.feed_rows import feed_row
from tidegate.client.own_topics import OwnTopics
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp

_OPTIONS: Final = FeedOptions(resolved_interval_ns=0, resolved_topic="markers")
_FEED: Final = activation([HandTable.of(104, "rows").descriptor], _OPTIONS, feed_id="former")
_HEIR: Final = replace(_FEED.definition, id=FeedId("heir"))
_HIGH: Final = ResolvedTimestamp(Timestamp(150_000))
_CREATED: Final = OutputTopic("id-1", TopicOrigin.CREATED)
_EXISTING: Final = OutputTopic("id-2", TopicOrigin.EXISTING)
_STATE: Final = StateRecord(
    _FEED.definition.id,
    FeedEpoch(1),
    FeedState.FAILED,
    _FEED.start,
    _FEED.targets,
    topics=(_CREATED, _EXISTING),
)


def view(*records: JobRecord, definition: FeedDefinition = _FEED.definition) -> JobsView:
    """The jobs topic with a feed, as its records are read back."""
    jobs = JobsView()
    for record in (DefinitionRecord(definition), *records):
        jobs.apply(record.key, record.to_bytes())
    return jobs


def own(jobs: JobsView, *, shares: bool = True) -> OwnTopics:
    return OwnTopics.of(_HEIR, jobs, lambda _: shares)


def test_what_a_feed_created_is_the_applications_and_what_it_took_is_not() -> None:
    found = own(view(_STATE))
    assert found == OwnTopics(created=frozenset({("rows", "id-1")}), written_to=ZERO)
    assert found.has("rows", "id-1")
    assert not found.has("rows", "id-9")
    assert not found.has("markers", "id-2")


def test_topics_of_another_cluster_are_not_the_ones_of_this() -> None:
    assert own(view(_STATE), shares=False) == OwnTopics()


def test_a_feed_that_ran_before_ids_were_stored_has_its_topics_by_name() -> None:
    assert own(view(replace(_STATE, topics=()))) == OwnTopics(
        unidentified=frozenset({"rows", "markers"}), written_to=ZERO
    )


def test_a_feed_that_never_ran_has_none() -> None:
    assert own(view(StateRecord(_FEED.definition.id, FeedEpoch(1), FeedState.FAILED))) == OwnTopics()


def test_what_was_announced_counts_also_of_a_feed_that_failed_then() -> None:
    topics = (OutputTopic("", TopicOrigin.ANNOUNCED), OutputTopic("", TopicOrigin.UNKNOWN))
    for status in (FeedState.PENDING, FeedState.FAILED):
        state = StateRecord(_FEED.definition.id, FeedEpoch(1), status, topics=topics)
        assert own(view(state)) == OwnTopics(announced=frozenset({"rows"}))


def test_a_feed_that_was_moved_has_what_it_took_over() -> None:
    moved = replace(_FEED.definition, epoch=FeedEpoch(2))
    taken = TakeoverRecord(
        moved.id, moved.epoch, _FEED.start, None, _FEED.targets, topics=(_CREATED, _EXISTING)
    )
    found = own(view(taken, definition=moved))
    assert found == OwnTopics(created=frozenset({("rows", "id-1")}))


def test_a_feed_shows_which_topics_somebody_else_had_created() -> None:
    feed = view(_STATE)[_FEED.definition.id]
    assert feed_row(_FEED.definition.id, feed)["existing_topics"] == ["markers"]
    older = view(replace(_STATE, topics=()))[_FEED.definition.id]
    assert feed_row(_FEED.definition.id, older)["existing_topics"] == []


@pytest.mark.parametrize("topics", [("rows", "others"), ("changes", "markers")], ids=["rows", "markers"])
def test_markers_of_feeds_that_have_ended_stay_on_their_topics(topics: tuple[str, str]) -> None:
    rows, markers = topics
    ended = view(_STATE, ProgressRecord(_FEED.definition.id, FeedEpoch(1), _HIGH, {}))
    options = replace(_OPTIONS, resolved_topic=markers, topic_prefix="" if rows == "rows" else "x")
    heir = replace(_HEIR, options=options)
    assert OwnTopics.of(heir, ended, lambda _: True).written_to == _HIGH
    assert OwnTopics.of(heir, ended, lambda _: False).written_to is None


def test_feeds_that_run_and_those_on_other_topics_have_no_markers_there() -> None:
    high = ProgressRecord(_FEED.definition.id, FeedEpoch(1), _HIGH, {})
    assert own(view(replace(_STATE, state=FeedState.RUNNING), high)).written_to is None
    elsewhere = replace(_HEIR, options=replace(_OPTIONS, resolved_topic="others", topic_prefix="x"))
    assert OwnTopics.of(elsewhere, view(_STATE, high), lambda _: True).written_to is None


def test_a_mirror_may_have_copied_markers_of_a_feed_that_was_moved_to_it() -> None:
    silent = ResolvedTimestamp(Timestamp(_HIGH.wall + 1))
    moved = TakeoverRecord(
        _FEED.definition.id, FeedEpoch(1), _FEED.start, None, _FEED.targets, silent_to=silent
    )
    assert own(view(_STATE, moved)).written_to == silent


def test_a_feed_starts_above_rows_that_an_engine_wrote_which_has_read_more_of_the_log() -> None:
    high = ProgressRecord(_FEED.definition.id, FeedEpoch(1), _HIGH, {})
    above = Timestamp(_HIGH.wall + 5)
    answers = FeedAnswers()
    for partition, highest in enumerate((above, _HIGH, ZERO)):
        answers.add(Removed(_FEED.definition.id, FeedEpoch(1), partition, highest=highest))
    ended = view(_STATE, high)
    assert OwnTopics.of(_HEIR, ended, lambda _: True, answers.about).written_to == above
    assert OwnTopics.of(_HEIR, ended, lambda _: True).written_to == _HIGH


def test_a_feed_starts_above_the_scan_of_one_that_ended_before_its_first_marker() -> None:
    began = replace(_STATE, start=Timestamp(70))
    assert own(view(began)).written_to == Timestamp(70)
