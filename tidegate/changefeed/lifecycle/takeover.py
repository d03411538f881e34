"""The takeover of a feed by a new epoch: on another engine (docs/protocols/hand-over.md), or on another Kafka
cluster that was accepted (docs/protocols/accept-cluster.md).

One engine runs each epoch of a feed. What the next epoch has to emit follows from the records of the epochs
before: everything above their high-water, or above their start as long as there is none, and the initial scan
at that start if it was not done. An epoch that is the first on a cluster begins where the operator said,
since the rows of earlier epochs are not there.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.changefeed.definition.feed import FIRST_EPOCH, AcceptedCluster, FeedDefinition
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.hlc import ResolvedTimestamp


def takeover(
    definition: FeedDefinition,
    state: StateRecord | None,
    progress: ProgressRecord | None,
    former: TakeoverRecord | None,
) -> TakeoverRecord:
    """Return what the definition's epoch takes over; the other arguments are the last records of earlier
    epochs.

    The caller has made sure that nobody writes progress of these epochs any more.
    """
    start = None if state is None else state.start
    targets = () if state is None else state.targets
    cluster = "" if state is None else state.sink_cluster
    # an epoch that resumed the feed has another start in its state
    if former is not None and former.start is not None:
        start, targets, cluster = former.start, former.targets, former.sink_cluster
    reached = None if progress is None else progress.high_water
    handed = None if former is None else former.high_water
    silent_to = None if former is None else former.silent_to
    accepted = awaited(definition, former)
    if accepted is not None and start is not None:
        begin = None if accepted.begin is None else ResolvedTimestamp(accepted.begin)
        return TakeoverRecord(
            definition.id,
            definition.epoch,
            start,
            begin,
            targets,
            accepted.cluster,
            marked=begin,
            silent_to=_highest(reached, handed, silent_to),
            unprepared=True,
        )
    return TakeoverRecord(
        definition.id,
        definition.epoch,
        start,
        _highest(reached if _is_of_its_cluster(definition, progress) else None, handed),
        targets,
        cluster,
        marked=last_marker(definition, progress, former),
        silent_to=silent_to,
        unprepared=former is not None and former.unprepared and not _has_begun_there(definition, state),
        topics=_topics(definition, state, former),
    )


def awaited(definition: FeedDefinition, former: TakeoverRecord | None) -> AcceptedCluster | None:
    """Return the accepted cluster that no epoch has taken over yet; ``former`` is the last takeover."""
    accepted = definition.accepted
    if accepted is None or (former is not None and former.epoch >= accepted.epoch):
        return None
    return accepted


def last_marker(
    definition: FeedDefinition, progress: ProgressRecord | None, former: TakeoverRecord | None
) -> ResolvedTimestamp | None:
    """Return the last marker that is known to be written on the feed's cluster; ``None`` if none is known.

    One marker above it may have been written too. If no marker is known on an accepted cluster, the result is
    the timestamp at which the feed began there.
    """
    if progress is not None and progress.marked is not None and _is_of_its_cluster(definition, progress):
        return progress.marked
    return None if former is None else former.marked


def resumed(definition: FeedDefinition, taken: TakeoverRecord) -> FeedDefinition:
    """Return the definition with the options that make its feed go on where ``taken`` says.

    A feed that is a scan only is done once it has a high-water, so it does not go on.
    """
    options = definition.options
    if taken.high_water is not None and options.initial_scan is not InitialScan.ONLY:
        options = replace(options, cursor=taken.high_water, initial_scan=InitialScan.NO)
    elif taken.start is not None:
        options = replace(options, cursor=taken.start)
    return replace(definition, options=options, goes_on=_goes_on(definition, taken))


def _goes_on(definition: FeedDefinition, taken: TakeoverRecord) -> bool:
    """Return whether rows of earlier epochs count.

    They do not count if no earlier epoch had begun, or if the feed begins again at its start on a cluster
    that does not have its rows.
    """
    accepted = definition.accepted
    begins_anew = accepted is not None and accepted.begin is None and taken.unprepared
    return taken.start is not None and not begins_anew


def _is_of_its_cluster(definition: FeedDefinition, record: ProgressRecord | StateRecord | None) -> bool:
    """Return whether there is such a record, and it is from the feed's present cluster."""
    return record is not None and record.epoch >= (definition.accepted_epoch or FIRST_EPOCH)


def _has_begun_there(definition: FeedDefinition, state: StateRecord | None) -> bool:
    return state is not None and state.start is not None and _is_of_its_cluster(definition, state)


def _topics(
    definition: FeedDefinition, state: StateRecord | None, former: TakeoverRecord | None
) -> OutputTopics:
    """Return what is known of the feed's topics on its cluster.

    If the last epoch has not begun there, its state may have less than ``former``.
    """
    if state is not None and state.topics and _has_begun_there(definition, state):
        return state.topics
    return () if former is None else former.topics


def _highest(*marks: ResolvedTimestamp | None) -> ResolvedTimestamp | None:
    known = [mark for mark in marks if mark is not None]
    return ResolvedTimestamp(max(known)) if known else None
