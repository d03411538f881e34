"""Fixtures for tests of what ends the process, and a cluster besides the shared broker's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidegate.worker.kafka.jobs_follower
import tidegate.worker.process.ending
from stack.kafka import KafkaBroker
from tests.shared_broker import PATIENT
from tests.unit.worker.ended_process import Ended


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Give the reasons why the process would have ended."""
    told: list[BaseException] = []

    def end(error: BaseException) -> None:
        told.append(error)
        raise Ended from error

    monkeypatch.setattr(tidegate.worker.process.ending, "end_process", end)
    monkeypatch.setattr(tidegate.worker.kafka.jobs_follower, "end_process", end)
    return told


@pytest.fixture(scope="session")
def other_broker() -> Iterator[KafkaBroker]:
    """Another cluster. A test that stops it starts it again."""
    with KafkaBroker(settings=PATIENT) as running:
        yield running
