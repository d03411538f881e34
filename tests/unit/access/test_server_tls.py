"""The TLS of a server of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.registry.certificates import Authority
from tidegate.access.server_tls import server_tls
from tidegate.errors import SettingsError

_NAMES = ("--tls-cert", "--tls-key")


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    pair, locked = authority.pair("server"), authority.pair("server", encrypted=True)
    for name, pem in (("cert", pair.cert), ("key", pair.key), ("locked", locked.key)):
        (tmp_path / name).write_bytes(pem)
    assert server_tls(None, None, _NAMES) is None
    assert server_tls(tmp_path / "cert", tmp_path / "key", _NAMES) is not None
    for key in (None, tmp_path / "none", tmp_path / "cert", tmp_path / "locked"):
        with pytest.raises(SettingsError, match="--tls-cert and --tls-key"):
            server_tls(tmp_path / "cert", key, _NAMES)
