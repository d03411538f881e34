"""``tidegate spark``: what is said where Spark's connector cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.cli.spark import _connector
from tidegate.errors import SettingsError


def test_a_connector_that_cannot_be_downloaded_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho 'java.net.UnknownHostException'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        SettingsError, match=r"could not be downloaded: Maven ended .*by --jars: .*"
    ) as refusal:
        _connector()
    assert len(str(refusal.value).splitlines()) == 1
    assert "UnknownHost" not in str(refusal.value)
