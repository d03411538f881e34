"""Tests what an operator is told of a feed whose sink's address means another cluster, and what is refused.

The feed's sink is the test's own broker; that its topics were on another one stands in its state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.unit.cli.running import run
from tests.unit.client.feeds import ID, SECOND, TARGET, definition, failed, progress, running, succeeded, tell
from tests.unit.client.topics import create_topic, write
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    AcceptedCluster,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedTarget,
)
from tidegate.changefeed.definition.options import OnOversize
from tidegate.changefeed.encoding.marker import marker_value
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, JobRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.client.cluster_acceptance import (
    Begin,
    FoundCluster,
    begin_there,
    find_cluster,
    go_on_there,
)
from tidegate.client.feed_topics import row_decoder
from tidegate.client.jobs import Jobs, jobs_topic
from tidegate.client.kafka import topic_admin
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.record_limit import limit_of_workers
from tidegate.client.kafka.topic_admin import TopicAdmin, open_admin
from tidegate.client.last_markers import last_markers
from tidegate.client.own_topics import OwnTopics
from tidegate.client.topic_preparation import prepare_topics
from tidegate.errors import FeedError, InputError, SinkHeld
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.verify import TopicRecord

pytestmark = pytest.mark.broker

_FORMER = "former-cluster"
_HIGH = 3_000 * SECOND
_LARGE = {"on_oversize": OnOversize.KEY_ONLY, "max_row_bytes": 5_000_000}


class Held:
    """A feed that began on another cluster, and the records that tell of it."""

    def __init__(self, broker: KafkaBroker, prefix: str, opened: ExitStack) -> None:
        self.app_id = prefix
        self._opened = opened
        self.bootstrap = broker.bootstrap
        create_topic(broker.bootstrap, jobs_topic(prefix), cleanup_policy="compact")
        self.connection = KafkaConnection(broker.bootstrap, destinations=DESTINATIONS)
        self.jobs = Jobs(self.connection, prefix)
        self.topic = f"{prefix}accounts"
        self.target = replace(TARGET, topic=self.topic)
        options = replace(definition().options, topic_prefix=prefix)
        self.definition = replace(definition(), sink_uri=f"kafka://{broker.bootstrap}", options=options)

    def begin(self, *records: JobRecord, defined: FeedDefinition | None = None) -> None:
        self.jobs.create(defined or self.definition)
        state = replace(running(), targets=(self.target,), sink_cluster=_FORMER)
        marked = replace(progress(), marked=ResolvedTimestamp(Timestamp(2_900 * SECOND)))
        tell(self.bootstrap, self.app_id, *(records or (state, marked)))

    def begin_beside(self, partitions: int | None) -> None:
        """A topic of that name has other partitions on the workers' own cluster; or it is another feed's."""
        self.begin()
        if partitions is not None:
            create_topic(self.bootstrap, self.topic, partitions)
            return
        other = FeedId("0other")
        self.jobs.create(replace(self.definition, id=other))
        tell(self.bootstrap, self.app_id, replace(running(other), targets=(self.target,)))

    def find(self) -> FoundCluster:
        """The cluster at its sink's address; let go of with the test."""
        return self._opened.enter_context(find_cluster(self.connection, self.app_id, ID, self.jobs.view()))

    def put(self, *last: Sequence[int]) -> None:
        """Create the topic, with a row after each of the markers of each partition, in seconds."""
        create_topic(self.bootstrap, self.topic, 2)
        for partition, seconds in enumerate(last):
            self.write(partition, *seconds)

    def write(self, partition: int, *seconds: int) -> None:
        """Write markers, a row after each of them."""
        records = []
        for at in seconds:
            marker = marker_value(ResolvedTimestamp(Timestamp(at * SECOND)), self.definition.options.envelope)
            records += [
                TopicRecord(self.topic, partition, -1, None, marker, 0),
                TopicRecord(self.topic, partition, -1, b"[1]", b'{"after": null}', 0),
            ]
        write(self.bootstrap, records)


@pytest.fixture
def held(broker: KafkaBroker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.setattr(topic_admin, "_ENDS_S", 60.0)
    with ExitStack() as opened:
        yield Held(broker, topic_prefix, opened)


def test_both_clusters_are_named_and_the_next_epoch_is_on_the_one_that_answers(held: Held) -> None:
    held.begin()
    found = held.find()
    assert (found.stored, found.found) == (_FORMER, open_admin(held.connection, 60).cluster_id())
    begin = begin_there(found, Begin.MARKER)
    assert begin == Timestamp(2_900 * SECOND)
    held.jobs.accept(found.definition, found.accepted(begin))
    defined = held.jobs.feed(ID).defined
    assert defined is not None
    assert defined.accepted == AcceptedCluster(FeedEpoch(2), "", begin), "it is the workers' own"
    with pytest.raises(InputError, match="is not held"):
        held.find()


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda held: held.begin(failed("no such table")), "has failed: nothing of it goes on"),
        (lambda held: held.begin(progress()), "has not begun yet"),
        (lambda held: held.begin(replace(running(), targets=(held.target,))), "is not held"),
        (
            lambda held: held.begin(defined=replace(held.definition, engine=Engine.BACKFILL)),
            "is in a backfill",
        ),
        (lambda held: held.begin_beside(5), "has 5 partitions there"),
        (lambda held: held.begin_beside(None), "writes to the topic"),
    ],
)
def test_what_cannot_go_on_there_is_refused(
    held: Held, prepare: Callable[[Held], object], sentence: str
) -> None:
    prepare(held)
    with pytest.raises((InputError, FeedError), match=sentence):
        held.find()


@pytest.mark.parametrize(
    ("options", "topic_config", "engine", "sentence"),
    [
        ({}, {"cleanup_policy": "compact"}, Engine.WORKERS, "cleanup.policy=compact, and Kafka refuses"),
        (_LARGE, {"max_message_bytes": "20000"}, Engine.WORKERS, "max.message.bytes=20000, and the feed"),
        (_LARGE, {"max_message_bytes": "6000000"}, Engine.SPARK, "producers of a Spark query take, 1000000"),
    ],
)
def test_what_the_engine_would_wait_for_there_is_refused_before_it_is_asked_for(
    held: Held, options: dict[str, Any], topic_config: dict[str, str], engine: Engine, sentence: str
) -> None:
    chosen = replace(held.definition.options, **options)
    held.begin()
    changed = DefinitionRecord(replace(held.definition, options=chosen, engine=engine))
    tell(held.bootstrap, held.app_id, changed)
    create_topic(held.bootstrap, held.topic, 2, **topic_config)
    with pytest.raises(InputError, match=f"cannot continue on .*{sentence}"):
        held.find()
    assert held.jobs.feed(ID).epoch == FIRST_EPOCH


def test_a_topic_that_takes_rows_only_may_be_compacted_there(held: Held) -> None:
    aside = f"{held.app_id}markers"
    held.begin(
        defined=replace(held.definition, options=replace(held.definition.options, resolved_topic=aside))
    )
    create_topic(held.bootstrap, held.topic, 2, cleanup_policy="compact")
    assert held.find().cluster == ""
    create_topic(held.bootstrap, aside, 2, cleanup_policy="compact")
    with pytest.raises(InputError, match=f"the resolved_topic {aside} has cleanup.policy=compact"):
        held.find()


def test_on_a_mirror_it_begins_at_the_lowest_of_the_last_markers(held: Held) -> None:
    held.begin()
    held.put([2_100, 2_500, 2_700], [2_100, 2_400])
    assert begin_there(held.find(), Begin.THERE) == Timestamp(2_400 * SECOND)


def test_markers_are_looked_for_as_far_back_as_it_takes(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.client.last_markers._FIRST_LOOK", 1)
    monkeypatch.setattr("tidegate.client.last_markers._MORE", 2)
    held.begin()
    held.put([2_100, 2_500], [2_200])
    rows = [TopicRecord(held.topic, 1, -1, b"[1]", b'{"after": null}', 0)] * 20
    write(held.bootstrap, rows)
    found = held.find()
    assert begin_there(found, Begin.THERE) == Timestamp(2_200 * SECOND)
    monkeypatch.setattr("tidegate.client.last_markers._LOOK_MAX", 4)
    with pytest.raises(InputError, match=rf"no marker stands in {held.topic}\[1\]"):
        begin_there(found, Begin.THERE)


@pytest.mark.parametrize(
    ("markers", "sentence"),
    [
        (None, "has no topic"),
        (([2_500], []), r"no marker stands in .*\[1\]"),
        (([2_500], [3_500]), "cannot have written"),
        (([2_500], [1_500]), "cannot have written"),
    ],
)
def test_where_nothing_there_tells_it_the_choices_are_named(
    held: Held, markers: Sequence[Sequence[int]] | None, sentence: str
) -> None:
    held.begin()
    if markers is not None:
        held.put(*markers)
    with pytest.raises(InputError, match=sentence) as refused:
        begin_there(held.find(), Begin.THERE)
    assert "`--from marker`" in str(refused.value)


def test_a_marker_that_an_earlier_feed_of_the_topic_may_have_written_tells_nothing(held: Held) -> None:
    """An idle store closes timestamps above the start of a feed that comes later."""
    held.begin()
    former = FeedId("0former")
    held.jobs.create(replace(held.definition, id=former))
    high = replace(progress(former), high_water=ResolvedTimestamp(Timestamp(2_100 * SECOND)))
    tell(held.bootstrap, held.app_id, replace(succeeded(former), targets=(held.target,)), high)
    held.put([2_100, 2_500], [2_100])
    with pytest.raises(InputError, match=rf"the last marker in {held.topic}\[1\] may be that of a feed that"):
        begin_there(held.find(), Begin.THERE)
    held.write(1, 2_101)
    assert begin_there(held.find(), Begin.THERE) == Timestamp(2_101 * SECOND)


def test_a_timestamp_has_to_be_one_that_was_acknowledged(held: Held) -> None:
    held.begin()
    found = held.find()
    for seconds in (2_000, 2_500, 3_000):
        assert begin_there(found, Timestamp(seconds * SECOND)) == Timestamp(seconds * SECOND)
    for wrong in (Timestamp(1_999 * SECOND), Timestamp(_HIGH + 7, 1)):
        with pytest.raises(InputError, match="cannot go on above"):
            begin_there(found, wrong)


def test_before_its_scan_is_done_it_can_only_begin_again(held: Held) -> None:
    held.begin(replace(running(), targets=(held.target,), sink_cluster=_FORMER))
    found = held.find()
    assert begin_there(found, Begin.START) is None
    for origin in (Begin.THERE, Begin.MARKER, Timestamp(2_500 * SECOND)):
        with pytest.raises(InputError, match="has no high-water yet"):
            begin_there(found, origin)


def test_without_a_marker_that_is_known_none_is_made_up(held: Held) -> None:
    held.begin(replace(running(), targets=(held.target,), sink_cluster=_FORMER), progress())
    with pytest.raises(InputError, match="no marker is known to be written"):
        begin_there(held.find(), Begin.MARKER)


def test_markers_on_a_topic_of_their_own_say_nothing_of_rows_that_were_copied(held: Held) -> None:
    options = replace(held.definition.options, resolved_topic=f"{held.app_id}markers")
    held.begin(defined=replace(held.definition, options=options))
    with pytest.raises(InputError, match="do not stand among its rows"):
        begin_there(held.find(), Begin.THERE)


def test_of_two_who_accept_one_is_told_that_nothing_was_asked_for(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.begin()
    found = held.find()
    accepted = found.accepted(None)
    read = Jobs.feed
    other = Jobs(held.connection, held.app_id)
    faster: Iterator[Callable[[], object]] = iter([int, lambda: other.accept(found.definition, accepted)])

    def read_and_dawdle(self: Jobs, feed_id: FeedId) -> FeedView:
        feed = read(self, feed_id)
        next(faster, int)()
        return feed

    with monkeypatch.context() as patched:
        patched.setattr(Jobs, "feed", read_and_dawdle)
        with pytest.raises(InputError, match="came too late: nothing was asked for"):
            held.jobs.accept(found.definition, accepted)
    with pytest.raises(InputError, match="has changed meanwhile"):
        held.jobs.accept(found.definition, accepted)
    assert held.jobs.feed(ID).epoch == FeedEpoch(2)


def test_the_command_shows_both_clusters_and_acts_once_the_right_one_is_named(held: Held) -> None:
    held.begin()
    arguments = ("feed", "accept-cluster", ID, "-b", held.bootstrap, "--app-id", held.app_id, "--no-wait")
    cluster = held.find().found
    refused = run(*arguments, "--from", "marker", "--cluster", "another")
    assert refused.exit_code == 1
    assert f"The cluster {cluster} answers at {held.bootstrap}, and not another" in refused.stderr
    shown = run(*arguments, "--from", "marker")
    assert shown.exit_code == 0
    assert all(part in shown.stdout for part in (_FORMER, cluster, Timestamp(2_900 * SECOND).decimal()))
    assert f"--cluster {cluster} --from marker" in shown.stderr
    timed = run(*arguments, "--from", "1970-01-01 00:40:00+00:00")
    assert f"--cluster {cluster} --from {Timestamp(2_400 * SECOND).decimal()}`" in timed.stderr, (
        "a time that is relative to now means another one when the command is run"
    )
    assert held.jobs.feed(ID).epoch == FIRST_EPOCH
    done = run(*arguments, "--from", "2600000000000", "--cluster", cluster)
    assert done.exit_code == 0, done.stderr
    feed = held.jobs.feed(ID)
    assert feed.defined is not None
    assert feed.defined.accepted is not None
    assert feed.defined.accepted.begin == Timestamp(2_600 * SECOND)
    listed = json.loads(run("feed", "show", ID, "--json", *arguments[3:7]).stdout)
    assert listed["running_status"] == "continuing on the workers' own cluster"


def test_topics_come_to_be_with_the_partitions_that_the_feed_has_or_are_waited_for(held: Held) -> None:
    admin = open_admin(held.connection, 60)
    cluster = admin.cluster_id()
    with pytest.raises(SinkHeld, match=f"are on the Kafka cluster another.*the cluster {cluster} now"):
        _prepare(held, held.target, admin, "another")
    assert admin.partitions(held.topic) is None, "nothing is created on another cluster"
    for _ in range(2):
        assert _prepare(held, held.target, admin, cluster) == (held.target,)
        assert admin.partitions(held.topic) == held.target.partitions
    more = replace(held.target, partitions=7)
    with pytest.raises(SinkHeld, match=r"waits for its topics .* has 2 partitions there, and the feed has 7"):
        _prepare(held, more, admin, cluster)


def _prepare(held: Held, target: FeedTarget, admin: TopicAdmin, cluster: str) -> tuple[FeedTarget, ...]:
    step = Prepare(Timestamp(5), (), {}, (target,), cluster, topics_anew=True)
    limit = limit_of_workers(1_000_000)
    return prepare_topics(held.definition, step, admin, cluster, 9, limit, OwnTopics()).targets


def test_a_second_fail_over_goes_on_from_what_the_first_has_brought(held: Held) -> None:
    accepted = AcceptedCluster(FeedEpoch(2), _FORMER, Timestamp(2_500 * SECOND))
    second = replace(held.definition, epoch=FeedEpoch(2), accepted=accepted)
    begin = ResolvedTimestamp(Timestamp(2_500 * SECOND))
    start = Timestamp(2_000 * SECOND)
    taken = TakeoverRecord(
        ID, FeedEpoch(2), start, begin, (held.target,), _FORMER, marked=begin, silent_to=progress().high_water
    )
    held.begin()
    tell(held.bootstrap, held.app_id, DefinitionRecord(second), taken)
    found = held.find()
    assert begin_there(found, Begin.MARKER) == begin
    with pytest.raises(InputError, match="cannot go on above"):
        begin_there(found, Timestamp(2_900 * SECOND))
    held.put([2_100, 2_950], [2_100, 2_900])
    assert begin_there(found, Begin.THERE) == Timestamp(2_900 * SECOND)
    assert last_markers(found.there, [held.topic], _decoder(held))


def test_a_feed_that_was_begun_again_in_error_goes_on_behind_the_markers_of_a_cluster_before(
    held: Held,
) -> None:
    """It has no high-water where it began again; its markers elsewhere are as true as before."""
    accepted = AcceptedCluster(FeedEpoch(2), _FORMER, None)
    again = replace(held.definition, epoch=FeedEpoch(2), accepted=accepted)
    taken = TakeoverRecord(
        ID,
        FeedEpoch(2),
        Timestamp(2_000 * SECOND),
        None,
        (held.target,),
        _FORMER,
        silent_to=progress().high_water,
    )
    held.begin()
    tell(held.bootstrap, held.app_id, DefinitionRecord(again), taken)
    held.put([2_100, 2_900], [2_800])
    found = held.find()
    assert begin_there(found, Begin.THERE) == Timestamp(2_800 * SECOND)
    for origin in (Begin.MARKER, Timestamp(2_500 * SECOND)):
        with pytest.raises(InputError, match="has no high-water yet"):
            begin_there(found, origin)


@pytest.mark.parametrize(
    ("before", "lacks_up_to"),
    [
        (None, None),
        (AcceptedCluster(FeedEpoch(2), _FORMER, Timestamp(2_500 * SECOND)), Timestamp(2_500 * SECOND)),
        (AcceptedCluster(FeedEpoch(2), _FORMER, Timestamp(2_500 * SECOND), ZERO), None),
        (AcceptedCluster(FeedEpoch(2), _FORMER, None), None),
    ],
    ids=["all", "rows above the chosen timestamp", "a mirror of all", "begun again"],
)
def test_readers_are_told_which_rows_the_cluster_has(
    held: Held, before: AcceptedCluster | None, lacks_up_to: Timestamp | None
) -> None:
    """A mirror has what the mirrored cluster had, and no more."""
    epoch = FeedEpoch(1) if before is None else before.epoch
    held.begin(defined=replace(held.definition, epoch=epoch, accepted=before))
    begin, found = Timestamp(2_900 * SECOND), held.find()
    go_on_there(held.jobs, found, begin, copied=True)
    mirror = held.jobs.feed(ID).defined
    assert mirror is not None
    assert mirror.accepted is not None
    assert mirror.accepted.complete_above == lacks_up_to
    for chosen in (begin, None):
        alone = found.accepted(chosen).accepted
        assert alone is not None
        assert alone.complete_above == chosen


def _decoder(held: Held) -> RecordDecoder:
    return row_decoder(held.definition.options, DESTINATIONS)
