"""A changelog is read to its end, whatever the client tells on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from tidegate.processor.batch import StateChange, StateTable
from tidegate.worker.process.settings import Settings
from tidegate.worker.state.changelog import Changelog, ChangelogReader

_CHANGELOG = Changelog(StateTable.RANGES, "ranges", "id-of-ranges")


class _Message:
    """A message of the client. Without a topic it is an error of the client itself."""

    def __init__(self, offset: int, error: int | None = None, topic: str | None = "ranges") -> None:
        self._offset, self._error, self._topic = offset, error, topic

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"\x00" * 8

    def value(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return None if self._error is None else KafkaError(self._error)


class _Copy:
    """A copy of state that is empty at first."""

    def __init__(self) -> None:
        self.positions_: dict[StateTable, tuple[str, int]] = {}

    def written_at_ms(self) -> None:
        return None

    def positions(self) -> dict[StateTable, tuple[str, int]]:
        return self.positions_

    def clear(self) -> None:
        self.positions_.clear()

    def write(
        self, changes: Iterator[StateChange], positions: Mapping[StateTable, tuple[str, int]], at_ms: int
    ) -> None:
        self.positions_.update(positions)


def test_an_error_that_names_no_topic_is_waited_for() -> None:
    polls = [
        [_Message(0)],
        [_Message(-1001, KafkaError._ALL_BROKERS_DOWN, topic=None)],
        [_Message(1, KafkaError._PARTITION_EOF)],
    ]
    consumer = SimpleNamespace(assign=lambda _: None, consume=lambda *_: polls.pop(0))
    machine: Any = SimpleNamespace(consumer=lambda _: consumer)
    copy = _Copy()
    ChangelogReader(Settings(app_id="app"), (_CHANGELOG,), 0, machine).catch_up(copy)
    assert copy.positions() == {StateTable.RANGES: ("id-of-ranges", 1)}
