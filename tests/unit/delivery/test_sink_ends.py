"""Ends of topics count where the cluster of the feed's topics has told them, and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_ends import ends_on
from tidegate.errors import RetryError, SinkHeld

_PLACES = [("orders", 0), ("orders", 1)]


class Client:
    """Tells these ends, and is asked for the id behind them."""

    def __init__(self, found: str | Exception) -> None:
        self._found = found
        self.asked: list[object] = []

    def ends(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self.asked.append(places)
        return dict.fromkeys(places, 7)

    def only_cluster(self, topic: str) -> str:
        self.asked.append(topic)
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def _ends(client: Client) -> Mapping[Place, int]:
    return ends_on("home", client, _PLACES, lambda found: f"{found} is there")


def test_ends_count_when_their_cluster_is_known_behind_them() -> None:
    client = Client("home")
    assert _ends(client) == dict.fromkeys(_PLACES, 7)
    assert client.asked == [_PLACES, "orders"]


def test_ends_of_another_cluster_do_not_count() -> None:
    with pytest.raises(SinkHeld, match="away is there"):
        _ends(Client("away"))


@pytest.mark.parametrize("error", [RetryError("no answer"), SinkHeld("another cluster was there")])
def test_ends_of_nobody_knows_whom_do_not_count(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        _ends(Client(error))
