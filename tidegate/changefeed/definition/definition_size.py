"""Bounds the size of a feed's definition (docs/protocols/record-bounds.md).

Some records of a feed hold its whole definition, others its targets (`FeedTarget`). The control message that
starts a feed holds both. Each of these has to fit into one record of Kafka, or the process that writes it
cannot go on. So a definition that is too large is refused before anything is stored.
"""

from __future__ import annotations

import json
from typing import Final

from tidegate.changefeed.definition.feed import FeedDefinition

#: The most bytes that a record of a feed may take. A broker accepts a little more by default; the difference
#: is room for the record's frame and key.
FEED_RECORD_BYTES: Final = 950_000
#: The most bytes of a stored `FeedTarget` without the name of its table: the topic's name, the ids, and where
#: the table's keys begin and end, in hexadecimal.
_TARGET_BYTES: Final = 600


def record_bytes(definition: FeedDefinition) -> int:
    """Return the most bytes that any record of the feed can have.

    A record may have a table's name twice: in the definition and in the targets. So the definition counts
    twice.
    """
    stored = len(
        json.dumps(definition.to_json(), ensure_ascii=False, separators=(",", ":")).encode(
            errors="surrogatepass"
        )
    )
    return 2 * stored + _TARGET_BYTES * len(definition.tables)


def size_fault(definition: FeedDefinition) -> str:
    """Return a sentence that says why the definition is too large; empty when it is not."""
    needed = record_bytes(definition)
    if needed <= FEED_RECORD_BYTES:
        return ""
    return (
        f"the definition of this feed, with {len(definition.tables)} tables, is too large: the records that "
        f"are kept of it would have up to {needed} bytes, and {FEED_RECORD_BYTES} are possible. Nothing was "
        "created: divide the tables among several feeds, or shorten the statement's options"
    )
