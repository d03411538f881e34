"""The sentence about a refused row holds for the engine and the options of any feed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK, RecordLimit, limit_of_workers
from tidegate.client.kafka.row_refusal import refusal_of, row_broke, row_refused
from tidegate.errors import RowDoubted, RowRefused

_TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")


@pytest.mark.parametrize(
    ("limit", "mend"),
    [
        (limit_of_workers(500), "500 bytes (max_record_bytes). To have it written raise max_record_bytes of"),
        (LIMIT_OF_SPARK, "query take). To have it written run the feed on workers with a higher"),
    ],
)
def test_a_row_above_our_limit_is_mended_where_the_limit_can_be_changed(
    limit: RecordLimit, mend: str
) -> None:
    told = str(row_refused("t", 3, b"k", b"x" * 9, _TOO_LARGE, limit))
    assert f"a row of 10 bytes for t partition 3, key 6b, is above the limit of {limit.max_bytes}" in told
    assert mend in told


@pytest.mark.parametrize("limit", [None, LIMIT_OF_SPARK])
def test_no_feed_is_told_to_set_an_option_that_it_has(limit: RecordLimit | None) -> None:
    """Whether it has the option is not known here: what the sentence says is true for both."""
    told = str(row_refused("t", 3, b"k", b"v", _TOO_LARGE, limit))
    assert (
        "A feed with on_oversize='key_only' whose max_row_bytes is 1000 below that limit, or lower," in told
    )
    assert "create it WITH" not in told


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (RowRefused, "MSG_SIZE_TOO_LARGE _UNKNOWN_TOPIC TOPIC_AUTHORIZATION_FAILED INVALID_RECORD"),
        (RowRefused, "_INVALID_ARG INVALID_TIMESTAMP RECORD_LIST_TOO_LARGE UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        (RowDoubted, "UNKNOWN NOT_ENOUGH_REPLICAS INVALID_MSG KAFKA_STORAGE_ERROR _STATE"),
        (RowDoubted, "UNSUPPORTED_COMPRESSION_TYPE"),
        (type(None), "_PURGE_QUEUE _DESTROY _TRANSPORT OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ],
)
def test_only_errors_that_are_known_to_come_each_time_refuse_a_row(kind: type, names: str) -> None:
    """Whatever else a broker answers, the next producer may deliver the row."""
    for name in names.split():
        assert type(refusal_of("t", 3, b"k", b"v", KafkaError(getattr(KafkaError, name)))) is kind, name


def test_a_row_that_the_client_cannot_be_given_is_named(caplog: pytest.LogCaptureFixture) -> None:
    told = str(row_broke("t", 3, b"k", b"v", ValueError("embedded null character")))
    assert "the client does not take a row of 2 bytes for t partition 3, key 6b: " in told
    assert "ValueError: embedded null character" in told
    assert "an exception fails the feed of a row for t partition 3" in caplog.text
    with pytest.raises(OSError, match="the disk is full"):
        row_broke("t", 3, b"k", b"v", OSError("the disk is full"))
