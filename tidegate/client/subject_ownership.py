"""The subjects of a feed in its schema registry, and whether it may register schemas under them.

A subject is looked at without its ending, ``-key`` or ``-value``. Unless the feed has an
``avro_schema_prefix``, that is the name of a topic of its own. With one it may be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidegate.access.destinations import NOWHERE_ELSE, Destinations
from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.feed import LIVE, FeedDefinition, FeedId, FeedState, TableName
from tidegate.changefeed.definition.options import Envelope, ExistingTopics
from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.definition.table_topics import subject_stem, table_topic
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema
from tidegate.changefeed.encoding.encoder import marker_schemas
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
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
    says which topics the operator lets feeds write to, and holds for subjects that are not named as the
    feed's topic. ``destinations`` tells which URLs are one registry.
    """
    registry = _registry(definition)
    if registry is None:
        return
    taken = _taken(definition.id, registry, jobs, destinations)
    for stem, origin in subjects(definition):
        names, mend = f"{stem}-key and {stem}-value", f"choose another {_named_by(definition)}"
        if stem != origin.topic and not namespace.has(stem):
            raise FeedError(
                f"no feed may register schemas under {names}: the operator allows only subjects of topics "
                f"like {', '.join(namespace.patterns)} (output_topics); {mend}"
            )
        for owner, other in taken.get(stem, ()):
            if other != origin:
                raise FeedError(
                    f"feed {owner} registers schemas of its topic {other.topic} under {names} already or "
                    f"will soon, and a subject belongs to one feed; {mend}, or drop that feed"
                )


def new_subjects(definition: FeedDefinition, jobs: JobsView, destinations: Destinations) -> NewSubjects:
    """Return the subjects under which nobody else may have registered a schema before the feed begins.

    A subject that is named as the feed's topic is not among them: whose topic that is decides. Nor is one
    that belongs to the application, since a feed of it registered the first schema there, or one of a feed
    that may use what exists or has begun before.
    """
    registry, options = _registry(definition), definition.options
    if registry is None or options.existing_topics is ExistingTopics.USE or jobs[definition.id].targets:
        return NewSubjects()
    ours = _begun_with(registry, jobs, destinations)
    new = [stem for stem, origin in subjects(definition) if stem != origin.topic and stem not in ours]
    names = tuple(f"{stem}-{ending}" for stem in new for ending in ("key", "value"))
    return NewSubjects(names, _left_behind(definition) if names else ())


def _begun_with(registry: RegistryUri, jobs: JobsView, destinations: Destinations) -> set[str]:
    """Return the subjects of feeds that have begun, in this registry, and are no strangers'."""
    ours: set[str] = set()
    for _, feed in jobs.feeds():
        if feed.definition is None or not feed.targets:
            continue
        theirs = _registry(feed.definition)
        used = feed.definition.options.existing_topics is ExistingTopics.USE
        if theirs is not None and not used and destinations.is_one_registry(registry, theirs):
            ours.update(stem for stem, _ in subjects(feed.definition))
    return ours


def _left_behind(definition: FeedDefinition) -> tuple[SubjectSchema, ...]:
    """Return the schemas that an attempt to begin may have registered: those of markers, even if this feed
    has none."""
    among_rows = replace(definition.options, resolved_interval_ns=0, resolved_topic="")
    try:
        return tuple(marker_schemas(replace(definition, options=among_rows)))
    except FeedError:  # the feed fails by it where it begins
        return ()


def subjects(definition: FeedDefinition) -> Iterator[tuple[str, SchemaOrigin]]:
    """Yield the subjects of a feed in Avro, without their ending, and where their schemas come from."""
    options = definition.options
    for table in definition.tables:
        origin = SchemaOrigin(table_topic(table, options), table, options.envelope)
        yield subject_stem(table, options), origin


def _named_by(definition: FeedDefinition) -> str:
    return "avro_schema_prefix" if definition.options.avro_schema_prefix else "topic_prefix"


def _registry(definition: FeedDefinition) -> RegistryUri | None:
    """Return the registry of a feed; ``None`` for one that has none, or whose URL cannot be read, so that
    it never runs."""
    try:
        return definition.options.registry
    except StatementError:
        return None


def _taken(
    feed_id: FeedId, registry: RegistryUri, jobs: JobsView, destinations: Destinations
) -> dict[str, list[tuple[FeedId, SchemaOrigin]]]:
    taken: dict[str, list[tuple[FeedId, SchemaOrigin]]] = {}
    for other_id, other in jobs.feeds():
        if other.definition is None or not _goes_before(other_id, other, feed_id):
            continue
        theirs = _registry(other.definition)
        if theirs is not None and destinations.is_one_registry(registry, theirs):
            for stem, origin in subjects(other.definition):
                taken.setdefault(stem, []).append((other_id, origin))
    return taken


def _goes_before(other_id: FeedId, other: FeedView, feed_id: FeedId) -> bool:
    """Return whether another feed has its subjects, or gets them first."""
    if other_id == feed_id:
        return False
    return other.status in LIVE or (other.status is FeedState.PENDING and other_id < feed_id)
