"""What every engine makes of rows that a sink does not take: docs/protocols/refused-rows.md, R4b and R7."""

from __future__ import annotations

from typing import Final

from tidegate.errors import FeedError, RowRefused

#: How long a topic may be unknown before it counts as gone; seconds. librdkafka looks as long for a topic
#: before it refuses the topic's rows.
UNKNOWN_FOR_S: Final = 30.0
#: A row counts as refused once so many producers had an answer for it that is not known to be for good, and
#: so many seconds have passed since the first one.
PRODUCERS: Final = 5
DOUBTED_FOR_S: Final = 15.0


def refused_at_last(doubt: str) -> RowRefused:
    """Return why a feed fails whose row had such an answer each time. ``doubt`` is the last answer."""
    return RowRefused(
        f"{doubt}. At least {PRODUCERS} producers had an answer like that, so the row counts as refused. "
        "Mend that, "
        "then create the feed again"
    )


def rows_broke(reason: FeedError) -> RowRefused:
    """Return why a feed fails whose rows cannot be handed over, since an exception comes then.

    ``reason`` is the exception's sentence.
    """
    return RowRefused(f"the feed's rows cannot be handed over: {reason}")
