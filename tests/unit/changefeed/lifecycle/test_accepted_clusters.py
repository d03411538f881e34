"""Tests what a feed that continues on another Kafka cluster takes over, and what not
(docs/protocols/accept-cluster.md)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.feeds import DEFINITION, FEED, TARGET
from tests.unit.changefeed.lifecycle.engine_by_hand import OneEngine, World, view
from tidegate.changefeed.definition.feed import AcceptedCluster, Engine, FeedDefinition, FeedEpoch, FeedState
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Registered, Removed
from tidegate.changefeed.lifecycle.feed_progress import FeedProgress
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    JobRecord,
    ProgressRecord,
    StateRecord,
    TakeoverRecord,
    read_job_record,
)
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import Prepare, TakeOver, next_step
from tidegate.changefeed.lifecycle.takeover import awaited, last_marker, takeover
from tidegate.hlc import ResolvedTimestamp, Timestamp

_EVENTS = ["turn", "turn", "look", "advance", "advance", "crash", "move", "accept"]
_SECOND, _THIRD = FeedEpoch(2), FeedEpoch(3)


def at(wall: int) -> ResolvedTimestamp:
    return ResolvedTimestamp(Timestamp(wall))


_STATE = StateRecord(FEED, DEFINITION.epoch, FeedState.RUNNING, Timestamp(9), (TARGET,), sink_cluster="c1")
_PROGRESS = ProgressRecord(FEED, DEFINITION.epoch, at(20), {0: 5}, at(15))


def accepting(begin: Timestamp | None, cluster: str = "c2", epoch: FeedEpoch = _SECOND) -> FeedDefinition:
    return replace(DEFINITION, epoch=epoch, accepted=AcceptedCluster(epoch, cluster, begin))


def accepted(begin: Timestamp | None, *records: JobRecord) -> FeedView:
    """A feed that an operator has go on elsewhere, before any engine has read that."""
    return view([DefinitionRecord(DEFINITION), *records, DefinitionRecord(accepting(begin))])


def taken(feed: FeedView) -> TakeoverRecord:
    assert feed.definition is not None
    return takeover(feed.definition, feed.state, feed.progress, feed.takeover)


def test_it_goes_on_above_what_was_accepted_on_the_cluster_that_was_accepted() -> None:
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    assert next_step(feed, {}, 1) == TakeOver()
    feed = replace(feed, takeover=taken(feed))
    assert feed.definition is not None
    options = feed.definition.options
    assert (options.cursor, options.initial_scan) == (Timestamp(12), InitialScan.NO)
    assert feed.definition.goes_on
    assert feed.high_water == Timestamp(12)
    assert feed.beginning is not None
    assert (feed.beginning.start, feed.beginning.sink_cluster) == (Timestamp(9), "c2")
    assert feed.targets == (TARGET,)


def test_from_its_start_it_begins_as_it_began() -> None:
    scans = replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=InitialScan.YES))
    coming = replace(accepting(None), options=scans.options)
    feed = view([DefinitionRecord(scans), _STATE, _PROGRESS, DefinitionRecord(coming)])
    feed = replace(feed, takeover=taken(feed))
    assert feed.definition is not None
    options = feed.definition.options
    assert (options.cursor, options.initial_scan) == (Timestamp(9), InitialScan.YES)
    assert feed.high_water is None
    assert not feed.definition.goes_on, "nothing of it stands there"
    moved = replace(view([DefinitionRecord(scans), _STATE, _PROGRESS]), defined=replace(coming, epoch=_THIRD))
    moved = replace(moved, takeover=taken(moved))
    assert moved.definition is not None
    assert not moved.definition.goes_on, "nobody has taken the second epoch over"
    third = replace(coming, epoch=_THIRD)
    after = replace(feed, defined=third, state=replace(_STATE, epoch=_SECOND))
    after = replace(after, takeover=taken(after))
    assert after.definition is not None
    assert after.definition.goes_on, "the second epoch may have written rows there"


def test_its_topics_are_created_on_the_cluster_that_it_comes_to_and_only_there() -> None:
    former = {0: Removed(FEED, DEFINITION.epoch, 0)}
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    feed = replace(feed, takeover=taken(feed))
    step = _prepared(feed, former)
    assert (step.start, step.targets, step.cluster, step.topics_anew) == (
        Timestamp(12),
        (TARGET,),
        "c2",
        True,
    )
    begun = replace(_STATE, epoch=_SECOND, sink_cluster="c2")
    moved = replace(accepting(Timestamp(12)), epoch=_THIRD, engine=Engine.SPARK)
    third = replace(feed, defined=moved, state=begun)
    assert not taken(third).unprepared
    assert taken(replace(third, state=_STATE)).unprepared, "it never began there"


def _prepared(feed: FeedView, former: dict[int, Removed]) -> Prepare:
    assert feed.epoch is not None
    answers = {0: Registered(FEED, feed.epoch, 0, 7, Timestamp(99), ())}
    step = next_step(feed, answers, 1, former)
    assert isinstance(step, Prepare)
    return step


def test_no_marker_is_written_up_to_where_any_epoch_before_had_come() -> None:
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    feed = replace(feed, takeover=taken(feed))
    assert feed.current_takeover is not None
    assert feed.current_takeover.silent_to == at(20)
    began = StateRecord(FEED, _SECOND, FeedState.RUNNING, Timestamp(12), (TARGET,), sink_cluster="c2")
    assert feed.definition is not None
    options = replace(feed.definition.options, resolved_interval_ns=0)
    definition = replace(feed.definition, options=options)
    frontier = FeedProgress(definition, began).begin(feed)
    for high, due in ((12, None), (19, None), (20, None), (21, at(21))):
        frontier.apply_columns(0, high, [TARGET.spans[0].start], [TARGET.spans[0].end], [at(high)])
        assert frontier.due_marker() == due
    left = replace(feed, progress=ProgressRecord(FEED, _SECOND, at(18), {}))
    again = FeedProgress(definition, began).begin(left)
    assert again.marker is None, "the next owner has none to repeat"


def test_progress_of_the_former_cluster_is_never_taken_over() -> None:
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    feed = replace(feed, takeover=taken(feed))
    moved = replace(accepting(Timestamp(12)), epoch=_THIRD, engine=Engine.SPARK)
    third = taken(replace(feed, defined=moved))
    assert (third.high_water, third.sink_cluster, third.silent_to) == (at(12), "c2", at(20))
    on_the_new_one = ProgressRecord(FEED, _SECOND, at(17), {}, at(16))
    third = taken(replace(feed, defined=moved, progress=on_the_new_one))
    assert (third.high_water, third.marked, third.silent_to) == (at(17), at(16), at(20))


def test_an_acceptance_that_nobody_has_taken_over_is_taken_over_by_the_next_epoch() -> None:
    moved = replace(accepting(Timestamp(12)), epoch=_THIRD, engine=Engine.SPARK)
    feed = view([DefinitionRecord(DEFINITION), _STATE, _PROGRESS, DefinitionRecord(moved)])
    assert (taken(feed).high_water, taken(feed).sink_cluster) == (at(12), "c2")


def test_before_the_first_marker_there_the_last_one_is_where_it_began() -> None:
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    assert last_marker(DEFINITION, feed.progress, feed.takeover) == at(15)
    feed = replace(feed, takeover=taken(feed))
    assert feed.definition is not None
    assert last_marker(feed.definition, feed.progress, feed.takeover) == at(12)
    progress = ProgressRecord(FEED, _SECOND, at(30), {}, at(28))
    assert last_marker(feed.definition, progress, feed.takeover) == at(28)


def test_records_of_the_version_before_are_read() -> None:
    for record, new in (
        (_PROGRESS, b',"marked":"15.0000000000"'),
        (DefinitionRecord(accepting(None)), b',"accepted":{"epoch":2,"cluster":"c2","begin":null}'),
        (TakeoverRecord(FEED, _SECOND, unprepared=True), b',"unprepared":true'),
    ):
        assert read_job_record(record.key, record.to_bytes()) == record
        old = read_job_record(record.key, record.to_bytes().replace(new, b""))
        assert old != record, new
        assert new not in old.to_bytes()


@given(st.data(), st.sampled_from([InitialScan.NO, InitialScan.YES]))
def test_rows_above_where_it_began_come_to_the_cluster_whatever_happens_between(
    data: st.DataObject, scan: InitialScan
) -> None:
    """What an epoch leaves out is on its cluster: told complete by epochs there, or accepted as such."""
    world = World(replace(DEFINITION, options=replace(DEFINITION.options, initial_scan=scan)))
    engines = [OneEngine(world, engine) for engine in (Engine.WORKERS, Engine.SPARK)]
    for _ in range(data.draw(st.integers(0, 50), label="events")):
        one = engines[data.draw(st.integers(0, 1), label="engine")]
        match data.draw(st.sampled_from(_EVENTS)):
            case "turn":
                one.turn(data.draw(st.integers(1, 8), label="looks"))
            case "look":
                one.look()
            case "advance":
                world.applied += data.draw(st.integers(0, 3), label="passed")
                one.advance(world.applied)
            case "crash":
                one.agent = one.frontier = None
                one.read_to_end()
            case "move":
                world.move()
            case "accept":
                _accept(world, data)
    for one in [*engines, *engines]:
        one.turn(20)
    assert view(world.jobs).status is FeedState.RUNNING
    _require_complete(world)


def _accept(world: World, data: st.DataObject) -> None:
    """An operator has the feed continue on a cluster that is another one each time."""
    feed = view(world.jobs)
    defined = feed.defined
    if defined is None or not feed.targets:
        return
    epoch = FeedEpoch(defined.epoch + 1)
    left = takeover(replace(defined, epoch=epoch), feed.state, feed.progress, feed.takeover)
    begin = None
    if (
        left.high_water is not None
        and left.start is not None
        and data.draw(st.booleans(), label="in the past")
    ):
        begin = Timestamp(data.draw(st.integers(left.start.wall, left.high_water.wall), label="begin"))
    accepted = AcceptedCluster(epoch, f"c{epoch}", begin)
    world.jobs.append(DefinitionRecord(replace(defined, epoch=epoch, accepted=accepted)))


def _require_complete(world: World) -> None:
    """Require completeness by what stands in the jobs topic alone, and by no rule of the code."""
    complete: dict[str, Timestamp | None] = {}
    begun: Timestamp | None = None
    clusters: dict[FeedEpoch, str] = {}
    silent: dict[FeedEpoch, Timestamp] = {}
    highest = Timestamp(0)
    for record in world.jobs:
        match record:
            case DefinitionRecord(FeedDefinition(accepted=AcceptedCluster() as accepted)):
                complete.setdefault(accepted.cluster, accepted.begin)
            case TakeoverRecord(silent_to=silent_to, epoch=epoch) if silent_to is not None:
                silent[epoch] = silent_to
                assert silent_to >= max(
                    (
                        r.high_water
                        for r in world.jobs
                        if isinstance(r, ProgressRecord) and r.epoch < _first(world, epoch)
                    ),
                    default=Timestamp(0),
                )
            case StateRecord(start=start, epoch=epoch, sink_cluster=cluster) if start is not None:
                if epoch not in clusters:
                    clusters[epoch] = cluster
                    begun = start if begun is None else begun
                    told = complete.get(cluster)
                    assert start == (begun if told is None else told)
            case ProgressRecord(epoch=epoch, high_water=high_water):
                highest = max(highest, high_water)
                complete[clusters[epoch]] = max(complete.get(clusters[epoch]) or high_water, high_water)
    assert begun is not None
    last = view(world.jobs).defined
    assert last is not None
    expected = "" if last.accepted is None else last.accepted.cluster
    assert clusters[last.epoch] == expected


def _first(world: World, epoch: FeedEpoch) -> FeedEpoch:
    """The first epoch on the cluster of this one."""
    accepted = [
        record.definition.accepted.epoch
        for record in world.jobs
        if isinstance(record, DefinitionRecord) and record.definition.accepted is not None
    ]
    return max(first for first in accepted if first <= epoch)


def test_who_has_taken_an_acceptance_over_awaits_none() -> None:
    feed = accepted(Timestamp(12), _STATE, _PROGRESS)
    assert feed.defined is not None
    assert awaited(feed.defined, feed.takeover) == feed.defined.accepted
    assert awaited(feed.defined, taken(feed)) is None
