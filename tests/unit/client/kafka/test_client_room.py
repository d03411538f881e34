"""Tests how many clients the limits of the system leave for the markers of feeds."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tidegate.client.kafka.client_room import allow_open_files, clients_for_feeds


@pytest.fixture
def limits() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("limits")
def test_few_open_files_leave_room_for_few_feeds_until_the_limit_is_raised() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    assert (clients_for_feeds(), clients_for_feeds(8), clients_for_feeds(64)) == (46, 40, 1)
    allow_open_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.usefixtures("limits")
def test_log_partitions_of_a_worker_take_clients_too() -> None:
    allow_open_files()
    assert clients_for_feeds() - clients_for_feeds(64) == 64
