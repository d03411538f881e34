"""Brings the local copy of a partition's state up to date with its changelogs (step O2).

Faust's recovery is not used. It waits for the record at the offset before the end. In a topic of transactions
that is a control record, which a consumer never gets (docs/design/2026-11-21-own-state-recovery.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import structlog
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from tidegate.client.kafka.topic_admin import insist
from tidegate.client.kafka.topics import TOMBSTONES_KEPT_MS
from tidegate.errors import ForeignRecord, StateError
from tidegate.processor.batch import StateChange, StateTable
from tidegate.processor.state.row_shape import is_shaped
from tidegate.worker.kafka.foreign_records import report_foreign
from tidegate.worker.kafka.own_reader import is_end, is_record, open_reader, trouble
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_RECORDS: Final = 10_000
_WAIT_S: Final = 0.1
_REQUEST_S: Final = 10.0
_BEGINNING: Final = ("", OFFSET_BEGINNING)
_TRUSTED_MS: Final = TOMBSTONES_KEPT_MS // 2

_log = structlog.get_logger("tidegate.changelog")


class LocalCopy(Protocol):
    """The part of the local copy that the reader uses. A position has a topic's id and the next offset."""

    def positions(self) -> Mapping[StateTable, tuple[str, int]]: ...
    def written_at_ms(self) -> int | None: ...
    def write(
        self,
        changes: Iterator[StateChange],
        positions: Mapping[StateTable, tuple[str, int]],
        now_ms: int,
    ) -> None: ...
    def clear(self) -> None: ...


class Changelog(NamedTuple):
    """The changelog topic of one table."""

    table: StateTable
    topic: str
    topic_id: str


class ChangelogReader:
    """Reads the changelogs of one log partition, once for each opening. Its methods block."""

    def __init__(
        self,
        settings: Settings,
        changelogs: tuple[Changelog, ...],
        partition: int,
        machine: Machine = REAL,
    ) -> None:
        self._changelogs = changelogs
        self._partition = partition
        self._abandoned = threading.Event()
        self._consumer = open_reader(
            settings,
            "restore",
            machine,
            isolation_level="read_committed",
            auto_offset_reset="error",
            fetch_wait_max_ms=50,
        )

    def catch_up(self, copy: LocalCopy) -> int:
        """Read every changelog to its end into ``copy``. Returns how many rows were read.

        The end is final only if the predecessor was fenced before. A copy that belongs to none of these
        topics, or that is too old to trust, is cleared, and the changelogs are read from the beginning.
        Raises ``StateError`` if the copy belongs to some of the topics only: then the rows of the other
        topics are lost.
        """
        self._refuse_mixture(copy)
        doubt = self._doubt(copy)
        if doubt is not None:
            _log.info("state is read from its beginning", partition=self._partition, because=doubt)
            copy.clear()
        positions = copy.positions()
        self._consumer.assign(
            [
                TopicPartition(log.topic, self._partition, positions.get(log.table, _BEGINNING)[1])
                for log in self._changelogs
            ]
        )
        return sum(self._copy(copy, messages) for messages in self._to_the_end())

    def abandon(self) -> None:
        """Stop reading; the copy must not be used then. Another thread may call this."""
        self._abandoned.set()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _refuse_mixture(self, copy: LocalCopy) -> None:
        """Raise ``StateError`` if the copy belongs to some of the topics only.

        Rows of one table without those of the others would be a state that never existed.
        """
        positions = copy.positions()
        foreign = [
            log.topic
            for log in self._changelogs
            if log.table in positions and positions[log.table][0] != log.topic_id
        ]
        if foreign and len(foreign) < len(positions):
            raise StateError(
                f"{', '.join(foreign)} is not the topic that the state of partition {self._partition} was "
                "written to: it was deleted and created again, and the application's other changelogs were "
                "not, so the state cannot be read as a whole. Nothing was changed. Restore that topic; or "
                "stop all workers and delete all changelogs of the application and the data directories: the "
                "state is built again from the log then, and feeds that say so are to be created again"
            )

    def _doubt(self, copy: LocalCopy) -> str | None:
        """Return why the copy cannot be trusted; ``None`` if it can."""
        written_ms = copy.written_at_ms()
        if written_ms is None:
            return "there is no local copy"
        if _now_ms() - written_ms > _TRUSTED_MS:
            return "the local copy is older than tombstones are kept for sure"
        for table, (topic_id, offset) in copy.positions().items():
            changelog = next(log for log in self._changelogs if log.table is table)
            low, high = self._bounds(changelog)
            if topic_id != changelog.topic_id:
                return f"{changelog.topic} was deleted and created again"
            if not low <= offset <= high:
                return f"{changelog.topic} holds offsets {low} to {high}, not {offset}"
        return None

    def _bounds(self, changelog: Changelog) -> tuple[int, int]:
        place = TopicPartition(changelog.topic, self._partition)
        low, high = insist(
            f"bounds of the changelog {changelog.topic}, partition {self._partition}",
            lambda: self._consumer.get_watermark_offsets(place, timeout=_REQUEST_S),
            lambda: self._consumer.list_topics(changelog.topic, timeout=_REQUEST_S),
            "Look whether the topic was deleted, and whether the worker's user may read it",
        )
        return low, high

    def _to_the_end(self) -> Iterator[list[Any]]:
        """Yield messages until every changelog is read to its end. An end is a message with an error."""
        reading = {changelog.topic for changelog in self._changelogs}
        while reading and not self._abandoned.is_set():
            messages = self._consumer.consume(_RECORDS, _WAIT_S)
            for message in messages:
                if cause := trouble(message, f"A changelog of partition {self._partition}"):
                    _log.warning("restoring state waits for Kafka", partition=self._partition, cause=cause)
                elif is_end(message):
                    reading.discard(message.topic())
            yield messages

    def _copy(self, copy: LocalCopy, messages: list[Any]) -> int:
        by_topic = {changelog.topic: changelog for changelog in self._changelogs}
        changes: list[StateChange] = []
        positions: dict[StateTable, tuple[str, int]] = {}
        for message in messages:
            if is_record(message):
                changelog = by_topic[message.topic()]
                change = StateChange(changelog.table, message.key(), message.value())
                if is_shaped(*change):
                    changes.append(change)
                else:
                    foreign = ForeignRecord("it does not have the form of a row: tidegate did not write it")
                    report_foreign(message.topic(), message.partition(), message.offset(), foreign)
                positions[changelog.table] = (changelog.topic_id, message.offset() + 1)
            elif is_end(message):
                changelog = by_topic[message.topic()]
                positions[changelog.table] = (changelog.topic_id, message.offset())
        if positions:
            copy.write(iter(changes), positions, _now_ms())
        return len(changes)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
