"""The ends of partitions, as new leaders name them."""

from __future__ import annotations

from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.settled_bounds import settled_bounds


def test_an_end_that_is_lower_for_a_moment_is_asked_for_again() -> None:
    answers, waited = iter([4, 4, 6]), list[float]()
    found = settled_bounds(lambda: {"a": Bounds(0, next(answers))}, {"a": 5}, waited.append)
    assert found == {"a": Bounds(0, 6)}
    assert waited == [1, 1]


def test_an_end_that_stays_lower_is_returned() -> None:
    waited: list[float] = []
    assert settled_bounds(lambda: {"a": Bounds(0, 4)}, {"a": 5}, waited.append) == {"a": Bounds(0, 4)}
    assert sum(waited) == 9


def test_a_partition_that_was_not_read_may_end_anywhere() -> None:
    assert settled_bounds(lambda: {"a": Bounds(0, 4)}, {}, lambda _: None) == {"a": Bounds(0, 4)}
