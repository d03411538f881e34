"""Tests what `make supply` finds."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from stack.pinned import sha256_of
from supply.check import differences
from supply.refusal import pip_takes
from supply.requirements import Pin

HASHES = frozenset({"sha256:" + "0" * 64})
PINS = {"six": Pin("six", "1.17.0", HASHES), "yarl": Pin("yarl", "1.25.1", HASHES)}
FOUND = {"pip": "23.2", "six": "1.17.0", "tidegate": "0.1.0", "yarl": "1.25.1"}


def test_what_is_pinned_and_installed_is_found_right() -> None:
    assert list(differences(PINS, FOUND)) == []


@pytest.mark.parametrize(
    ("pins", "found", "says"),
    [
        (PINS, FOUND | {"six": "1.16.0"}, "six is installed in version 1.16.0"),
        (PINS, {"yarl": "1.25.1"}, "six 1.17.0 is pinned .* not installed"),
        (PINS, FOUND | {"guest": "6.6"}, "guest 6.6 is installed, but not pinned"),
        (PINS | {"six": Pin("six", "1.17.0")}, FOUND, "six 1.17.0 has no hash"),
    ],
)
def test_a_difference_is_a_sentence(pins: dict[str, Pin], found: dict[str, str], says: str) -> None:
    (finding,) = differences(pins, found)
    assert re.search(says, finding)


@pytest.mark.long
def test_pip_refuses_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as members:
        members.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        members.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        members.writestr("tiny-1.dist-info/RECORD", "")
    right = Pin("tiny", "1", frozenset({f"sha256:{sha256_of(wheel)}"}))
    assert pip_takes(right)
    assert not pip_takes(right._replace(hashes=HASHES))
    assert not pip_takes(right._replace(hashes=frozenset()))
