"""Where a feed goes on that was moved to another engine (docs/hand-over.md).

Each epoch of a feed is run by one engine. What the next one has to emit follows from the records of those
before it: everything above their high-water, or above their start as long as there is none; with the
initial scan at that start, if it was not done.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.changefeed.feed import FeedDefinition
from tidegate.changefeed.job_records import ProgressRecord, StateRecord, TakeoverRecord
from tidegate.changefeed.options import InitialScan
from tidegate.hlc import ResolvedTimestamp


def takeover(
    definition: FeedDefinition,
    state: StateRecord | None,
    progress: ProgressRecord | None,
    former: TakeoverRecord | None,
) -> TakeoverRecord:
    """What the definition's epoch takes over: the others are the last records of the epochs before it.

    Nobody may write progress of these epochs any more.
    """
    start = None if state is None else state.start
    targets = () if state is None else state.targets
    cluster = "" if state is None else state.sink_cluster
    if former is not None and former.start is not None:  # an epoch that resumed has another start
        start, targets, cluster = former.start, former.targets, former.sink_cluster
    marks = [] if progress is None else [progress.high_water]
    if former is not None and former.high_water is not None:
        marks.append(former.high_water)
    high_water = ResolvedTimestamp(max(marks)) if marks else None
    return TakeoverRecord(definition.id, definition.epoch, start, high_water, targets, cluster)


def resumed(definition: FeedDefinition, taken: TakeoverRecord) -> FeedDefinition:
    """The definition with the options that make its feed go on where ``taken`` says.

    A scan that is all of a feed is done once it has a high-water; there is nothing to go on with.
    """
    options = definition.options
    if taken.high_water is not None and options.initial_scan is not InitialScan.ONLY:
        options = replace(options, cursor=taken.high_water, initial_scan=InitialScan.NO)
    elif taken.start is not None:
        options = replace(options, cursor=taken.start)
    return replace(definition, options=options)
