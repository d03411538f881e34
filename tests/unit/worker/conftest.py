"""Why the process would have ended, for tests of what ends it."""

from __future__ import annotations

import pytest

import tidegate.worker.kafka.jobs_follower
import tidegate.worker.process.ending
from tests.unit.worker.ended_process import Ended


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Why the process would have ended."""
    told: list[BaseException] = []

    def end(error: BaseException) -> None:
        told.append(error)
        raise Ended from error

    monkeypatch.setattr(tidegate.worker.process.ending, "end_process", end)
    monkeypatch.setattr(tidegate.worker.kafka.jobs_follower, "end_process", end)
    return told
