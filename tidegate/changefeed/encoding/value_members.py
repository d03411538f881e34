"""The members that the values of a feed have around the columns of their rows.

The encoders of each envelope write these members. Readers check them here, so that a value which the feed
cannot have written does not pass for one of its own.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Final, NamedTuple

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.debezium_source import SOURCE_NAMES as DEBEZIUM_SOURCE
from tidegate.changefeed.encoding.enriched_source import CONSTANT_NAMES, source_stamps

_ANY: Final = frozenset({"key", "topic", "updated", "mvcc_timestamp"})


class Members(NamedTuple):
    """The members that an object must have, and those that it may have besides."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()

    def require(self, names: Set[str]) -> None:
        """Raise ``ValueError`` if the names are others."""
        if self.required <= names and names <= self.required | self.optional:
            return
        raise ValueError(f"it has {_listed(names)} where the feed writes {_listed(self.required)}")


class ValueMembers(NamedTuple):
    """The members of a value; ``None`` if the feed is not known.

    ``value`` are those beside the row; none for a row that stands by itself. ``metadata`` are those of the
    object among the columns of such a row; none if there is no such object. ``source`` are those of the
    member with that name.
    """

    value: Members
    metadata: frozenset[str] | None = None
    source: frozenset[str] | None = None


def value_members(options: FeedOptions) -> ValueMembers:
    """Return the members that every value of a feed has."""
    previous = _asked(before=options.shows_previous)
    places = _asked(key=options.key_in_value, topic=options.topic_in_value)
    stamps = _asked(updated=options.updated, mvcc_timestamp=options.mvcc_timestamp)
    nothing = frozenset[str]()
    match options.envelope:
        case Envelope.WRAPPED:
            return ValueMembers(Members(previous | places | stamps | {"after"}), nothing, nothing)
        case Envelope.BARE if options.format is Format.AVRO:
            return ValueMembers(Members(stamps | {"record"}), nothing, nothing)
        case Envelope.ROW | Envelope.BARE:
            return ValueMembers(Members(nothing), places | stamps, nothing)
        case Envelope.ENRICHED:
            told = CONSTANT_NAMES if options.enriched_source else nothing
            source = told | frozenset(source_stamps(options))
            beside = {"after", "op", "ts_ns"} | _asked(source=bool(source))
            return ValueMembers(Members(previous | places | beside), nothing, source)
        case Envelope.DEBEZIUM:
            members = frozenset({"after", "before", "op", "source", "ts_ms"})
            return ValueMembers(Members(members), nothing, DEBEZIUM_SOURCE)
        case Envelope.UPSERT | Envelope.KEY_ONLY:
            return ValueMembers(Members(nothing), nothing, nothing)


@cache
def any_members(envelope: Envelope, record_format: Format = Format.JSON) -> ValueMembers:
    """Return the members that values of an envelope may have, whatever the options of their feed."""
    after = frozenset({"after"})
    match envelope:
        case Envelope.WRAPPED:
            return ValueMembers(Members(after, _ANY | {"before"}))
        case Envelope.ENRICHED:
            return ValueMembers(
                Members(after | {"op"}, frozenset({"before", "key", "topic", "source", "ts_ns"}))
            )
        case Envelope.DEBEZIUM:
            return ValueMembers(Members(after | {"op"}, frozenset({"before", "source", "ts_ms"})))
        case Envelope.BARE if record_format is Format.AVRO:
            return ValueMembers(Members(frozenset({"record"}), frozenset({"updated", "mvcc_timestamp"})))
        case _:
            return ValueMembers(Members(frozenset()))


def _asked(**names: bool) -> frozenset[str]:
    return frozenset(name for name, asked in names.items() if asked)


def _listed(names: Set[str]) -> str:
    return ", ".join(sorted(names)) or "no members"
