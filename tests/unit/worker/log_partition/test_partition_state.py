"""Tests when the state of a log partition is not opened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tidegate.client.kafka.transaction import GivenUpError
from tidegate.worker.log_partition import partition_state
from tidegate.worker.log_partition.partition_state import PartitionState


class _Opened(Exception):
    """Something was opened."""


class _Stores:
    """Stores of which none may be opened."""

    def __init__(self, state: list[PartitionState] | None = None) -> None:
        self._state = state

    def open_copy(self, path: Path) -> Any:
        """Revoke the partition while its copy is opened, or fail."""
        if self._state is None:
            raise _Opened(path)
        self._state[0].abandon()
        return self


class _Runtime:
    settings = topology = machine = None

    @property
    def directory(self) -> Any:
        return self

    def partition(self, number: int) -> Path:
        """The directory of a partition."""
        return Path(str(number))


class _Writer:
    """A writer that tells whether it is opened, which fences the partition's next owner."""

    def __init__(self, *_: Any) -> None: ...

    def abandon(self) -> None:
        """See ``PartitionWriter``."""

    def open(self) -> int:
        """See ``PartitionWriter``."""
        raise _Opened


def _state(stores: Any) -> PartitionState:
    runtime: Any = _Runtime()
    return PartitionState(runtime, 5, stores)


def test_a_partition_that_was_revoked_while_its_restore_waited_is_not_opened() -> None:
    state = _state(_Stores())
    state.abandon()
    assert state.restore() is None


def test_a_partition_that_is_revoked_while_its_copy_is_opened_fences_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_state, "PartitionWriter", _Writer)
    states: list[PartitionState] = []
    states.append(_state(_Stores(states)))
    assert states[0].restore() is None


class _Waiting(_Writer):
    """A writer that waits for Kafka until it is given up."""

    def __init__(self, *_: Any) -> None:
        self.waits, self._given_up = Event(), Event()
        _WAITING.append(self)

    def abandon(self) -> None:
        """See ``PartitionWriter``."""
        self._given_up.set()

    def open(self) -> int:
        """See ``PartitionWriter``."""
        self.waits.set()
        assert self._given_up.wait(30)
        raise GivenUpError


_WAITING: list[_Waiting] = []


class _Copies:
    """Stores whose copies are empty."""

    def open_copy(self, _: Path) -> Any:
        """Open an empty copy."""
        return self

    def written_at_ms(self) -> None:
        """See ``LocalStore``."""


def test_a_partition_that_is_revoked_while_kafka_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_state, "PartitionWriter", _Waiting)
    state = _state(_Copies())
    with ThreadPoolExecutor(1) as threads:
        restoring = threads.submit(state.restore)
        while not _WAITING:
            pass
        assert _WAITING[0].waits.wait(30)
        state.abandon()
        assert restoring.result(30) is None
