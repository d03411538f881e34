from __future__ import annotations

import pytest

from tidegate.errors import SettingsError
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.warehouse.buckets import Buckets


def test_without_options_a_stream_begins_with_the_topics_and_ends_batches_at_every_marker() -> None:
    assert SourceOptions.of({}) == SourceOptions(start=ZERO, buckets=None, as_of=None)


def test_names_of_options_come_in_any_case() -> None:
    options = {"Bootstrap": "h:1", "APP_ID": "a", "topic_prefix": "p-", "feed": "f", "tables": "a, db.b,"}
    assert SourceOptions.of(options) == SourceOptions("h:1", "a", "p-", "f", ("a", "db.b"))


def test_a_start_is_the_beginning_the_newest_cut_or_a_timestamp() -> None:
    assert SourceOptions.of({"start": "earliest"}).start == ZERO
    assert SourceOptions.of({"start": "latest"}).start is None
    assert SourceOptions.of({"start": "17.0000000002"}).start == Timestamp(17, 2)


def test_a_cut_is_every_marker_or_a_duration() -> None:
    assert SourceOptions.of({"cut": "marker"}).buckets is None
    assert SourceOptions.of({"cut": "1m"}).buckets == Buckets(60_000_000_000)


def test_a_batch_is_bounded() -> None:
    assert SourceOptions.of({}).batch_records == 1_000_000
    assert SourceOptions.of({"batch_records": "5"}).batch_records == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "/x"}, "no option 'path'"),
        ({"start": "now"}, "The option start cannot be used: not an HLC timestamp: 'now'"),
        ({"as_of": "1,5"}, "The option as_of cannot be used"),
        ({"cut": "1 minute"}, "The option cut cannot be used: not a duration"),
        ({"cut": "0s"}, "The option cut cannot be used"),
        ({"batch_records": "0"}, "The option batch_records cannot be used"),
        ({"batch_records": "9" * 5_000}, "The option batch_records cannot be used"),
        ({"batch_records": "many"}, "'many' is no number of records"),
        ({"cut": "-1m"}, "The option cut cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        SourceOptions.of(options)
