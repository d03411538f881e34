"""Files of a checkpoint directory in S3 (docs/protocols/spark-files.md), on a server that is frozen, killed
and cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

import pytest
from pyarrow import fs

from stack.processes.owned import OwnedServer
from tests.cut_connection import CutConnection
from tests.s3_server import BUCKET, SECRET, access_to, make_bucket, s3_server
from tidegate.errors import SettingsError, StateError, StoreAway
from tidegate.processor.batch import StateTable
from tidegate.spark.changefeed.checkpoint import QueryIdentity, checkpoint_at
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told
from tidegate.spark.platform.executors import _look_for
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.whole_files import read_whole, remove_file, write_first, write_whole

pytestmark = [pytest.mark.long, pytest.mark.together("s3")]

_ROWS: Final = {(StateTable.RANGES, b"a"): b"row"}
_IDENTITY: Final = QueryIdentity("app", "raftlog", "log-1", 3, "jobs-1")


@pytest.fixture(scope="module")
def server() -> Iterator[OwnedServer]:
    with s3_server() as running:
        make_bucket(running.address)
        yield running


@pytest.fixture
def uri(request: pytest.FixtureRequest) -> str:
    return f"s3a://{BUCKET}/{request.node.name.partition('[')[0]}"


def _state(uri: str, access: StoreAccess) -> StateFiles:
    return StateFiles(*opened(uri, access), 3)


def test_an_object_is_read_as_it_was_written(server: OwnedServer, uri: str) -> None:
    filesystem, path = opened(uri, access_to(server.address))
    assert read_whole(filesystem, f"{path}/a") is None
    for content in (b"one", b"", b"more" * 5_000_000):
        write_whole(filesystem, f"{path}/a", content)
        assert read_whole(filesystem, f"{path}/a") == content
    assert filesystem.get_file_info(f"{path}/a").size == 20_000_000
    remove_file(filesystem, f"{path}/a")
    remove_file(filesystem, f"{path}/a")
    assert read_whole(filesystem, f"{path}/a") is None


def test_a_list_has_what_is_right_below_and_no_marks_of_directories(server: OwnedServer, uri: str) -> None:
    filesystem, path = opened(uri, access_to(server.address))
    for name in ("1", "2/deep", "2/deeper/3"):
        write_whole(filesystem, f"{path}/{name}", b"")
    write_whole(filesystem, f"{path}/", b"")
    below = filesystem.get_file_info(fs.FileSelector(path))
    assert [info.path for info in below] == [f"{path}/1"]
    deep = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    assert {info.path for info in deep} == {f"{path}/1", f"{path}/2/deep", f"{path}/2/deeper/3"}
    filesystem.delete_dir(path)
    assert filesystem.get_file_info(fs.FileSelector(path, recursive=True)) == []


def test_of_many_writers_one_is_the_first_and_all_read_it(server: OwnedServer, uri: str) -> None:
    filesystem, path = opened(uri, access_to(server.address))
    stored: list[bytes] = []

    def write(content: bytes) -> None:
        stored.append(write_first(filesystem, path, content))

    writers = [Thread(target=write, args=(str(number).encode(),)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(stored) == 8
    assert set(stored) == {read_whole(filesystem, path)}


@pytest.mark.parametrize("lost", [b"PUT ", b"GET "])
def test_a_call_whose_answer_is_lost_does_what_it_says(server: OwnedServer, uri: str, lost: bytes) -> None:
    place = urlsplit(server.address)
    left = [1]

    def once(request: bytes) -> bool:
        if request.startswith(lost) and left[0]:
            left[0] -= 1
            return True
        return False

    with CutConnection((str(place.hostname), int(place.port or 0)), once) as cut:
        filesystem, path = opened(f"{uri}-{lost.decode().strip()}", access_to(f"http://127.0.0.1:{cut.port}"))
        try:
            stored = write_first(filesystem, path, b"mine")
        except OSError:  # the caller makes the call again
            stored = write_first(filesystem, path, b"mine")
        assert stored == b"mine"
        assert read_whole(filesystem, path) == b"mine"
        assert cut.cut == 1


def test_state_comes_back_from_objects_and_a_half_of_one_is_refused(server: OwnedServer, uri: str) -> None:
    access = access_to(server.address)
    files = _state(uri, access)
    files.write("0", "", _ROWS)
    files.write("1", "0", {(StateTable.RANGES, b"b"): b"later"})
    assert files.load("1").rows == {**_ROWS, (StateTable.RANGES, b"b"): b"later"}
    assert files.names() == ["0", "1"]
    filesystem, path = opened(f"{uri}/state/3/1.arrow", access)
    whole = read_whole(filesystem, path)
    assert whole is not None
    write_whole(filesystem, path, whole[: len(whole) // 2])
    with pytest.raises(StateError, match=r"state/3/1\.arrow is torn or damaged"):
        files.load("1")
    remove_file(filesystem, path)
    with pytest.raises(StateError, match=r"state/3/1\.arrow is missing"):
        files.load("1")


def test_two_drivers_run_the_round_that_was_stored_first(server: OwnedServer, uri: str) -> None:
    one, other = (Ledger(*opened(uri, access_to(server.address))) for _ in range(2))
    first = Round(RoundId(4, 1), instructions={0: Instructions((Told(7, b"a feed"),))})
    later = Round(RoundId(4, 1), instructions={0: Instructions((Told(7, b"another"),))})
    assert one.tell_first(first) == first
    assert other.tell_first(later) == first
    assert other.told(RoundId(4, 1)) == first


def test_accounts_of_old_batches_are_removed(server: OwnedServer, uri: str) -> None:
    filesystem, path = opened(uri, access_to(server.address))
    ledger = Ledger(filesystem, path)
    for batch in range(5):
        ledger.tell_first(Round(RoundId(batch, 0)))
        ledger.close_batch(batch, Account({0: str(batch)}))
    assert ledger.account(4) == Account({0: "4"})
    kept = filesystem.get_file_info(fs.FileSelector(f"{path}/batches"))
    assert [info.base_name for info in kept] == ["0000000003.json", "0000000004.json"]


def test_a_directory_belongs_to_the_query_that_claimed_it_first(server: OwnedServer, uri: str) -> None:
    checkpoint = checkpoint_at(uri.replace("s3a:", "s3:"), access_to(server.address))
    assert checkpoint.spark == f"{uri}/spark"
    assert not checkpoint.require(_IDENTITY)
    checkpoint.claim(_IDENTITY)
    assert checkpoint.require(_IDENTITY)
    with pytest.raises(StateError, match=f"{uri} belongs to the application app"):
        checkpoint.claim(replace(_IDENTITY, app_id="other"))


def test_executors_look_for_the_file_and_try_to_write(server: OwnedServer, uri: str) -> None:
    access = access_to(server.address)
    filesystem, path = opened(uri, access)
    write_whole(filesystem, f"{path}/query.json", b"{}")
    module = "tidegate.spark.changefeed.partition_round"
    assert [lack for _, lack, _ in _look_for(module, f"{uri}/query.json", access)([])] == [""]
    assert [info.base_name for info in filesystem.get_file_info(fs.FileSelector(path))] == ["query.json"]
    ((_, lack, _),) = _look_for(module, f"{uri}/other.json", access)([])
    assert lack.startswith(f"does not find {uri}/other.json")
    ((_, lack, _),) = _look_for(module, "s3a://nowhere/query.json", access)([])
    assert lack.startswith("does not find s3a://nowhere/query.json")


def test_a_store_that_is_silent_is_waited_for(server: OwnedServer, uri: str) -> None:
    access = access_to(server.address, silent="500ms")
    files, ledger = _state(uri, access), Ledger(*opened(uri, access))
    files.write("0", "", _ROWS)
    server.pause()
    try:
        for call in (
            lambda: files.load("0"),
            lambda: files.write("1", "0", _ROWS),
            lambda: ledger.account(3),
            lambda: ledger.told(RoundId(1, 0)),
            lambda: ledger.tell_first(Round(RoundId(1, 0))),
            lambda: ledger.close_batch(3, Account()),
        ):
            with pytest.raises(StoreAway, match=r"cannot be reached \(.*Nothing is lost") as away:
                call()
            assert SECRET not in str(away.value)
        with pytest.raises(SettingsError, match=f"{uri} cannot be read"):
            checkpoint_at(uri, access).require(_IDENTITY)
        with pytest.raises(SettingsError, match=f"{uri} cannot be written"):
            checkpoint_at(uri, access).claim(_IDENTITY)
    finally:
        server.resume()
    assert files.load("0").rows == _ROWS
    files.write("1", "0", _ROWS)
    assert ledger.tell_first(Round(RoundId(1, 0))) == Round(RoundId(1, 0))


def test_a_store_that_was_killed_is_waited_for_and_what_it_lost_is_named(uri: str) -> None:
    with s3_server() as mortal:
        make_bucket(mortal.address)
        files = _state(uri, access_to(mortal.address, silent="500ms"))
        files.write("0", "", _ROWS)
        mortal.kill()
        with pytest.raises(StoreAway, match="cannot be reached"):
            files.load("0")
        mortal.start()
        with pytest.raises(StoreAway, match="cannot be reached"):  # the bucket is gone, too
            files.write("1", "0", _ROWS)
        make_bucket(mortal.address)
        with pytest.raises(StateError, match=r"log partition 3 .*state/3/0\.arrow is missing"):
            files.load("0")


def test_what_is_left_of_a_login_is_not_shown(tmp_path: Path) -> None:
    access = access_to("http://127.0.0.1:1", silent="200ms")
    assert SECRET not in repr(access)
    with pytest.raises(StoreAway) as away:
        _state(f"s3a://{BUCKET}/a", access).load("0")
    assert SECRET not in str(away.value)
