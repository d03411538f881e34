"""The former writers of an ended feed's markers are fenced on the cluster of its topics, and on no other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidegate.changefeed.definition.feed import FeedId
from tidegate.delivery.sink_fence import shut_out
from tidegate.errors import SinkHeld


class Fence:
    """A producer that is told the ids of clusters one after the other, and notes where it was opened."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = [*ids]
        self.opened: list[str] = []

    def cluster_id(self, topic: str) -> str:
        assert topic == "orders"
        return self._ids.pop(0)

    def open(self) -> None:
        self.opened.append("at " + "".join(self._ids[:1]))


def _shut_out(fence: Fence) -> None:
    shut_out([fence], FeedId("ended"), "sink:9092", "orders", "home")


def test_the_fence_is_opened_on_the_cluster_of_the_topics() -> None:
    fence = Fence(["home", "home"])
    _shut_out(fence)
    assert fence.opened == ["at home"]


def test_every_id_that_a_writer_may_have_is_fenced() -> None:
    fences = [Fence(["home", "home"]), Fence(["home", "home"])]
    shut_out(fences, FeedId("ended"), "sink:9092", "orders", "home")
    assert [fence.opened for fence in fences] == [["at home"], ["at home"]]


def test_another_cluster_hears_of_no_fence() -> None:
    fence = Fence(["away"])
    with pytest.raises(
        SinkHeld, match=r"feed ended.* cluster home, and at sink:9092 there is the cluster away"
    ):
        _shut_out(fence)
    assert fence.opened == []


def test_a_fence_that_another_cluster_may_have_taken_does_not_count() -> None:
    with pytest.raises(SinkHeld):
        _shut_out(Fence(["home", "away"]))
