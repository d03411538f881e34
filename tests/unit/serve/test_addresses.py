"""Addresses, and which of them need protection."""

from __future__ import annotations

import pytest

from tidegate.errors import SettingsError
from tidegate.serve.addresses import ListenAddress, read_address, require_protection


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:6875", "127.0.0.1", 6875, True),
        ("127.8.0.1:0", "127.8.0.1", 0, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:6875", "::1", 6875, True),
        ("0.0.0.0:6875", "0.0.0.0", 6875, False),
        ("[::]:6875", "::", 6875, False),
        ("10.0.0.1:6875", "10.0.0.1", 6875, False),
        ("localhost.example:6875", "localhost.example", 6875, False),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, loopback: bool) -> None:
    address = read_address(text)
    assert address == ListenAddress(host, port)
    assert address.is_loopback is loopback
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "6875", ":6875", "host:", "host:70000", "::1:6875", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="write host:port"):
        read_address(text)


def test_an_address_that_others_reach_needs_tls_and_a_secret() -> None:
    def require(host: str, *, tls: bool, secret: bool) -> None:
        require_protection(
            "web", ListenAddress(host, 1), has_tls=tls, has_secret=secret, option="--token-file"
        )

    require("127.0.0.1", tls=False, secret=False)
    require("10.0.0.1", tls=True, secret=True)
    for tls, secret, lacking in (
        (False, False, "--tls-cert and --tls-key and --token-file too"),
        (True, False, "it --token-file too"),
        (False, True, "it --tls-cert and --tls-key too"),
    ):
        with pytest.raises(SettingsError, match=lacking):
            require("10.0.0.1", tls=tls, secret=secret)
