from __future__ import annotations

import socket

import pytest

from stack.errors import PortTaken
from stack.ports import LOOPBACK, accepts_connections, choose_port, host_and_port, is_free


def test_a_chosen_port_can_be_listened_on() -> None:
    with socket.create_server((LOOPBACK, choose_port())):
        pass


def test_a_chosen_port_is_outside_the_range_of_outgoing_connections() -> None:
    assert all(20_000 <= choose_port() < 30_000 for _ in range(20))


def test_a_free_port_that_is_wanted_is_kept() -> None:
    port = choose_port()
    assert choose_port(port) == port


def test_a_taken_port_is_refused_with_the_way_out() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(PortTaken, match=rf"Port {port} on 127\.0\.0\.1 is taken.*name another port"):
            choose_port(port)


def test_a_port_that_is_spoken_for_is_not_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.ports._FIRST", 20_500)
    monkeypatch.setattr("stack.ports._LAST", 20_501)
    monkeypatch.setattr("stack.ports._ATTEMPTS", 2)
    monkeypatch.setattr("stack.ports.is_free", lambda port: True)
    assert {choose_port(other_than=20_500) for _ in range(20)} == {20_501}


def test_a_port_left_by_a_closed_connection_is_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection((LOOPBACK, port))
        served = listener.accept()[0]
        served.close()  # closed first on the server's side: its end goes to TIME_WAIT
        client.close()
    assert is_free(port)


def test_connections_are_accepted_only_where_something_listens() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        address = f"{LOOPBACK}:{listener.getsockname()[1]}"
        assert accepts_connections(address)
    assert not accepts_connections(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:20417", "http://127.0.0.1:20417/apis", "postgresql://user@127.0.0.1:20417/database"],
)
def test_every_form_of_an_address_says_where_to_connect(address: str) -> None:
    assert host_and_port(address) == ("127.0.0.1", 20417)


@pytest.mark.parametrize("address", ["localhost", ":20417", "http://127.0.0.1/apis"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="names no host and port"):
        host_and_port(address)
