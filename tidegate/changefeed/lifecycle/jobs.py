"""All feeds, as the records of the jobs topic add up to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tidegate.changefeed.definition.feed import (
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    FeedTarget,
)
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    Part,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    TakeoverRecord,
    parse_key,
    read_job_record,
)
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.changefeed.lifecycle.span_progress import SpanProgress
from tidegate.changefeed.lifecycle.takeover import resumed
from tidegate.hlc import ResolvedTimestamp

#: What engines write of one epoch of a feed.
OfEpoch: TypeAlias = StateRecord | ProgressRecord | SpansRecord | TakeoverRecord


@dataclass(frozen=True, slots=True)
class FeedView:
    """One feed as its records tell it. A part that nobody wrote yet is ``None``.

    Of parts that engines write, those of the latest epoch count.
    """

    defined: FeedDefinition | None = None
    drop: DropRecord | None = None
    state: StateRecord | None = None
    progress: ProgressRecord | None = None
    spans: SpansRecord | None = None
    takeover: TakeoverRecord | None = None

    @property
    def definition(self) -> FeedDefinition | None:
        """The definition that is in force: of a feed that was moved it says where that goes on."""
        defined, taken = self.defined, self.current_takeover
        return defined if defined is None or taken is None else resumed(defined, taken)

    def runs_on(self, engine: Engine) -> bool:
        """Whether the feed is this engine's: nobody else has anything to do for it."""
        return self.defined is not None and self.defined.engine is engine

    @property
    def epoch(self) -> FeedEpoch | None:
        """Of the definition."""
        return None if self.defined is None else self.defined.epoch

    @property
    def status(self) -> FeedState:
        """The state to show: a drop counts from the wish on, another epoch's state not at all."""
        if self.drop is not None:
            return FeedState.DROPPED
        state = self.current_state
        return FeedState.PENDING if state is None else state.state

    @property
    def current_state(self) -> StateRecord | None:
        """The state record, when it is of the definition's epoch."""
        if self.state is None or self.state.epoch != self.epoch:
            return None
        return self.state

    @property
    def high_water(self) -> ResolvedTimestamp | None:
        """The persisted frontier of the definition's epoch, or what that took over."""
        progress = self.progress
        if progress is None or progress.epoch != self.epoch:
            return None if self.current_takeover is None else self.current_takeover.high_water
        return progress.high_water

    @property
    def current_takeover(self) -> TakeoverRecord | None:
        """What the definition's epoch took over; ``None`` for a first one, and before it has."""
        if self.takeover is None or self.takeover.epoch != self.epoch:
            return None
        return self.takeover

    @property
    def beginning(self) -> StateRecord | TakeoverRecord | None:
        """Where the feed began, in whatever epoch: the record that has its start; ``None`` before that."""
        if self.takeover is not None and self.takeover.start is not None:
            return self.takeover
        return None if self.state is None or self.state.start is None else self.state

    @property
    def targets(self) -> tuple[FeedTarget, ...]:
        """The targets that the feed has since it began; none before."""
        return () if self.beginning is None else self.beginning.targets

    @property
    def stored_topics(self) -> OutputTopics:
        """What the state of the definition's epoch tells of its topics."""
        return () if self.current_state is None else self.current_state.topics

    @property
    def ahead(self) -> tuple[SpanProgress, ...]:
        """The spans that are persisted above the high-water, when they are of the definition's epoch."""
        spans = self.spans
        if spans is None or spans.epoch != self.epoch:
            return ()
        return spans.spans


_NOTHING: Final = FeedView()


class JobsView:
    """All feeds, folded from the records of the jobs topic in topic order."""

    def __init__(self) -> None:
        self._feeds: dict[FeedId, FeedView] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> FeedId:
        """Take in one record and return its feed.

        Raises ``ForeignRecord``, and ``StateError`` for a newer version; the view then stays as it was.
        """
        record = None if value is None else read_job_record(key, value)
        feed_id, part, epoch = parse_key(key)
        view = self[feed_id]
        view = _without(view, part, epoch) if record is None else _with(view, record)
        if view == _NOTHING:
            self._feeds.pop(feed_id, None)
        else:
            self._feeds[feed_id] = view
        return feed_id

    def __getitem__(self, feed_id: FeedId) -> FeedView:
        """The feed; an empty view for one that has no records."""
        return self._feeds.get(feed_id, _NOTHING)

    def feeds(self) -> Iterator[tuple[FeedId, FeedView]]:
        """All feeds that have a record, by id."""
        return iter(sorted(self._feeds.items()))


def _with(view: FeedView, record: JobRecord) -> FeedView:
    match record:
        case DefinitionRecord(definition):
            return replace(view, defined=definition)
        case DropRecord():
            return replace(view, drop=record)
        case StateRecord():
            return view if _is_old(record, view.state) else replace(view, state=record)
        case ProgressRecord():
            return view if _is_old(record, view.progress) else replace(view, progress=record)
        case SpansRecord():
            return view if _is_old(record, view.spans) else replace(view, spans=record)
        case TakeoverRecord():
            return view if _is_old(record, view.takeover) else replace(view, takeover=record)


def _is_old(record: OfEpoch, known: OfEpoch | None) -> bool:
    return known is not None and record.epoch < known.epoch


def _without(view: FeedView, part: Part, epoch: FeedEpoch) -> FeedView:
    match part:
        case Part.DEFINITION:
            return replace(view, defined=None)
        case Part.DROP:
            return replace(view, drop=None)
        case Part.STATE:
            return view if _is_other(view.state, epoch) else replace(view, state=None)
        case Part.PROGRESS:
            return view if _is_other(view.progress, epoch) else replace(view, progress=None)
        case Part.SPANS:
            return view if _is_other(view.spans, epoch) else replace(view, spans=None)
        case Part.TAKEOVER:
            return view if _is_other(view.takeover, epoch) else replace(view, takeover=None)


def _is_other(known: OfEpoch | None, epoch: FeedEpoch) -> bool:
    return known is None or known.epoch != epoch
