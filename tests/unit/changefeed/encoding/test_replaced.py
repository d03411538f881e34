"""Rows that must say what they replaced: where the log does not, they are refused by name."""

from __future__ import annotations

import pytest

from tests.unit.changefeed.tables import FOO, deletion, row
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import needs_previous
from tidegate.changefeed.encoding.replaced import CHANGES, CREATE, DELETE, UPDATE, operation
from tidegate.errors import RowError
from tidegate.hlc import Timestamp
from tidegate.rows import Row, Unreadable

AT = Timestamp(1, 2)
NEEDING = [
    (FeedOptions(diff=True), "envelope=wrapped with diff"),
    (FeedOptions(envelope=Envelope.ENRICHED), "envelope=enriched"),
    (FeedOptions(envelope=Envelope.DEBEZIUM), "envelope=debezium"),
]


@pytest.mark.parametrize(("options", "named"), NEEDING)
@pytest.mark.parametrize("change", [row(FOO, a=1, b="x"), deletion(FOO, 1)], ids=["row", "deletion"])
def test_a_row_whose_previous_value_is_not_known_is_refused(
    options: FeedOptions, named: str, change: Row
) -> None:
    with pytest.raises(RowError) as refused:
        compile_encoder(FOO, options).encode(change._replace(previous=None), AT)
    for part in (f"{named} needs", "table foo", "the log does not hold it", "Let the source write"):
        assert part in str(refused.value)


@pytest.mark.parametrize(("options", "named"), NEEDING)
@pytest.mark.parametrize("change", [row(FOO, a=1, b="x"), deletion(FOO, 1)], ids=["row", "deletion"])
def test_a_row_whose_previous_value_cannot_be_read_is_refused_with_the_cause(
    options: FeedOptions, named: str, change: Row
) -> None:
    with pytest.raises(RowError) as refused:
        compile_encoder(FOO, options).encode(change._replace(previous=Unreadable("odd bytes")), AT)
    for part in (f"{named} needs", "table foo", "it cannot be read (odd bytes)", "Create the feed again"):
        assert part in str(refused.value)


@pytest.mark.parametrize("previous", [None, Unreadable("odd bytes")])
def test_feeds_that_need_no_previous_values_take_such_rows(previous: Unreadable | None) -> None:
    change = row(FOO, a=1, b="x")
    for envelope in Envelope:
        options = FeedOptions(envelope=envelope)
        if not needs_previous(options):
            encode = compile_encoder(FOO, options).encode
            assert encode(change._replace(previous=previous), AT) == encode(change, AT)


def test_what_a_row_did() -> None:
    new = row(FOO, a=1, b="x")
    assert new.values is not None
    assert operation(new, (), CHANGES) == CREATE
    assert operation(new, new.values, CHANGES) == UPDATE
    assert operation(deletion(FOO, 1), new.values, CHANGES) == DELETE
    assert operation(deletion(FOO, 1), (), CHANGES) == DELETE
