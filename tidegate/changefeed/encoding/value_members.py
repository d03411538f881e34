"""The members that the values of a feed have around the columns of their rows.

Each envelope says which members it writes (`envelopes/`). Readers check them here, so that a value which the
feed cannot have written is refused.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from tidegate.changefeed.definition.options import FeedOptions


class Members(NamedTuple):
    """The members that an object must have, and those that it may have besides."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()

    def require(self, names: Set[str]) -> None:
        """Raise ``ValueError`` if a required name is missing, or a name is none of the members."""
        if self.required <= names and names <= self.required | self.optional:
            return
        raise ValueError(f"it has {_listed(names)} where the feed writes {_listed(self.required)}")


class ValueMembers(NamedTuple):
    """The members of a value.

    ``value`` has the members beside the row; it has none if the value is the row itself. ``metadata`` has the
    members of the metadata object that stands among the columns of such a row; it is empty if there is no
    such object. ``source`` has the members of the member ``source``. ``metadata`` and ``source`` are ``None``
    if the feed is not known.
    """

    value: Members
    metadata: frozenset[str] | None = None
    source: frozenset[str] | None = None


#: A row by itself, with nothing beside its columns.
ROW_ALONE: Final = ValueMembers(Members(frozenset()), frozenset(), frozenset())
#: A row by itself, with metadata or without, if the feed is not known.
ANY_ROW: Final = ValueMembers(Members(frozenset()))


def stamp_names(options: FeedOptions) -> frozenset[str]:
    """Return the timestamps that a feed asks for."""
    return asked(updated=options.updated, mvcc_timestamp=options.mvcc_timestamp)


def place_names(options: FeedOptions) -> frozenset[str]:
    """Return which of key and topic a feed asks for."""
    return asked(key=options.key_in_value, topic=options.topic_in_value)


def asked(**names: bool) -> frozenset[str]:
    """Return the names of the arguments that are true."""
    return frozenset(name for name, asked in names.items() if asked)


def _listed(names: Set[str]) -> str:
    return ", ".join(sorted(names)) or "no members"
