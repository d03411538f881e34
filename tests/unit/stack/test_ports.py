from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from stack import ports as ports_module
from stack.errors import AddressRefused, PortTaken
from stack.places import CHECKOUT
from stack.ports import LOOPBACK, accepts_connections, choose_port, host_and_port, is_free

# Chooses a port, tells it, and ends once it is told to.
_CHOOSES = """
from stack.ports import choose_port
print(choose_port(), flush=True)
input()
"""


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


@pytest.fixture
def two_ports(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The only ports that there are to choose from; nobody listens there, and nobody else has chosen them."""
    first = choose_port()
    while not ports_module._keep(first + 1):
        first = choose_port()
    ports = {first, first + 1}
    for name, value in {"_FIRST": min(ports), "_LAST": max(ports), "_ATTEMPTS": 2}.items():
        monkeypatch.setattr(ports_module, name, value)
    monkeypatch.setattr(ports_module, "_kept", set())
    monkeypatch.setattr(ports_module, "is_free", lambda port: True)
    return ports


def test_a_port_that_is_spoken_for_is_not_chosen(two_ports: set[int]) -> None:
    assert choose_port(other_than=min(two_ports)) == max(two_ports)


def test_a_port_is_chosen_once(two_ports: set[int]) -> None:
    """Its server may not have begun to listen, or may be stopped for a while."""
    assert {choose_port(), choose_port()} == two_ports
    with pytest.raises(PortTaken, match="None of 2 ports tried"):
        choose_port()


def test_a_port_that_another_process_has_chosen_is_not_chosen_while_that_one_lives() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHOOSES],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as chooser:
        assert chooser.stdout is not None
        port = int(chooser.stdout.readline())
        assert not ports_module._keep(port)
        chooser.communicate("\n")
    assert ports_module._keep(port)


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


@pytest.mark.parametrize(
    "address",
    ["", "localhost", ":20417", "http://127.0.0.1/apis", "kafka:99999", "kafka:port", "[::1", "kafka:9092:1"],
)
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    for asked in (host_and_port, accepts_connections):
        with pytest.raises(AddressRefused, match="names no host and port: write both"):
            asked(address)


def test_the_refusal_of_an_address_does_not_show_its_password() -> None:
    with pytest.raises(AddressRefused) as refused:
        host_and_port("postgresql://ada:hush@127.0.0.1/database")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "\udcff"])
def test_nothing_listens_at_a_name_that_no_machine_can_have(host: str) -> None:
    assert not accepts_connections(f"{host}:20417")
