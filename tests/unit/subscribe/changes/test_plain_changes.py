"""Rows decoded with the columns' names known: as rows are that are decoded the other way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.subscribe.consumer_run import plan_of
from tests.unit.subscribe.hostile_records import VALUES
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.errors import SubscribeError
from tidegate.subscribe.changes.key_rows import MemoryKeyRows
from tidegate.subscribe.changes.plain_changes import PlainChanges
from tidegate.subscribe.changes.row_updates import RowBefore
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows
from tidegate.subscribe.gate.row_chunk import int_column
from tidegate.subscribe.gate.stamps import stamp
from tidegate.subscribe.gate.version_reader import VersionReader

PLACE = FeedPartition("accounts", 0)
READER = VersionReader({"accounts": JsonDecoder(Envelope.WRAPPED)})
BESIDE = (
    b'{"after": {"id": 1, "balance": {"a": [1, {"b": 2}]}, "note": null}, "updated": "5.0000000000"}',
    b'{"after": {"id": 1, "balance": 2, "note": "\\": "}, "key": [1], "updated": "5.0000000000"}',
    b'{"after": null, "before": {"id": 1, "balance": 2, "note": "a"}, "updated": "5.0000000000"}',
)


def opened(values: tuple[bytes | None, ...], *, decoded: bool, key: bytes = b"[0]") -> OpenedRows:
    """Rows at one timestamp, as bytes or decoded; ``key`` is that of the first."""
    count = len(values)
    rows = OpenedRows(
        int_column([5] * count),
        int_column([0] * count),
        [PLACE] * count,
        list(range(count)),
        [key, *(b"[%d]" % at for at in range(1, count))],
        list(values),
        [None] * count,
        int_column([0] * count),
    )
    if decoded:
        rows.records[:] = [rows.version(at, READER.row).record for at in range(count)]
    return rows


def pairs(values: tuple[bytes | None, ...], *, decoded: bool, key: bytes = b"[0]") -> Any:
    """The rows before and after, or the error."""
    changes = PlainChanges(plan_of("SUBSCRIBE accounts").relation, RowBefore.RECORD, MemoryKeyRows())
    try:
        return changes.pairs(opened(values, decoded=decoded, key=key), READER.row)
    except SubscribeError as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "value",
    [each for each in (*VALUES, *BESIDE) if stamp(each) is not None],
    ids=lambda value: repr(value)[:60],
)
def test_both_ways_of_decoding_give_the_same_row_or_the_same_error(value: bytes | None) -> None:
    whole = b'{"after": {"id": 2, "balance": 2, "note": "b"}, "before": null, "updated": "5.0000000000"}'
    for values in ((value,), (whole, value, whole)):
        assert pairs(values, decoded=False) == pairs(values, decoded=True)


@pytest.mark.parametrize("key", [b"[\x9b5]", b"[]", b"[", b"7", b'[{"a": 1, "a": 2}]', b'[{"a": 1}]'])
def test_both_ways_of_decoding_give_the_same_row_or_the_same_error_for_a_key(key: bytes) -> None:
    value = b'{"after": {"id": 2, "balance": 2, "note": "b"}, "before": null, "updated": "5.0000000000"}'
    assert pairs((value, value), decoded=False, key=key) == pairs((value, value), decoded=True, key=key)


def test_values_of_several_forms_are_decoded_as_each_alone() -> None:
    row = b'{"id": 2, "balance": 2, "note": "b"}'
    before = b'{"after": %s, "before": null, "updated": "5.0000000000"}' % row
    plain = b'{"after": %s, "updated": "5.0000000000"}' % row
    twice = b'{"after": {"id": 2, "id": 3, "balance": 2, "note": "b"}, "updated": "5.0000000000"}'
    for values in ((before, plain), (plain, before), (plain, twice, before), (before, twice), (twice, plain)):
        assert pairs(values, decoded=False) == pairs(values, decoded=True)
