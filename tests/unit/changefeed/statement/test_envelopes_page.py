"""The examples of docs/envelopes.md: each one is what a feed writes, byte for byte, and reads back."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.unit.changefeed.tables import INT, STRING, deletion_of, row, table, update, with_virtual
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope, FeedOptions, VirtualColumns
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder, compile_marker
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.changefeed.statement.option_clauses import read_options
from tidegate.changefeed.statement.statement import parse_statement
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows import Json, Kind, Row, SqlType

PAGE: Final = Path(__file__).parents[4] / "docs" / "envelopes.md"
AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
SCAN: Final = Timestamp(1_743_792_400_000_000_000)
PETS: Final = table("pets", {"id": INT, "name": STRING}, key=("id",))
REX: Final = row(PETS, id=1, name="Rex")
MAX: Final = row(PETS, id=1, name="Max")
ADULTS: Final = with_virtual(table("pets", {"id": INT, "name": STRING, "age": INT}, key=("id",)), "age")
CHANGES: Final[dict[str, Row]] = {
    "insert": REX,
    "update": update(REX, MAX),
    "deletion": deletion_of(MAX),
    "scan": REX._replace(previous=None, scanned_at=SCAN),
}
NOTED: Final = table("noted", {"id": INT, "data": SqlType(Kind.JSONB)}, key=("id",))
TRACED: Final = table("traced", {"id": INT, "h": SqlType(Kind.JSONB)}, key=("id",))

_RECORD: Final = re.compile(
    r"^\| `([^`]+)` \| (insert|update|deletion|tombstone|scan) \| `(.*?)` \| (.*) \|$", re.M
)
_MARKER: Final = re.compile(r"^\| `(envelope=[^`]+)` \| `(\{.*\})` \|$", re.M)
_JSON_NULL: Final = re.compile(r"^\| `([^`]+)` \| (?:JSON `(.*)`|NULL) \| `(\{.*\})` \|$", re.M)
_VIRTUAL: Final = re.compile(r"^\| `(virtual_columns=[^`]+)` \| `(\{.*\})` \|$", re.M)
_CSV: Final = re.compile(r"^\| (\d), (NULL|`.*`) \| `(.*)` \|$", re.M)
_LEFT_OUT: Final = re.compile(r"^\| (insert|scan|deletion) \| `(.*?)` \| (.*?) \| (.*) \|$", re.M)
_HEADERS: Final = re.compile(r"^\| `(\{.*\})` \| (none|`.*`) \|$", re.M)


class Example(NamedTuple):
    """A record of the page."""

    clauses: str
    change: str
    key: bytes
    value: bytes | None


def options_of(clauses: str) -> FeedOptions:
    """The options of a statement with these clauses."""
    statement = parse_statement(f"CREATE CHANGEFEED FOR TABLE pets INTO 'kafka://k:9092' WITH {clauses}")
    parse_sink_uri(statement.sink_uri)
    return read_options(statement.options, 0)


def examples() -> list[Example]:
    values = {"none": None, "empty": b""}
    return [
        Example(clauses, change, key.encode(), values.get(value, value.strip("`").encode()))
        for clauses, change, key, value in _RECORD.findall(PAGE.read_text(encoding="utf-8"))
    ]


def test_every_envelope_has_an_example_of_each_change() -> None:
    shown = {(options_of(each.clauses).envelope, each.change) for each in examples()}
    assert shown >= {(envelope, change) for envelope in Envelope for change in CHANGES}
    assert (Envelope.DEBEZIUM, "tombstone") in shown


def test_every_option_that_changes_a_record_has_an_example() -> None:
    shown = ", ".join(each.clauses for each in examples())
    for option in ("diff", "key_column", "key_in_value", "mvcc_timestamp", "topic_in_value", "updated"):
        assert option in shown
    for option in ("enriched_properties='source'", "enriched_properties='schema'", "full_table_name"):
        assert option in shown
    for option in (
        "encode_json_value_null_as_object",
        "extra_headers",
        "headers_json_column_name",
        "max_row_bytes",
        "on_oversize",
        "virtual_columns",
    ):
        assert option in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", examples(), ids=lambda each: f"{each.clauses}: {each.change}")
def test_the_example_is_what_a_feed_writes(example: Example) -> None:
    encoder = compile_encoder(PETS, options_of(example.clauses))
    change = CHANGES["deletion" if example.change == "tombstone" else example.change]
    key, value = encoder.encode(change, AT)
    if example.change == "tombstone":
        assert encoder.tombstones
        value = None
    assert (key, value) == (example.key, example.value)


@pytest.mark.parametrize("example", examples(), ids=lambda each: f"{each.clauses}: {each.change}")
def test_the_example_reads_back(example: Example) -> None:
    options = options_of(example.clauses)
    record = decoder_for(options).decode(example.key, example.value)
    assert isinstance(record, RowRecord)
    expected = {"insert": "Rex", "scan": "Rex", "update": "Max"}.get(example.change)
    if options.envelope is Envelope.KEY_ONLY:
        expected = None
    assert (record.row or {}).get("name") == expected
    assert record.tombstone is (example.change == "tombstone")


def test_the_markers_are_what_a_feed_writes() -> None:
    shown = set()
    for clauses, marker in _MARKER.findall(PAGE.read_text(encoding="utf-8")):
        for clause in clauses.split(" or "):
            options = options_of(f"{clause}, resolved")
            shown.add(options.envelope)
            assert (
                compile_marker(TableName.of(PETS), options).encode(ResolvedTimestamp(AT)) == marker.encode()
            )
            assert decoder_for(options).decode(None, marker.encode()) == MarkerRecord(ResolvedTimestamp(AT))
    assert shown == set(Envelope)


def test_the_headers_are_what_a_feed_writes() -> None:
    headers = compile_encoder(TRACED, FeedOptions(headers_json_column_name="h")).headers
    assert headers is not None
    rows = _HEADERS.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 1
    for column, shown in rows:
        value = json.loads(column, parse_int=Decimal, parse_float=Decimal)
        written = headers(row(TRACED, id=1, h=Json(value)))
        text = ", ".join(f"`{name}: {value.decode()}`" for name, value in written)
        assert (text or "none") == shown


def test_what_is_left_out_of_rows_that_are_too_large_is_what_a_feed_writes() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Rows that are too large")[2]
    encoder = compile_encoder(PETS, options_of("on_oversize='key_only', max_row_bytes='30'"))
    assert encoder.limit is not None
    shown = _LEFT_OUT.findall(page)
    assert [change for change, *_ in shown] == ["insert", "scan", "deletion"]
    for change, *cells in shown:
        key, whole = encoder.encode(CHANGES[change], AT)
        value, headers = encoder.limit.applied(CHANGES[change], AT, key, whole, [])
        texts = ["empty" if value == b"" else f"`{(value or b'').decode()}`", "none"]
        if headers:
            texts[1] = f"`{headers[0][1].decode()}`"
        assert cells == [key.decode(), *texts]
    assert f"does not have `max_row_bytes`, it is `'{DEFAULT_MAX_ROW_BYTES}'`" in page


def test_the_virtual_columns_are_what_a_feed_writes() -> None:
    rows = _VIRTUAL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == len(VirtualColumns)
    for clauses, shown in rows:
        encode = compile_encoder(ADULTS, options_of(clauses)).encode
        assert encode(row(ADULTS, id=1, name="Rex", age=None), AT)[1] == shown.encode()


def test_the_json_nulls_are_what_a_feed_writes() -> None:
    rows = _JSON_NULL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 4
    for clauses, datum, shown in rows:
        value = Json(json.loads(datum)) if datum else None
        encode = compile_encoder(NOTED, options_of(clauses)).encode
        assert encode(row(NOTED, id=1, data=value), AT)[1] == shown.encode()


def test_the_csv_is_what_a_feed_writes() -> None:
    encode = compile_encoder(PETS, options_of("format='csv', initial_scan='only'")).encode
    shown = _CSV.findall(PAGE.read_text(encoding="utf-8"))
    assert len(shown) == 3
    for number, name, value in shown:
        found = row(PETS, id=int(number), name=name.strip("`") if name != "NULL" else None)
        assert encode(found, AT) == (b"", value.encode())


def test_the_page_says_which_envelopes_need_previous_rows() -> None:
    needing = {each.value for each in Envelope if needs_previous(FeedOptions(envelope=each))}
    assert needing == {"enriched", "debezium"}
    assert "`diff`, `envelope='enriched'` and `envelope='debezium'` need" in PAGE.read_text(encoding="utf-8")
