"""All feeds, put together from the records of the jobs topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from tidegate.changefeed.lifecycle.feeds_by_name import FeedIds, FeedsByName
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

#: The records that engines write, each about one epoch of a feed.
OfEpoch: TypeAlias = StateRecord | ProgressRecord | SpansRecord | TakeoverRecord


@dataclass(frozen=True, slots=True)
class FeedView:
    """One feed, put together from its records. A part without a record is ``None``.

    Of the parts that engines write, those of the latest epoch count.
    """

    defined: FeedDefinition | None = None
    drop: DropRecord | None = None
    state: StateRecord | None = None
    progress: ProgressRecord | None = None
    spans: SpansRecord | None = None
    takeover: TakeoverRecord | None = None

    @property
    def definition(self) -> FeedDefinition | None:
        """The definition that is in force. For a feed that was moved it also says where the feed goes on."""
        defined, taken = self.defined, self.current_takeover
        return defined if defined is None or taken is None else resumed(defined, taken)

    def runs_on(self, engine: Engine) -> bool:
        """Return whether the feed runs on this engine. If so, no other engine does anything for the feed."""
        return self.defined is not None and self.defined.engine is engine

    @property
    def epoch(self) -> FeedEpoch | None:
        """The epoch of the definition."""
        return None if self.defined is None else self.defined.epoch

    @property
    def status(self) -> FeedState:
        """The state to show: dropped as soon as a drop is stored, else the state in the definition's epoch.

        Without a state in that epoch the feed is pending.
        """
        if self.drop is not None:
            return FeedState.DROPPED
        state = self.current_state
        return FeedState.PENDING if state is None else state.state

    @property
    def current_state(self) -> StateRecord | None:
        """The state record, if it belongs to the definition's epoch."""
        if self.state is None or self.state.epoch != self.epoch:
            return None
        return self.state

    @property
    def high_water(self) -> ResolvedTimestamp | None:
        """The persisted high-water of the definition's epoch, or the one that the epoch took over."""
        progress = self.progress
        if progress is None or progress.epoch != self.epoch:
            return None if self.current_takeover is None else self.current_takeover.high_water
        return progress.high_water

    @property
    def current_takeover(self) -> TakeoverRecord | None:
        """The takeover by the definition's epoch; ``None`` for a first epoch, and before the takeover."""
        if self.takeover is None or self.takeover.epoch != self.epoch:
            return None
        return self.takeover

    @property
    def beginning(self) -> StateRecord | TakeoverRecord | None:
        """The record that has the feed's start, from any epoch; ``None`` before the feed has begun."""
        if self.takeover is not None and self.takeover.start is not None:
            return self.takeover
        return None if self.state is None or self.state.start is None else self.state

    @property
    def targets(self) -> tuple[FeedTarget, ...]:
        """The targets that the feed has since it began; none before it has begun."""
        return () if self.beginning is None else self.beginning.targets

    @property
    def stored_topics(self) -> OutputTopics:
        """The topics in the state record of the definition's epoch."""
        return () if self.current_state is None else self.current_state.topics

    @property
    def ahead(self) -> tuple[SpanProgress, ...]:
        """The persisted spans above the high-water, if they belong to the definition's epoch."""
        spans = self.spans
        if spans is None or spans.epoch != self.epoch:
            return ()
        return spans.spans


_NOTHING: Final = FeedView()
#: Returns names of a feed. They do not depend on the feed's progress, which changes all the time.
NamesOf: TypeAlias = Callable[[FeedView], Iterable[str]]
_OF_PROGRESS: Final = frozenset({Part.PROGRESS, Part.SPANS})


class JobsView:
    """All feeds, put together from the records of the jobs topic in topic order.

    ``apply``, ``having`` and ``edges`` are for one thread at a time.
    """

    def __init__(self) -> None:
        self._feeds: dict[FeedId, FeedView] = {}
        self._by_name: dict[NamesOf, FeedsByName] = {}
        #: Feeds whose names may have changed since ``_by_name`` was looked at.
        self._changed: dict[NamesOf, set[FeedId]] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> FeedId:
        """Take in one record and return its feed.

        Raises ``ForeignRecord`` for a record that tidegate did not write, and ``StateError`` for one of a
        newer version. The view then stays as it was.
        """
        record = None if value is None else read_job_record(key, value)
        feed_id, part, epoch = parse_key(key)
        known = self[feed_id]
        view = _without(known, part, epoch) if record is None else _with(known, record)
        if view == _NOTHING:
            self._feeds.pop(feed_id, None)
        else:
            self._feeds[feed_id] = view
        if part not in _OF_PROGRESS or _NOTHING in (known, view):
            for changed in self._changed.values():
                changed.add(feed_id)
        return feed_id

    def __getitem__(self, feed_id: FeedId) -> FeedView:
        """Return the feed; an empty view for one that has no records."""
        return self._feeds.get(feed_id, _NOTHING)

    def feeds(self) -> Iterator[tuple[FeedId, FeedView]]:
        """Return all feeds that have a record, by id."""
        return iter(sorted(self._feeds.items()))

    def having(self, names_of: NamesOf, names: Iterable[str]) -> dict[str, FeedIds]:
        """Return for each of ``names`` the feeds for which ``names_of`` returns it.

        Feeds are kept by these names, so the time does not grow with the number of all feeds. ``names_of`` is
        the key of what is kept: it must be a function of a module, which is always the same object.
        """
        known = self._known(names_of)
        return {name: known.of(name) for name in names}

    def edges(self, names_of: NamesOf) -> list[FeedId]:
        """Return, for each name that ``names_of`` returns, the first and the last of the feeds that have it.

        The first and the last are those by id. The result is sorted by id, and each feed is there once.
        """
        groups = self._known(names_of).groups()
        return sorted({each for feeds in groups for each in (feeds[0], feeds[-1])})

    def _known(self, names_of: NamesOf) -> FeedsByName:
        """Return the feeds by these names, as of the last record."""
        known = self._by_name.get(names_of)
        if known is None:
            known = self._by_name[names_of] = FeedsByName()
            self._changed[names_of] = set(self._feeds)
        changed = self._changed[names_of]
        for feed_id in sorted(changed):
            feed = self._feeds.get(feed_id)
            known.put(feed_id, () if feed is None else names_of(feed))
            changed.discard(feed_id)
        return known


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
