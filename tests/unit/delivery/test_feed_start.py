"""Where a feed starts whose topics another feed had before."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.lifecycle.registration import Prepare
from tidegate.delivery.feed_start import begins
from tidegate.hlc import MAX_LOGICAL, ZERO, Timestamp

_FEED: Final = activation([HandTable.of(104, "rows").descriptor])
_DEFINED: Final = _FEED.definition
_APPLIED: Final = Timestamp(100, 7)
_NEW: Final = Prepare(_APPLIED, (), {}, is_from_now=True)


def _start(definition: FeedDefinition, prepared: Prepare, promised: Timestamp | None) -> Timestamp | None:
    return begins(definition, prepared, _FEED.targets, "", (), promised).start


@pytest.mark.parametrize(
    ("promised", "start"),
    [
        (ZERO, Timestamp(100, 8)),  # the former feed may have written the row of the newest version
        (Timestamp(100, 6), Timestamp(100, 8)),
        (_APPLIED, Timestamp(100, 8)),
        (Timestamp(150), Timestamp(150, 1)),
        (Timestamp(150, MAX_LOGICAL), Timestamp(151)),
    ],
)
def test_a_feed_from_the_present_starts_above_all_that_its_topics_have(
    promised: Timestamp, start: Timestamp
) -> None:
    assert _start(_DEFINED, _NEW, promised) == start
    assert start > max(promised, _APPLIED)


def test_on_topics_that_nobody_had_it_starts_at_the_newest_version() -> None:
    assert _start(_DEFINED, _NEW, None) == _APPLIED


def test_a_start_that_is_given_stays() -> None:
    """That of a feed with a cursor, of a backfill, or of a feed that began in an earlier epoch."""
    assert _start(_DEFINED, replace(_NEW, is_from_now=False), Timestamp(150)) == _APPLIED
