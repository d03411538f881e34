"""Each envelope with what can be asked of it: the golden file has the exact bytes of every change of a row.

A line has the options, what happened, key and value, separated by tabs. A change of it is a change of the
output format.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.changefeed.tables import FOO, deletion, deletion_of, row, update
from tidegate.changefeed.definition.options import DEFAULT_OPTIONS, Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.hlc import Timestamp
from tidegate.rows import Row

GOLDEN: Final = Path(__file__).parent / "golden" / "envelopes.tsv"
AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
SCAN: Final = Timestamp(1_743_792_395_000_000_000, 1)
NO_VALUE: Final = b"(no value)"

OLD: Final = row(FOO, a=1, b="old")
NEW: Final = row(FOO, a=1, b="new")
CHANGES: Final[dict[str, Row]] = {
    "row": OLD,
    "update": update(OLD, NEW),
    "deletion": deletion_of(NEW),
    "deletion of nothing": deletion(FOO, 1),
    "scan": OLD._replace(scanned_at=SCAN),
}

_EVERYTHING: Final[dict[str, Any]] = {
    "updated": True,
    "mvcc_timestamp": True,
    "key_in_value": True,
    "topic_in_value": True,
}
ASKED: Final[tuple[FeedOptions, ...]] = (
    FeedOptions(),
    FeedOptions(diff=True),
    FeedOptions(updated=True),
    FeedOptions(key_in_value=True),
    FeedOptions(topic_in_value=True),
    FeedOptions(topic_in_value=True, topic_prefix="shop.", full_table_name=True),
    FeedOptions(**_EVERYTHING, diff=True),
    FeedOptions(key_column="b", unordered=True),
    FeedOptions(key_column="b", unordered=True, key_in_value=True),
    FeedOptions(key_column="a", unordered=True),
    FeedOptions(envelope=Envelope.ROW),
    FeedOptions(envelope=Envelope.ROW, diff=True),
    FeedOptions(envelope=Envelope.ROW, updated=True, mvcc_timestamp=True),
    FeedOptions(envelope=Envelope.KEY_ONLY, diff=True, updated=True),
    FeedOptions(envelope=Envelope.BARE),
    FeedOptions(envelope=Envelope.BARE, diff=True, updated=True, key_in_value=True),
    FeedOptions(envelope=Envelope.BARE, **_EVERYTHING),
    FeedOptions(envelope=Envelope.ENRICHED),
    FeedOptions(envelope=Envelope.ENRICHED, diff=True),
    FeedOptions(envelope=Envelope.ENRICHED, updated=True),
    FeedOptions(envelope=Envelope.ENRICHED, mvcc_timestamp=True),
    FeedOptions(envelope=Envelope.ENRICHED, **_EVERYTHING, diff=True),
    FeedOptions(envelope=Envelope.ENRICHED, key_column="b", unordered=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="source"),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="source", updated=True, mvcc_timestamp=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema"),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema", key_column="b", unordered=True),
    FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source", **_EVERYTHING, diff=True),
    FeedOptions(envelope=Envelope.UPSERT),
    FeedOptions(envelope=Envelope.UPSERT, key_column="b", unordered=True),
    FeedOptions(envelope=Envelope.DEBEZIUM),
    FeedOptions(envelope=Envelope.DEBEZIUM, topic_prefix="shop."),
    FeedOptions(envelope=Envelope.DEBEZIUM, key_column="b", unordered=True),
)


def asked_text(options: FeedOptions) -> str:
    """The options that are not the defaults, as a WITH clause has them."""
    given = [(each.name, getattr(options, each.name)) for each in fields(options)]
    parts = [
        name if value is True else f"{name}={value.value if isinstance(value, Envelope) else value}"
        for name, value in given
        if value != getattr(DEFAULT_OPTIONS, name)
    ]
    return " ".join(parts) or "wrapped"


def lines() -> list[bytes]:
    written = []
    for options in ASKED:
        encode = compile_encoder(FOO, options).encode
        for happened, change in CHANGES.items():
            key, value = encode(change, AT)
            shown = NO_VALUE if value is None else value
            written.append(b"\t".join((asked_text(options).encode(), happened.encode(), key, shown)))
    return written


def test_the_bytes_of_every_envelope_do_not_change() -> None:
    assert b"\n".join([*lines(), b""]) == GOLDEN.read_bytes()


def test_every_envelope_is_there() -> None:
    assert {options.envelope for options in ASKED} == set(Envelope)


@pytest.mark.parametrize("options", ASKED, ids=asked_text)
def test_the_log_need_not_hold_previous_values_where_the_envelope_does_not_tell_them(
    options: FeedOptions,
) -> None:
    if not needs_previous(options):
        encode = compile_encoder(FOO, options).encode
        for change in CHANGES.values():
            assert encode(change._replace(previous=None), AT) == encode(change, AT)
