"""Files that are parsed: a query's, the loader's, the operator's, those of steps and of kept records."""

from __future__ import annotations

import atexit
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from pyarrow import fs

from tests.fuzz.json_mutators import altered_json
from tests.fuzz.mutators import damaged, reworded, text_bytes
from tests.fuzz.target import Target
from tidegate.access.destinations_file import read_destinations
from tidegate.changefeed.definition.options import Format
from tidegate.client.refused_records import read_kept
from tidegate.client.why.worker_status import worker_url
from tidegate.errors import InputError, SettingsError, StateError
from tidegate.hlc import Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.refused import RefusedRecord, RefusedRow, Source
from tidegate.replay.step_file import decode_step, encode_step
from tidegate.replay.written_step import StepRecord, WrittenStep
from tidegate.spark.changefeed.checkpoint import _read_identity
from tidegate.spark.changefeed.ledger import _account
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told, read_round
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.manifest import (
    LoadedTable,
    LoadPosition,
    ManifestHead,
    _files_from,
    _head_from,
    _head_to,
    _loaded,
)
from tidegate.verify import TopicPartition

_AT: Final = Timestamp(1_700_000_000_000_000_000, 1)
_WHERE: Final = "file.json"

# ---- a query's ----

_ROUND: Final = Round(
    RoundId(4, 1), instructions={0: Instructions((Told(7, b"one"),), (Told(9, b"two"),), everything=True)}
).to_bytes()
_IDENTITY: Final = b'{"app_id":"a","jobs_id":"j","log":"l","log_id":"i","partitions":3,"version":1}'
_ACCOUNT: Final = b'{"controls": 7, "exchanges": {"0": 3}, "heads": {"0": "a", "2": "b"}, "version": 1}'


def _without_check(stored: bytes) -> bytes:
    """Return the file as version 1 stored it: what is damaged is parsed."""
    body = json.loads(stored)
    body.pop("check", None)
    return json.dumps({**body, "version": 1}).encode()


def _json_drawn(*seeds: bytes) -> Callable[[Random], bytes]:
    plain = [_without_check(seed) for seed in seeds]

    def draw(chance: Random) -> bytes:
        return altered_json(chance, chance.choice(seeds if chance.random() < 0.1 else plain))

    return draw


@cache
def _directory() -> Path:
    """A directory of this process, for what can be read from a file alone."""
    made = tempfile.TemporaryDirectory(prefix="tidegate-fuzz-")
    atexit.register(made.cleanup)
    return Path(made.name)


@cache
def _state_files() -> tuple[StateFiles, Path, bytes]:
    files = StateFiles(fs.LocalFileSystem(), str(_directory()), 0)
    files.write("0", "", {(StateTable.RANGES, b"a"): b"x" * 50, (StateTable.FEEDS, b"b"): b"row"})
    path = _directory() / "state/0/0.arrow"
    return files, path, path.read_bytes()


def _draw_state(chance: Random) -> bytes:
    return damaged(chance, _state_files()[2])


def _take_state(data: bytes) -> None:
    files, path, _ = _state_files()
    path.write_bytes(data)
    files.load("0")


# ---- the warehouse's ----

_PLACE: Final = TopicPartition("t", 0)
_COLUMNS: Final = Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("v", "text")))
_HEAD: Final = json.dumps(
    _head_to(
        ManifestHead(
            "load",
            Buckets(10**9),
            BucketEnd(10**9),
            BucketEnd(2 * 10**9),
            BucketEnd(10**9),
            (LoadedTable("t", "id", 1, "feed", Format.JSON, _COLUMNS),),
            positions={_PLACE: LoadPosition(5, _AT)},
            pages={"2026-11-22": "page"},
        )
    )
).encode()
_PAGE: Final = b"""{"version": 1, "files": [{"bucket": 1000000000, "topic": "t", "partition": 0, "path": "p",
 "rows": 1, "bytes": 5, "lowest": 1, "highest": 2}]}"""


def _read_with(read: Callable[[dict[str, Any]], object]) -> Callable[[bytes], object]:
    return lambda data: _loaded(data, _WHERE, read)


# ---- the operator's ----

_ENTRIES: Final = """[clusters.other]
servers = ["a.example:9092", "*.b.example:*"]
feeds = ["orders-*"]
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "me"
sasl_password = "secret://other"

[registries.own]
urls = ["https://registry:8081/path", "http://*.b.example:*"]
"""
_TOML_WORDS: Final = (
    *(
        "[",
        "]",
        "[[",
        "]]",
        "=",
        ".",
        ",",
        '"',
        "'",
        "\\n",
        "{",
        "}",
        "#",
        "*",
        "//",
        "://",
        "true",
        "nan",
        "-1",
    ),
    *("clusters", "registries", "servers", "urls", "feeds", "own_login", "ssl_ca_location", "secret://x"),
    *("1e400", "9" * 5_000, "1979-05-27T07:32:00Z", "a" * 5_000, "\\ud800", "[" * 400, "\\\\u0000", "\\0"),
)


def _draw_entries(chance: Random) -> bytes:
    return text_bytes(reworded(chance, _ENTRIES, _TOML_WORDS))


def _take_entries(data: bytes) -> None:
    path = _directory() / "destinations.toml"
    path.write_bytes(data)
    read_destinations(path)


# ---- of `tidegate debug step` ----

_STEPS: Final = (
    encode_step(WrittenStep(0, 1, 0, {}, ())),
    encode_step(
        WrittenStep(
            3,
            8,
            7,
            {(StateTable.RANGES, bytes(8)): b"\2row", (StateTable.FEEDS, b"feed"): b"\2feed"},
            (StepRecord(6, None, b"", 1_700_000_000_000), StepRecord(7, bytes(8), None, -1)),
        )
    ),
)


# ---- a worker's ----

_ROW: Final = RefusedRow("feed", "1.0000000002", b"before", b"descriptor")
_KEPT: Final = tuple(
    json.dumps(
        {"topic": "raftlog", "partition": 3, "tidegate": "0.1.0", "left_out_bytes": 0, **record.to_json()}
    ).encode()
    for record in (
        RefusedRecord(Source.LOG, 7, 1_700_000_000_000, b"key", b"value", "KeyError", "a cause"),
        RefusedRecord(Source.ROW, 7, 0, b"key", None, "KeyError", "a cause", _ROW),
    )
)


class _OneFile:
    """A directory with one file, in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def sizes(self) -> Mapping[str, int]:
        return {_WHERE: len(self._content)}

    def read(self, _: str) -> bytes:
        return self._content

    def write(self, name: str, content: bytes) -> None:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError


def _take_worker_file(data: bytes) -> None:
    home = _directory() / "app"
    home.mkdir(exist_ok=True)
    (home / "worker.json").write_bytes(data)
    worker_url(_directory(), "app")


TARGETS: Final = (
    Target("rounds", _json_drawn(_ROUND), lambda data: read_round(data, _WHERE), (StateError,)),
    Target("accounts", _json_drawn(_ACCOUNT), lambda data: _account(data, _WHERE), (StateError,)),
    Target("identities", _json_drawn(_IDENTITY), lambda data: _read_identity(data, _WHERE), (StateError,)),
    Target("state-files", _draw_state, _take_state, (StateError,)),
    Target("manifests", lambda chance: altered_json(chance, _HEAD), _read_with(_head_from), (StateError,)),
    Target(
        "manifest-pages", lambda chance: altered_json(chance, _PAGE), _read_with(_files_from), (StateError,)
    ),
    Target(
        "kept-records",
        lambda chance: altered_json(chance, chance.choice(_KEPT)),
        lambda data: read_kept(_OneFile(data), _WHERE).record.to_json(),
        (InputError,),
    ),
    Target(
        "worker-files",
        lambda chance: altered_json(chance, b'{"pid": 7, "url": "http://127.0.0.1:6066"}'),
        _take_worker_file,
        (InputError,),
    ),
    Target("step-files", lambda chance: damaged(chance, chance.choice(_STEPS)), decode_step, (InputError,)),
    Target("destinations", _draw_entries, _take_entries, (SettingsError,)),
)
