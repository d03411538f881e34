"""The parts of the bill of materials: each once, with its hash, its users and its license."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from sim import nycflights
from stack.coordinate import Coordinate
from stack.pinned import Pinned
from supply import components
from supply.requirements import Pin

_CLIENT = Coordinate("org.apache.kafka", "kafka-clients", "4.1.0")
_LOGGING = Coordinate("org.slf4j", "slf4j-api", "2.0.16")
_PIN = Pin("six", "1.17.0")


class _Metadata(Message):
    """The metadata of an installed package."""

    def __init__(self, said: dict[str, str], classifiers: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.json = said
        for classifier in classifiers:
            self["Classifier"] = classifier


def licenses(monkeypatch: pytest.MonkeyPatch, said: _Metadata) -> list[str]:
    monkeypatch.setattr(components, "metadata", lambda _: said)
    found: Any = components.python_package(_PIN).licenses
    return sorted(getattr(each, "value", None) or each.id or each.name for each in found)


def test_a_jar_of_two_sets_is_listed_once_with_both() -> None:
    pinned = Pinned({"spark": {_LOGGING: "a" * 64}, "connect": {_CLIENT: "b" * 64, _LOGGING: "a" * 64}}, {})
    client, logging = components.jars(pinned)
    assert (client.group, client.name, client.version) == _CLIENT
    assert [each.content for each in client.hashes] == ["b" * 64]
    assert {each.value for each in client.properties} == {"connect"}
    assert str(logging.purl) == "pkg:maven/org.slf4j/slf4j-api@2.0.16"
    assert {each.value for each in logging.properties} == {"connect", "spark"}


def test_an_archive_is_told_from_the_jar_beside_it() -> None:
    pinned = Pinned({}, {"io.debezium:debezium-connector-postgres:3.3.1.Final:tar.gz:plugin": "c" * 64})
    (archive,) = components.archives(pinned)
    assert str(archive.purl) == (
        "pkg:maven/io.debezium/debezium-connector-postgres@3.3.1.Final?classifier=plugin&type=tar.gz"
    )
    assert [each.content for each in archive.hashes] == ["c" * 64]


def test_the_data_has_the_hash_that_its_reader_asks_for() -> None:
    flights = components.data()
    assert [each.content for each in flights.hashes] == [nycflights.SHA256]


def test_a_license_is_the_expression_before_the_older_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert licenses(monkeypatch, _Metadata({"license_expression": "MIT", "license": "Apache-2.0"})) == ["MIT"]
    assert licenses(monkeypatch, _Metadata({"license": "Apache-2.0"})) == ["Apache-2.0"]


@pytest.mark.parametrize(
    "text", ["", "Permission is\nhereby granted", "x" * 81], ids=["none", "lines", "long"]
)
def test_the_text_of_a_license_is_no_name_and_the_classifiers_count(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    classifiers = ("Topic :: Software", "License :: OSI Approved :: Some Unlisted License")
    assert licenses(monkeypatch, _Metadata({"license": text}, classifiers)) == ["Some Unlisted License"]


def test_a_package_that_is_not_installed_has_no_license(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(components, "metadata", missing)
    assert not components.python_package(_PIN).licenses
