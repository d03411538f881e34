"""What every engine does about rows that a sink does not take: docs/protocols/refused-rows.md, R4b and R7."""

from __future__ import annotations

from typing import Final

from tidegate.errors import FeedError, RowRefused

#: How long a topic may be unknown before it counts as gone; seconds. librdkafka looks for a topic for
#: the same time before it refuses the topic's rows.
UNKNOWN_FOR_S: Final = 30.0
#: A broker may answer that it does not take a row, and take the row later all the same. A row counts as
#: refused once ``PRODUCERS`` producers had this answer for it, and ``DOUBTED_FOR_S`` seconds have passed
#: since the first of these answers.
PRODUCERS: Final = 5
DOUBTED_FOR_S: Final = 15.0


def refused_at_last(doubt: str) -> RowRefused:
    """Return why a feed fails: ``PRODUCERS`` producers had the answer that its row is not taken.

    ``doubt`` is the last of these answers, as a clause.
    """
    return RowRefused(
        f"{doubt}. At least {PRODUCERS} producers had an answer like that, so the row counts as refused. "
        "Mend that, then create the feed again"
    )


def rows_broke(reason: FeedError) -> RowRefused:
    """Return why a feed fails: handing its rows over raised an exception. ``reason`` is the exception's."""
    return RowRefused(f"the feed's rows cannot be handed over: {reason}")
