"""The subjects of a feed in its schema registry, and whether it may register schemas under them.

A subject is looked at without its ending, ``-key`` or ``-value``. If the feed has no ``avro_schema_prefix``,
the subject without its ending is the name of one of the feed's own topics. If it has one, that may be the
name of anybody's topic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import merge
from itertools import chain

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.feed import LIVE, FeedDefinition, FeedId, FeedState, TableName
from tidegate.changefeed.definition.options import Envelope, ExistingTopics
from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.definition.table_topics import subject_stem, table_topic
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.feeds_by_name import FeedIds
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView, NamesOf
from tidegate.errors import FeedError, StatementError


@dataclass(frozen=True, slots=True)
class SchemaOrigin:
    """The origin of a subject's schemas. Two feeds of one origin register schemas that fit each other: they
    write the same table to topics of the same name, on two clusters."""

    topic: str
    table: TableName
    envelope: Envelope


def check_subjects(
    definition: FeedDefinition,
    jobs: JobsView,
    namespace: OutputNamespace = EVERYWHERE,
    destinations: Destinations = NOWHERE_ELSE,
) -> None:
    """Raise ``FeedError`` for a subject that another feed has, or that the operator does not let feeds have.

    Of two feeds that both wait for their start, the one with the lower id gets the subject. ``namespace``
    says which topics the operator lets feeds write to, and which subjects they may have that do not have the
    name of the feed's topic. ``destinations`` tells which URLs are one registry.
    """
    registry = _registry(definition)
    if registry is None:
        return
    holders = _Holders(definition, registry, jobs, destinations)
    for stem, origin in subjects(definition):
        names, mend = f"{stem}-key and {stem}-value", f"choose another {_named_by(definition)}"
        if stem != origin.topic and not namespace.has(stem):
            raise FeedError(
                f"no feed may register schemas under {names}: the operator allows only subjects of topics "
                f"like {', '.join(namespace.patterns)} (output_topics); {mend}"
            )
        for owner, other in holders.of(stem):
            if other != origin:
                raise FeedError(
                    f"feed {owner} registers schemas of its topic {other.topic} under {names} already or "
                    f"will soon, and a subject belongs to one feed; {mend}, or drop that feed"
                )


def new_subjects(definition: FeedDefinition, jobs: JobsView, destinations: Destinations) -> NewSubjects:
    """Return the subjects under which nobody else may have registered a schema before the feed begins.

    These are not among them:
    * a subject with the name of the feed's topic: the owner of the topic owns the subject;
    * a subject that belongs to the application, since one of its feeds registered the first schema there;
    * all subjects of a feed that may use what exists, or that has begun before.
    """
    registry, options = _registry(definition), definition.options
    if registry is None or options.existing_topics is ExistingTopics.USE or jobs[definition.id].targets:
        return NewSubjects()
    strange = [stem for stem, origin in subjects(definition) if stem != origin.topic]
    begun = _feeds_by_stem(registry, strange, jobs, destinations, _has_begun)
    new = [stem for stem in strange if not any(begun[stem])]
    names = tuple(f"{stem}-{ending}" for stem in new for ending in ("key", "value"))
    return NewSubjects(names, _left_behind(definition) if names else ())


class _Holders:
    """The feeds that have the subjects of a feed in its registry, or get them before it."""

    def __init__(
        self, definition: FeedDefinition, registry: RegistryUri, jobs: JobsView, destinations: Destinations
    ) -> None:
        stems = [stem for stem, _ in subjects(definition)]
        self._id = definition.id
        self._jobs = jobs
        self._held = _feeds_by_stem(registry, stems, jobs, destinations, _is_held)
        self._awaited = _feeds_by_stem(registry, stems, jobs, destinations, _is_awaited)
        self._origins: dict[FeedId, dict[str, list[SchemaOrigin]]] = {}

    def of(self, stem: str) -> Iterator[tuple[FeedId, SchemaOrigin]]:
        """Yield the id of each feed with the subject, lowest first, and the origin of its schemas there."""
        earlier = (feeds[: bisect_left(feeds, self._id)] for feeds in self._awaited[stem])
        for owner in merge(*self._held[stem], *earlier):
            if owner != self._id:
                yield from ((owner, origin) for origin in self._origins_of(owner).get(stem, ()))

    def _origins_of(self, owner: FeedId) -> dict[str, list[SchemaOrigin]]:
        if owner not in self._origins:
            found: dict[str, list[SchemaOrigin]] = {}
            definition = self._jobs[owner].definition
            for stem, origin in () if definition is None else subjects(definition):
                found.setdefault(stem, []).append(origin)
            self._origins[owner] = found
        return self._origins[owner]


def _left_behind(definition: FeedDefinition) -> tuple[SubjectSchema, ...]:
    """Return the schemas that an attempt to begin may have registered: those of markers, even if this feed
    has no markers.
    """
    among_rows = replace(definition.options, resolved_interval_ns=0, resolved_topic="")
    try:
        return tuple(marker_schemas(replace(definition, options=among_rows)))
    except FeedError:  # the feed fails by this error when it begins
        return ()


def subjects(definition: FeedDefinition) -> Iterator[tuple[str, SchemaOrigin]]:
    """Yield the subjects of a feed in Avro, without their ending, each with the origin of its schemas."""
    options = definition.options
    for table in definition.tables:
        origin = SchemaOrigin(table_topic(table, options), table, options.envelope)
        yield subject_stem(table, options), origin


def _named_by(definition: FeedDefinition) -> str:
    return "avro_schema_prefix" if definition.options.avro_schema_prefix else "topic_prefix"


def _registry(definition: FeedDefinition) -> RegistryUri | None:
    """Return the registry of a feed; ``None`` if it has none, or if the registry's URL cannot be read: then
    the feed never runs.
    """
    try:
        return definition.options.registry
    except StatementError:
        return None


def _is_held(feed: FeedView) -> bool:
    return feed.status in LIVE


def _is_awaited(feed: FeedView) -> bool:
    """Return whether the feed waits for its start: then no later feed gets its subjects."""
    return feed.status is FeedState.PENDING


def _has_begun(feed: FeedView) -> bool:
    """Return whether the feed has begun, and was not told to use what existed."""
    definition = feed.definition
    used = definition is not None and definition.options.existing_topics is ExistingTopics.USE
    return bool(feed.targets) and not used


@lru_cache(maxsize=32)  # one for each `is_one`, with the entries of a process
def _subjects_of(is_one: Callable[[FeedView], bool], destinations: Destinations) -> NamesOf:
    """Return a function that returns the subjects of a feed for which ``is_one`` is true, each with the names
    of its registry.
    """

    def names(feed: FeedView) -> Iterable[str]:
        definition = feed.definition
        registry = None if definition is None or not is_one(feed) else _registry(definition)
        if definition is None or registry is None:
            return
        known = destinations.names_of_registry(registry)
        for stem, _ in subjects(definition):
            yield from _in_registry(stem, known)

    return names


def _in_registry(stem: str, names_of_registry: Iterable[str]) -> list[str]:
    return [f"{name} {stem}" for name in names_of_registry]


def _feeds_by_stem(
    registry: RegistryUri,
    stems: Iterable[str],
    jobs: JobsView,
    destinations: Destinations,
    is_one: Callable[[FeedView], bool],
) -> dict[str, list[FeedIds]]:
    """Return, for each subject, the feeds that have it in the registry and for which ``is_one`` is true.

    There is one list for each name of the registry.
    """
    known = destinations.names_of_registry(registry)
    names = {stem: _in_registry(stem, known) for stem in stems}
    feeds = jobs.having(_subjects_of(is_one, destinations), chain.from_iterable(names.values()))
    return {stem: [feeds[name] for name in some] for stem, some in names.items()}
