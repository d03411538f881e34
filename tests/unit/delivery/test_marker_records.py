"""Markers that stand aside, and topics of rows that no broker knows (step R7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.unit.changefeed.feeds import TARGET
from tidegate.delivery.marker_records import MarkersAside, Place
from tidegate.errors import RecordRefused, TopicGone


def _unknown(_: Sequence[Place]) -> Mapping[Place, int]:
    raise TopicGone("no broker knows orders", "the topic orders was deleted")


def test_a_topic_is_gone_once_it_was_unknown_for_as_long_as_somebody_asked() -> None:
    aside = MarkersAside("resolved", [TARGET])
    for now in (0.0, 9.0, 18.0, 27.0):
        with pytest.raises(TopicGone):
            aside.ask(_unknown, lambda now=now: now)  # type: ignore[misc]
    with pytest.raises(RecordRefused, match="the topic orders was deleted"):
        aside.ask(_unknown, lambda: 36.0)


def test_time_in_which_nobody_asked_makes_no_topic_gone() -> None:
    """Two answers of one broker that has not heard of a topic say little, however far apart they are."""
    aside = MarkersAside("resolved", [TARGET])
    for now in (0.0, 600.0, 1_200.0):
        with pytest.raises(TopicGone):
            aside.ask(_unknown, lambda now=now: now)  # type: ignore[misc]
