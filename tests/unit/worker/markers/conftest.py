"""No process ends in these tests: a publisher that gives up would end that of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.worker.kafka import jobs_follower
from tidegate.worker.process import ending


@pytest.fixture(autouse=True)
def ended() -> Iterator[list[BaseException]]:
    """Give the reasons why the process would have ended. A test has to take out those that it expects."""
    reasons: list[BaseException] = []
    with pytest.MonkeyPatch.context() as until_the_end:  # whatever the test undoes
        until_the_end.setattr(ending, "end_process", reasons.append)
        until_the_end.setattr(jobs_follower, "end_process", reasons.append)
        yield reasons
    assert reasons == []
