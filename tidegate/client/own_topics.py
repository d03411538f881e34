"""Decides which topics an application may treat as its own, by its jobs topic
(docs/security.md#where-a-feed-may-write).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.lifecycle.job_records import StateRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, OutputTopics, TopicOrigin
from tidegate.changefeed.lifecycle.registration import Answers
from tidegate.client.topic_ownership import Shares, any_topics, wanted_topics, written_on
from tidegate.hlc import Timestamp


@dataclass(frozen=True, slots=True)
class OwnTopics:
    """The topics that a feed wants, and that feeds of its application have, or had, on its cluster.

    ``created`` are names and ids of topics that the application created. ``announced`` are names of topics
    that it was about to create. ``unidentified`` are topics of feeds that ran before ids were stored, which
    are known by name alone. ``written_to`` is a timestamp: on all of these topics, each marker and each row
    of a feed that has ended is at or below it. It is ``None`` if no feed that has ended had one of them.
    """

    created: frozenset[tuple[str, str]] = frozenset()
    announced: frozenset[str] = frozenset()
    unidentified: frozenset[str] = frozenset()
    written_to: Timestamp | None = None

    @classmethod
    def of(
        cls,
        definition: FeedDefinition,
        jobs: JobsView,
        shares: Shares,
        answers: Callable[[FeedView], Answers] = lambda _: {},
    ) -> OwnTopics:
        """Return the topics that the feed may treat as its own.

        ``shares`` tells which feeds write to its cluster, ``answers`` what log partitions have answered last
        about a feed.
        """
        wanted = frozenset(wanted_topics(definition))
        feeds = _feeds(definition, wanted, jobs, shares)
        known = [(name, each) for name, each in _known(feeds) if name in wanted]
        return cls(
            created=frozenset((name, each.id) for name, each in known if each.origin is TopicOrigin.CREATED),
            announced=frozenset(name for name, each in known if each.origin is TopicOrigin.ANNOUNCED),
            unidentified=frozenset(
                name
                for feed in feeds
                if feed.definition is not None and feed.targets and not _stored(feed)
                for name in wanted.intersection(wanted_topics(feed.definition))
            ),
            written_to=written_on(wanted, feeds, answers),
        )

    def has(self, name: str, topic_id: str) -> bool:
        """Return whether the application created this very topic.

        An unidentified topic is known by its name alone.
        """
        return name in self.unidentified or (name, topic_id) in self.created


def named_topics(definition: FeedDefinition, topics: OutputTopics) -> dict[str, OutputTopic]:
    """Return what is stored of a feed's topics, by their names."""
    return dict(zip(wanted_topics(definition), topics, strict=False))


def _known(feeds: Iterable[FeedView]) -> Iterator[tuple[str, OutputTopic]]:
    for feed in feeds:
        if feed.definition is not None:
            for topics in _stored(feed):
                yield from named_topics(feed.definition, topics).items()


def _feeds(
    definition: FeedDefinition, wanted: Iterable[str], jobs: JobsView, shares: Shares
) -> list[FeedView]:
    """Return the feed itself, and the other feeds of its cluster that want or have a topic that it wants."""
    ids = {each for feeds in jobs.having(any_topics, wanted).values() for each in feeds}
    others = (jobs[each] for each in sorted(ids - {definition.id}))
    return [jobs[definition.id], *filter(shares, others)]


def _stored(feed: FeedView) -> list[OutputTopics]:
    """Return what the feed's records hold about its topics."""
    records: Iterable[StateRecord | TakeoverRecord | None] = (feed.state, feed.takeover)
    return [record.topics for record in records if record is not None and record.topics]
