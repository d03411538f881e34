"""The page of the log contract is true: its example is a log, its rules are those that are checked."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Final

from tests.feeds import activation
from tests.hand_log import at
from tests.logs import Record
from tests.unit.raftlog.example_log import PARTITIONS, RECORDS, REQUESTS, TABLE
from tidegate.changefeed.definition.feed import FeedId
from tidegate.logcheck.breach import BEYOND_THE_LOG, BreachPlace, Rule
from tidegate.logcheck.log_check import CheckedRecord, LogOptions, check_log
from tidegate.processor.reference import ReferenceEngine
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.request import decode_request, encode_request
from tidegate.rows import decode_descriptor
from tidegate.rows.keyside.integers import encode_varint_asc
from tidegate.rows.types import Kind
from tidegate.rows.valueside.tags import WireType, encode_tag
from tidegate.rows.valueside.varints import encode_length, encode_zigzag

_PAGE: Final = (Path(__file__).parents[3] / "docs" / "log-contract.md").read_text()
_BLOCKS: Final = re.findall(r"```hex\n(.*?)```", _PAGE, re.DOTALL)
_HEAD: Final = re.compile(r"# offset (\d+) of partition (\d+), (\d+) ms: (.*)")


def _shown() -> list[tuple[BreachPlace, int, bytes, bytes]]:
    """The records of the page: place, record time, key, value."""
    shown = []
    lines = iter(_BLOCKS[0].splitlines())
    for head, key, value in zip(lines, lines, lines, strict=True):
        found = _HEAD.fullmatch(head)
        assert found is not None, head
        place = BreachPlace(int(found[2]), int(found[1]))
        shown.append((place, int(found[3]), bytes.fromhex(key), bytes.fromhex(value)))
    return shown


def test_the_page_shows_the_bytes_of_every_record_of_the_example() -> None:
    lines, ends = [], Counter[int]()
    for record in RECORDS:
        lines += [
            f"# offset {ends[record.partition]} of partition {record.partition}, {record.time_ms} ms: "
            f"{record.what}",
            record.key.hex(),
            record.value.hex(),
        ]
        ends[record.partition] += 1
    assert _BLOCKS[0].splitlines() == lines


def test_every_record_of_the_example_decodes_to_what_the_page_says() -> None:
    entries = [decode_entry(key, value) for _, _, key, value in _shown()]
    assert entries == [record.entry for record in RECORDS]
    assert decode_descriptor(RECORDS[0].entry.descriptor) == TABLE.descriptor  # type: ignore[union-attr]


def test_the_page_shows_the_bytes_of_the_requests() -> None:
    lines = []
    for request, what in REQUESTS:
        key, value = encode_request(request)
        assert decode_request(value) == request
        lines += [f"# {what}", key.hex(), value.hex()]
    assert _BLOCKS[1].splitlines() == lines


def test_the_example_keeps_every_rule() -> None:
    records = [CheckedRecord(place, key, value, time_ms) for place, time_ms, key, value in _shown()]
    assert check_log(records, LogOptions(PARTITIONS, ended=True, ahead_ms=0)) == []


def test_the_reader_makes_of_the_example_what_the_page_says() -> None:
    engine = ReferenceEngine(PARTITIONS, [activation([TABLE.descriptor])])
    for place, time_ms, key, value in _shown():
        engine.step(place.partition, [Record(place.offset, key, value, time_ms)])
    assert engine.incidents == []
    rows = [
        (json.loads(record.key), json.loads(record.value or b"null"))
        for records in engine.output.values()
        for record in records
        if record.key is not None
    ]
    told = re.findall(r"^\| `(\[\d\])` \| `(.*?)` \|$", _PAGE, re.MULTILINE)
    assert sorted(rows, key=repr) == sorted(
        ((json.loads(key), json.loads(value)) for key, value in told), key=repr
    )
    assert len(rows) == 3
    assert engine.high_water(FeedId("feed")) == at(8)
    assert f"resolved up to {at(8).decimal()}" in " ".join(_PAGE.split())


def test_every_rule_of_the_page_is_checked_or_said_to_be_beyond_a_log() -> None:
    rows = re.findall(r'^\| <a id="([a-z-]+)"></a>`([a-z-]+)` \|.*\| ([a-z]+)[^|]* \|$', _PAGE, re.MULTILINE)
    assert all(anchor == name for anchor, name, _ in rows)
    told = {name: in_log for _, name, in_log in rows}
    assert told.keys() == {rule.id for rule in Rule}
    assert {name for name, in_log in told.items() if in_log == "no"} == {rule.id for rule in BEYOND_THE_LOG}


def test_the_bytes_of_numbers_on_the_page_are_those_that_rows_have() -> None:
    told = dict(re.findall(r"^\| ([^|]*\d[^|]*) \| `([0-9a-f ]+)` \|$", _PAGE, re.MULTILINE))
    assert {what: bytes.fromhex(shown) for what, shown in told.items()} == {
        "INT 300 in a value": encode_zigzag(300),
        "length 300": encode_length(300),
        "tag of an INT whose column id is 8 above the one before": encode_tag(8, WireType.INT),
    }
    assert f"-200 is `{encode_varint_asc(-200).hex(' ')}`" in _PAGE


def test_the_page_names_every_kind_of_column_and_no_other() -> None:
    (paragraph,) = re.findall(r"^Kinds: (.*?)\.$", _PAGE, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`([^`]+)`", paragraph) == [kind.value for kind in Kind]
