"""Tests which rows an engine's producers cannot take, and what the sentence tells a person to do."""

from __future__ import annotations

import pytest

from tidegate.changefeed.definition.feed import Engine
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import DEFAULT_MAX_ROW_BYTES
from tidegate.client.kafka.record_limit import LIMIT_OF_SPARK, RecordLimit, known_fault, limit_of_workers


def _leaves_out(max_row_bytes: int) -> FeedOptions:
    return FeedOptions(on_oversize=OnOversize.KEY_ONLY, max_row_bytes=max_row_bytes)


@pytest.mark.parametrize("limit", [limit_of_workers(1_000_000), LIMIT_OF_SPARK])
def test_a_row_of_the_feeds_limit_has_to_fit_with_what_stands_around_it(limit: RecordLimit) -> None:
    assert not limit.fault(_leaves_out(DEFAULT_MAX_ROW_BYTES))
    assert limit.fault(_leaves_out(DEFAULT_MAX_ROW_BYTES + 1))
    assert not limit.fault(FeedOptions()), "it leaves nothing out, and fails by the row itself"


def test_the_sentence_names_a_setting_only_where_there_is_one() -> None:
    options = _leaves_out(2_000_000)
    assert ": raise max_record_bytes of the workers, or" in limit_of_workers(1_500_000).fault(options)
    of_spark = LIMIT_OF_SPARK.fault(options)
    assert "Spark query take, 1000000: run the feed on workers with a higher max_record_bytes, or" in of_spark


def test_only_workers_have_a_limit_that_nobody_else_knows() -> None:
    options = _leaves_out(2_000_000)
    assert not known_fault(options, Engine.WORKERS)
    assert known_fault(options, Engine.SPARK) == known_fault(options, Engine.BACKFILL) != ""
