"""All feeds, as the records of the jobs topic add up to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidegate.changefeed.feed import FeedDefinition, FeedId, FeedState
from tidegate.changefeed.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    Part,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    parse_key,
    read_job_record,
)
from tidegate.changefeed.span_progress import SpanProgress
from tidegate.hlc import ResolvedTimestamp


@dataclass(frozen=True, slots=True)
class FeedView:
    """One feed as its records tell it. A part that nobody wrote yet is ``None``."""

    definition: FeedDefinition | None = None
    drop: DropRecord | None = None
    state: StateRecord | None = None
    progress: ProgressRecord | None = None
    spans: SpansRecord | None = None

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
        if self.state is None or self.definition is None or self.state.epoch != self.definition.epoch:
            return None
        return self.state

    @property
    def high_water(self) -> ResolvedTimestamp | None:
        """The persisted frontier, when it is of the definition's epoch."""
        progress = self.progress
        if progress is None or self.definition is None or progress.epoch != self.definition.epoch:
            return None
        return progress.high_water

    @property
    def ahead(self) -> tuple[SpanProgress, ...]:
        """The spans that are persisted above the high-water, when they are of the definition's epoch."""
        spans = self.spans
        if spans is None or self.definition is None or spans.epoch != self.definition.epoch:
            return ()
        return spans.spans


_NOTHING: Final = FeedView()


class JobsView:
    """All feeds, folded from the records of the jobs topic in topic order."""

    def __init__(self) -> None:
        self._feeds: dict[FeedId, FeedView] = {}

    def apply(self, key: bytes, value: bytes | None) -> FeedId:
        """Take in one record and return its feed. Raises ``StateError``; the view then stays as it was."""
        feed_id, part = parse_key(key)
        view = self[feed_id]
        view = _without(view, part) if value is None else _with(view, read_job_record(key, value))
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
            return replace(view, definition=definition)
        case DropRecord():
            return replace(view, drop=record)
        case StateRecord():
            return replace(view, state=record)
        case ProgressRecord():
            return replace(view, progress=record)
        case SpansRecord():
            return replace(view, spans=record)


def _without(view: FeedView, part: Part) -> FeedView:
    match part:
        case Part.DEFINITION:
            return replace(view, definition=None)
        case Part.DROP:
            return replace(view, drop=None)
        case Part.STATE:
            return replace(view, state=None)
        case Part.PROGRESS:
            return replace(view, progress=None)
        case Part.SPANS:
            return replace(view, spans=None)
