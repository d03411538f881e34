"""The owner of a checkpoint directory, and whether it is whole, are known before Spark starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tidegate.errors import SettingsError, StateError, TidegateError, TopologyError
from tidegate.processor.batch import StateTable
from tidegate.spark.changefeed.checkpoint import Checkpoint, QueryIdentity, checkpoint_at
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.platform.store_access import StoreAccess

_OURS = QueryIdentity("app", "raftlog", "log-1", 4, "jobs-1")


def _checkpoint(root: Path) -> Checkpoint:
    return checkpoint_at(root.as_uri(), StoreAccess())


def _begun(root: Path, batches: int = 3) -> Checkpoint:
    """Make a directory as Spark and the driver leave it behind these batches."""
    checkpoint = _checkpoint(root)
    checkpoint.claim(_OURS)
    ledger = Ledger(checkpoint.filesystem, checkpoint.ours)
    files = StateFiles(checkpoint.filesystem, checkpoint.ours, 2)
    previous = ""
    for batch in range(batches):
        files.write(str(batch), previous, {(StateTable.RANGES, b"range"): b"row"})
        ledger.close_batch(batch, Account({2: str(batch)}))
        _spark(root, "offsets", batch)
        _spark(root, "commits", batch)
        previous = str(batch)
    return checkpoint


def _spark(root: Path, kind: str, batch: int) -> None:
    directory = root / "spark" / kind
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f".{batch}.crc").touch()
    (directory / str(batch)).touch()


def test_a_new_directory_is_claimed_and_known_again(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path / "new")
    assert not checkpoint.require(_OURS)
    checkpoint.claim(_OURS)
    assert checkpoint.require(_OURS)


def test_of_two_queries_that_begin_on_one_directory_the_second_is_refused(tmp_path: Path) -> None:
    one, other = _checkpoint(tmp_path), _checkpoint(tmp_path)
    assert not one.require(_OURS)
    other_query = replace(_OURS, app_id="other")
    assert not other.require(other_query)
    one.claim(_OURS)
    with pytest.raises(StateError, match="belongs to the application app, and this query runs other"):
        other.claim(other_query)
    one.claim(_OURS)


def test_hadoop_is_told_a_name_as_it_is_on_the_disk(tmp_path: Path) -> None:
    """Its paths escape nothing: ``%20`` would be a part of the name."""
    checkpoint = _checkpoint(tmp_path / "feeds of 50%")
    assert checkpoint.spark == f"file://{tmp_path}/feeds of 50%/spark"
    checkpoint.claim(_OURS)
    assert (tmp_path / "feeds of 50%" / "tidegate" / "query.json").exists()


def test_a_driver_that_died_at_any_moment_goes_on(tmp_path: Path) -> None:
    checkpoint = _begun(tmp_path)
    assert checkpoint.require(_OURS)
    _spark(tmp_path, "offsets", 3)  # a batch was begun
    assert checkpoint.require(_OURS)
    Ledger(checkpoint.filesystem, checkpoint.ours).close_batch(3, Account({2: "2"}))  # Spark did not hear
    assert checkpoint.require(_OURS)
    _spark(tmp_path, "commits", 3)
    assert checkpoint.require(_OURS)


@pytest.mark.parametrize(
    ("other", "kind", "told"),
    [
        ({"app_id": "b"}, StateError, "belongs to the application app, and this query runs b"),
        ({"log": "x_raftlog"}, StateError, "from the log raftlog, and this query reads x_raftlog"),
        ({"log_id": "log-2"}, StateError, "raftlog was deleted and created again.*is log-2, and was log-1"),
        ({"partitions": 5}, TopologyError, "raftlog has 5 partitions, and had 4"),
        ({"jobs_id": "jobs-2"}, StateError, "app-jobs was deleted and created again since"),
        ({"jobs_id": ""}, StateError, "app-jobs was deleted since"),
    ],
)
def test_the_directory_of_another_query_is_refused(
    tmp_path: Path, other: dict[str, Any], kind: type[TidegateError], told: str
) -> None:
    checkpoint = _begun(tmp_path)
    with pytest.raises(kind, match=rf"{told}.*Nothing was read or written\. .*\.$"):
        checkpoint.require(replace(_OURS, **other))


def _newer(root: Path) -> None:
    path = root / "tidegate/query.json"
    path.write_text(json.dumps({"version": 3}))


def _torn_state(root: Path) -> None:
    path = root / "tidegate/state/2/2.arrow"
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: rmtree(root / "tidegate"), "has Spark's half .* and not tidegate's"),
        (lambda root: rmtree(root / "spark"), "has tidegate's half .* and not Spark's"),
        (lambda root: (root / "tidegate/query.json").unlink(), "query.json is missing"),
        (lambda root: (root / "tidegate/query.json").write_text('{"version": 1, '), "query.json is torn"),
        (lambda root: (root / "tidegate/query.json").write_text('{"version": 1}'), "query.json is torn"),
        (_newer, "query.json was written by a newer version of tidegate"),
        (lambda root: (root / "tidegate/batches/0000000002.json").unlink(), "0000000002.json is missing"),
        (lambda root: (root / "tidegate/batches/0000000002.json").write_text("{"), "0000000002.json is torn"),
        (lambda root: rmtree(root / "tidegate/batches"), "0000000002.json is missing"),
        (lambda root: (root / "tidegate/state/2/2.arrow").unlink(), "log partition 2 .*2.arrow is missing"),
        (_torn_state, "log partition 2 .*2.arrow is torn"),
        (lambda root: _spark(root, "offsets", 4), "0000000003.json is missing"),
        (lambda root: (root / "spark/offsets/2").unlink(), "tidegate/ knows of batch 2, .* none behind 1"),
    ],
)
def test_a_directory_that_is_not_whole_is_refused_with_what_to_do(
    tmp_path: Path, spoil: Callable[[Path], object], told: str
) -> None:
    checkpoint = _begun(tmp_path)
    spoil(tmp_path)
    with pytest.raises(StateError, match=rf"{told}.*(new checkpoint directory|that one)"):
        checkpoint.require(_OURS)


def test_a_file_system_that_nobody_knows_is_named() -> None:
    with pytest.raises(SettingsError, match=r"ftp://x/y is on no file system that tidegate knows \(ftp:\)"):
        checkpoint_at("ftp://x/y", StoreAccess())


def test_a_directory_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checkpoint = _checkpoint(tmp_path / "file")
    with pytest.raises(SettingsError, match=r"file cannot be read"):
        checkpoint.require(_OURS)
    with pytest.raises(SettingsError, match=r"file cannot be written"):
        checkpoint.claim(_OURS)


def test_spark_tells_where_a_batch_ends_in_the_log(tmp_path: Path) -> None:
    _spark(tmp_path, "offsets", 7)
    offsets = tmp_path / "spark" / "offsets" / "7"
    offsets.write_text('v1\n{"batchWatermarkMs":0}\n{"raftlog":{"0":12,"10":9223372036854775807}}')
    assert _checkpoint(tmp_path).log_ends(7, "raftlog") == {0: 12, 10: 2**63 - 1}


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "v1\n{}",
        "v1\n{}\n{}",
        "v1\n{}\n[]",
        'v1\n{}\n{"raftlog": [3]}',
        'v1\n{}\n{"raftlog": {"x": 3}}',
        'v1\n{}\n{"raftlog": {"0": "3"}}',
        'v1\n{}\n{"raftlog": {"0": -1}}',
    ],
)
def test_what_spark_says_in_another_form_is_a_sentence(tmp_path: Path, stored: str) -> None:
    _spark(tmp_path, "offsets", 7)
    (tmp_path / "spark" / "offsets" / "7").write_text(stored)
    with pytest.raises(StateError, match=r"offsets/7 of Spark does not say .* Use a version of Spark"):
        _checkpoint(tmp_path).log_ends(7, "raftlog")
    with pytest.raises(StateError, match=r"offsets/8 of Spark does not say"):
        _checkpoint(tmp_path).log_ends(8, "raftlog")
