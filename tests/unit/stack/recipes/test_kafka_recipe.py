from __future__ import annotations

import re
from pathlib import Path

import pytest

from stack.errors import JavaMissing
from stack.ports import choose_port
from stack.processes.server import Request
from stack.recipes.catalogue import RECIPES
from stack.recipes.kafka_recipe import (
    BOOTSTRAP_CHECKPOINT,
    CLASS_ARCHIVE,
    Kafka,
    _archived_classes,
    _copied_format,
    cluster_id,
    server_properties,
)


def properties(**overrides: str) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in overrides.items()}
    text = server_properties(20001, 20002, Path("/data"), dotted)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_every_listener_is_on_loopback() -> None:
    listening = properties()["listeners"] + properties()["advertised.listeners"]
    assert re.findall(r"//([^:,]+):", listening) == ["127.0.0.1"] * 3


def test_commit_timestamps_in_the_past_are_not_expired() -> None:
    assert properties()["log.retention.ms"] == "-1"


def test_a_misspelt_topic_is_not_created() -> None:
    assert properties()["auto.create.topics.enable"] == "false"


def test_settings_that_are_given_win() -> None:
    assert properties(log_retention_ms="1000")["log.retention.ms"] == "1000"


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = {cluster_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert not [text for text in ids if text.startswith("-") or len(text) != 22]


def test_nothing_answers_where_nothing_listens() -> None:
    assert not Kafka().answers(f"127.0.0.1:{choose_port()}")


def test_without_java_no_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.java._candidates", lambda: iter(()))
    with pytest.raises(JavaMissing):
        Kafka().plan(Request(tmp_path / "home", tmp_path / "home" / "data"))
    assert not (tmp_path / "home").exists()


def test_recipes_are_listed_under_their_own_names() -> None:
    assert all(recipe.name == name for name, recipe in RECIPES.items())


def test_an_archive_of_classes_is_asked_for_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CLASS_ARCHIVE, raising=False)
    assert _archived_classes() == ()
    archive = tmp_path / "classes.jsa"
    monkeypatch.setenv(CLASS_ARCHIVE, str(archive))
    assert _archived_classes() == ()
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in _archived_classes()


def test_each_directory_that_is_formatted_by_copying_has_ids_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "bootstrap.checkpoint"
    monkeypatch.setenv(BOOTSTRAP_CHECKPOINT, str(checkpoint))
    first, second = (Request(tmp_path, tmp_path / name, settings={"node.id": "7"}) for name in "ab")
    assert not _copied_format(first)
    checkpoint.write_bytes(b"features")
    assert _copied_format(first)
    assert _copied_format(second)
    texts = [(each.data / "meta.properties").read_text() for each in (first, second)]
    metas = [dict(line.split("=", 1) for line in text.splitlines()) for text in texts]
    assert [(meta["version"], meta["node.id"]) for meta in metas] == [("1", "7")] * 2
    assert len({meta[name] for meta in metas for name in ("cluster.id", "directory.id")}) == 4
    assert (first.data / "bootstrap.checkpoint").read_bytes() == b"features"
