"""Definitions of feeds that no command stores, since it refuses their statements: another client may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tests.feeds import activation
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO
from tidegate.rows import TableDescriptor


class Definition(NamedTuple):
    """A definition by its options. ``stored`` is said before a partition is told, ``told`` by one that is."""

    name: str
    broke: str
    options: FeedOptions
    with_: str
    stored: str
    told: str

    def activation(self, tables: Sequence[TableDescriptor], feed_id: FeedId) -> Activate:
        """The control message that starts the feed, with the definition as its statement made it."""
        message = activation(tables, self.options, start=ZERO, feed_id=feed_id)
        description = f"{message.definition.description} WITH {self.with_}"
        return replace(message, definition=replace(message.definition, description=description))


_LONG: Final = "k" * 400_000

DEFINITIONS: Final = (
    Definition(
        "key_column of 400 KB",
        "Definition and control message have 800 KB: both fit into a record, and every partition kept them.",
        FeedOptions(unordered=True, key_column=_LONG),
        f"unordered, key_column='{_LONG}'",
        "the definition of this feed, with 1 tables, is too large",
        "required column kkk",
    ),
)
