"""The sentence about a refused row holds for the engine and the options of any feed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK, RecordLimit, limit_of_workers
from tidegate.client.kafka.row_refusal import row_refused

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
