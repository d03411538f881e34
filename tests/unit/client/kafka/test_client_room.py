"""Tests how many clients the limits of the system leave for feeds."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tidegate.client.kafka.client_room import ClientRoom, allow_open_files, clients_for_feeds, clients_within
from tidegate.errors import ClientsExhausted


class Client:
    """Something that takes room while anything refers to it."""


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


@pytest.mark.parametrize("files", [None, 100_000])
def test_with_many_open_files_the_number_of_clients_is_the_bound_and_log_partitions_take_some(
    files: int | None,
) -> None:
    assert (clients_within(files, 0), clients_within(files, 64), clients_within(files, 1_000)) == (
        900,
        836,
        1,
    )


def test_the_examples_of_the_page_are_true() -> None:
    assert (clients_within(4_096, 0), clients_within(4_096, 8)) == (199, 194)


def test_a_client_takes_room_until_nothing_refers_to_it() -> None:
    room = ClientRoom(2)
    first, _second = room.opened(Client), room.opened(Client)
    with pytest.raises(ClientsExhausted, match=r"no room for another Kafka client \(2 are open for feeds\)"):
        room.opened(Client)
    del first
    assert isinstance(room.opened(Client), Client)


def test_a_client_that_cannot_be_made_takes_no_room() -> None:
    room = ClientRoom(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            room.opened(lambda: 1 // 0)
    assert isinstance(room.opened(Client), Client)
