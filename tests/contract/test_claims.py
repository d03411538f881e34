"""The claims of the cases, said outright: literal records that every engine writes."""

from __future__ import annotations

import json

from tests.contract.catalogue import built
from tests.contract.comparison import markers
from tests.contract.conftest import Outputs
from tests.contract.engine import Output
from tests.hand_log import at
from tidegate.processor.reference import Emitted


def _rows(output: Output, topic_prefix: str = "") -> list[Emitted]:
    """The rows of the topics that begin so, by record time."""
    found = [
        record
        for place, records in output.items()
        if place.topic.startswith(topic_prefix)
        for record in records
        if record.key is not None
    ]
    return sorted(found, key=lambda record: (record.timestamp_ms or 0, record.key or b""))


def test_a_row_of_every_type_a_row_of_nulls_and_a_deletion(outputs: Outputs) -> None:
    full, deletion, nulls = _rows(outputs("every type"))
    values = json.loads(full.value or b"")["after"]
    assert values["c1"] == -(2**63)
    assert values["c6"] == 'wörld "\\\n\0 漢😀 %s'
    assert values["c19"] == ["a", None, "ü"]
    assert deletion.value == b'{"after": null, "updated": "1700000004000000000.0000000000"}'
    after = json.loads(nulls.value or b"")["after"]
    assert after.pop("id") == 2
    assert set(after.values()) == {None}


def test_empty_values_are_empty_and_not_absent(outputs: Outputs) -> None:
    keys_only = _rows(outputs("envelopes"), "key_only-False-0-")
    assert len(keys_only) == 8
    assert {record.value for record in keys_only} == {b""}
    assert _rows(outputs("envelopes"), "row-True-0-")[-1].value == b""


def test_record_times_are_commit_times(outputs: Outputs) -> None:
    times = [record.timestamp_ms for record in _rows(outputs("a secondary index"))]
    assert times == [at(second).wall_ms for second in range(1, 6)]


def test_a_feed_emits_exactly_what_is_above_its_start(outputs: Outputs) -> None:
    output = outputs("starts in the middle")
    found = {number: len(_rows(output, f"start{number}-")) for number in range(6)}
    # Two rows a second up to 9, at logical 0 and 1, and one more at 9.
    assert found == {0: 12, 1: 11, 2: 11, 3: 11, 4: 0, 5: 0}


def test_a_quarantined_range_gives_nothing_after_its_hole_and_its_feed_no_marker_above_it(
    outputs: Outputs,
) -> None:
    for name in ("quarantine: unreadable bytes", "quarantine: a missing index"):
        case, output = built(name), outputs(name)
        assert not any(b"lost" in (row.value or b"") for row in _rows(output))
        stopped, beside = case.feeds
        for feed, last in ((stopped, at(5)), (beside, at(8))):
            topics = {target.topic for target in feed.targets}
            for place, records in output.items():
                if place.topic in topics:
                    assert list(markers(feed, records))[-1] == last


def test_a_record_that_names_no_range_stops_only_its_partition(outputs: Outputs) -> None:
    output, case = outputs("a record that names no range"), built("a record that names no range")
    stopped, beside = ({target.topic for target in feed.targets} for feed in case.feeds)
    times = [row.timestamp_ms or 0 for topic in stopped for row in _rows(output, topic)]
    # Of the feed's two ranges one stops before second 5, the other goes on to 8.
    assert sorted(times) == sorted(at(s).wall_ms for s in [1, 2, 3, 4, *range(1, 9)])
    assert len([row for topic in beside for row in _rows(output, topic)]) == 8
