"""Tests what brokers of one run start with."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stack.kafka import KafkaBroker
from stack.recipes.kafka_recipe import CLASS_ARCHIVE
from tests.class_archive import ClassArchive

_MADE_S = 120


def test_one_that_was_not_begun_has_nothing_to_give_up(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.close()
    assert not archive.file.exists()


@pytest.mark.broker
@pytest.mark.soak  # every `make test` starts brokers with one
def test_a_broker_starts_with_it_and_with_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ClassArchive(tmp_path)
    archive.begin()
    deadline = time.monotonic() + _MADE_S
    while not archive.file.exists():
        assert not archive.fault
        assert time.monotonic() < deadline
        time.sleep(0.1)
    archive.close()
    monkeypatch.setenv(CLASS_ARCHIVE, str(archive.file))
    with KafkaBroker() as broker:
        assert str(archive.file) in Path(f"/proc/{broker.pid}/maps").read_text()
    damaged = bytearray(archive.file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    archive.file.chmod(0o600)
    archive.file.write_bytes(damaged)
    with KafkaBroker() as broker:
        assert str(archive.file) not in Path(f"/proc/{broker.pid}/maps").read_text()


@pytest.mark.broker
@pytest.mark.soak
def test_one_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.begin()
    archive.close()
    assert not archive.file.exists()
