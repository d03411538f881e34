"""Tests what a loaded directory says of itself: the exact text, and what is said when it is not whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

from tidegate.changefeed.definition.options import Format
from tidegate.errors import StateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.manifest import (
    DataFile,
    LoadedTable,
    LoadPosition,
    Manifest,
    ManifestHead,
    advanced,
)
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition

COLUMNS = Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("price", "DECIMAL(10,2)")))
TABLE = LoadedTable("pets", "TopicId", 1, "1m81", Format.JSON, COLUMNS)
BEGUN = ManifestHead(
    "load", Buckets(10**9), BucketEnd(2 * 10**9), BucketEnd(10**9), BucketEnd(10**9), (TABLE,)
)
FILE = DataFile(BucketEnd(2 * 10**9), "pets", 0, "pets/changes/1970-01-01/f.parquet", 7, 900, 5, 6)

HEAD_TEXT = """{
 "before": 1000000000,
 "bucket_ns": 1000000000,
 "closed": 2000000000,
 "delta": true,
 "first": 2000000000,
 "load": "load",
 "number": 1,
 "pages": {
  "1970-01-01": "PAGE"
 },
 "tables": [
  {
   "columns": [
    [
     "id",
     "INT8"
    ],
    [
     "price",
     "DECIMAL(10,2)"
    ]
   ],
   "feed": "1m81",
   "format": "json",
   "key": [
    "id"
   ],
   "partitions": 1,
   "positions": [
    [
     41,
     "2000000005.0000000000",
     57
    ]
   ],
   "topic": "pets",
   "topic_id": "TopicId",
   "whole": true
  }
 ],
 "version": 2
}"""
PAGE_TEXT = """{
 "files": [
  {
   "bucket": 2000000000,
   "bytes": 900,
   "highest": 6,
   "lowest": 5,
   "partition": 0,
   "path": "pets/changes/1970-01-01/f.parquet",
   "rows": 7,
   "topic": "pets"
  }
 ],
 "version": 1
}"""


def committed(root: Path) -> tuple[Manifest, ManifestHead]:
    """A directory with one bucket."""
    manifest = Manifest(fs.LocalFileSystem(), str(root))
    manifest.commit(BEGUN)
    positions = {TopicPartition("pets", 0): LoadPosition(41, Timestamp(2 * 10**9 + 5), 57)}
    pages = manifest.write_pages(BEGUN, [FILE])
    head = advanced(replace(BEGUN, delta=True), FILE.bucket, [TABLE], positions, pages)
    manifest.commit(head)
    return manifest, head


def head_file(root: Path) -> Path:
    """The head of a directory."""
    return root / "_tidegate" / "head.json"


def test_the_text_of_a_head_and_of_a_page(tmp_path: Path) -> None:
    manifest, head = committed(tmp_path)
    page = head.pages["1970-01-01"]
    assert head_file(tmp_path).read_text() == HEAD_TEXT.replace("PAGE", page)
    assert (tmp_path / "_tidegate" / "pages" / f"{page}.json").read_text() == PAGE_TEXT
    assert manifest.head() == head
    assert manifest.files(head) == [FILE]


def test_a_commit_that_was_cut_off_leaves_the_one_before(tmp_path: Path) -> None:
    manifest, head = committed(tmp_path)
    for torn in (head_file(tmp_path), tmp_path / "_tidegate" / "pages" / "1970-01-01-9"):
        torn.with_name(f"{torn.name}.torn").write_text('{"versi')
    assert manifest.head() == head
    manifest.remove_pages(head)
    assert len(list((tmp_path / "_tidegate" / "pages").iterdir())) == 1


@pytest.mark.parametrize(
    ("member", "other"),
    [
        (b'"partitions": 1', b'"partitions": 1000000000000000000'),
        (b'"bucket_ns": 1000000000', b'"bucket_ns": 0'),
        (b'"pages": {}', b'"pages": ' + b"[" * 30_000 + b"]" * 30_000),
        (b'"version": 2', b'"version": 1e999'),
        (b'"format": "json"', b'"format": "' + b"x" * 30_000 + b'"'),
    ],
)
def test_a_head_with_a_member_that_nobody_writes_is_torn(member: bytes, other: bytes, tmp_path: Path) -> None:
    table = LoadedTable("t", "id", 1, "feed", Format.JSON, Columns(("id",), (LoadedColumn("id", "INT8"),)))
    end = BucketEnd(10**9)
    manifest = Manifest(fs.LocalFileSystem(), str(tmp_path))
    manifest.commit(ManifestHead("load", Buckets(10**9), end, end, end, (table,)))
    stored = head_file(tmp_path).read_bytes()
    assert member in stored
    head_file(tmp_path).write_bytes(stored.replace(member, other))
    with pytest.raises(StateError, match=r"head\.json") as refused:
        manifest.head()
    assert len(str(refused.value)) < 2_000


def test_a_head_that_is_torn_is_named(tmp_path: Path) -> None:
    manifest, _ = committed(tmp_path)
    head_file(tmp_path).write_text(HEAD_TEXT[:100])
    with pytest.raises(StateError, match=r"head\.json is torn .*another directory"):
        manifest.head()


def test_a_head_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    manifest, _ = committed(tmp_path)
    head_file(tmp_path).write_text(HEAD_TEXT.replace('"version": 2', '"version": 3'))
    with pytest.raises(StateError, match="newer version of tidegate"):
        manifest.head()


def test_a_head_of_version_1_is_read(tmp_path: Path) -> None:
    manifest, head = committed(tmp_path)
    earlier = HEAD_TEXT.replace('"version": 2', '"version": 1').replace(",\n     57", "")
    earlier = earlier.replace(',\n   "whole": true', "")
    head_file(tmp_path).write_text(earlier.replace("PAGE", head.pages["1970-01-01"]))
    positions = {TopicPartition("pets", 0): LoadPosition(41, ZERO, 41)}
    assert manifest.head() == replace(head, positions=positions), "its marker may be one that is not reached"


def test_a_page_that_is_missing_is_named(tmp_path: Path) -> None:
    manifest, head = committed(tmp_path)
    manifest.remove_pages()
    with pytest.raises(StateError, match=r"pages/1970-01-01-.* is missing, which the newest commit names"):
        manifest.files(head)


def test_a_reader_whose_page_is_replaced_reads_the_new_one(tmp_path: Path) -> None:
    manifest, head = committed(tmp_path)
    house = Warehouse(tmp_path.as_uri())
    more = replace(FILE, bucket=BucketEnd(3 * 10**9), path="pets/changes/1970-01-01/g.parquet")

    def replaced_once(asked: ManifestHead) -> list[DataFile]:
        if asked == head:
            pages = manifest.write_pages(head, [more])
            next_head = advanced(head, more.bucket, [TABLE], head.positions, pages)
            manifest.commit(next_head)
            manifest.remove_pages(next_head)
        return manifest.files(asked)

    assert house._read(replaced_once) == [FILE, more]
