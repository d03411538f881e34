"""How large the definition of a feed may be (docs/delivery.md#what-bounds-a-record).

Workers keep records of a feed that hold its whole definition, others that hold its resolved tables, and one,
the control message that lets it begin, with both. Each has to fit into one record of Kafka, or the process
that writes it could not go on. So a definition that is too large is refused before anything is stored.
"""

from __future__ import annotations

import json
from typing import Final

from tidegate.changefeed.definition.feed import FeedDefinition

#: The most bytes that a record of a feed may take: what a broker takes by default, less its frame and keys.
FEED_RECORD_BYTES: Final = 950_000
#: The most bytes of a resolved table beside its name: its topic's name, its ids, and where its keys begin and
#: end, in hexadecimal.
_TARGET_BYTES: Final = 600


def record_bytes(definition: FeedDefinition) -> int:
    """The most bytes that any record of the feed can have: names stand in its definition and its targets."""
    stored = len(
        json.dumps(definition.to_json(), ensure_ascii=False, separators=(",", ":")).encode(
            errors="surrogatepass"
        )
    )
    return 2 * stored + _TARGET_BYTES * len(definition.tables)


def size_fault(definition: FeedDefinition) -> str:
    """Why the definition is too large to be stored, as a sentence; empty when it is not."""
    needed = record_bytes(definition)
    if needed <= FEED_RECORD_BYTES:
        return ""
    return (
        f"the definition of this feed, with {len(definition.tables)} tables, is too large: the records that "
        f"are kept of it would have up to {needed} bytes, and {FEED_RECORD_BYTES} are possible. Nothing was "
        "created: divide the tables among several feeds, or shorten the statement's options"
    )
