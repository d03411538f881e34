"""Steps are as long as their rows have room, and a feed with too many bytes of rows in one fails by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.logs import Record
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.hlc import ZERO
from tidegate.kernel import partition_kernel
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.step_size import RowLimits, fitting, fixed_bytes
from tidegate.processor.written_records import rows_size

_COLUMNS: Final = 300
_WIDE: Final = HandTable.of(
    104,
    "wide",
    ", ".join(["id INT", *(f"a_column_with_a_name_{at} STRING" for at in range(_COLUMNS))]),
)
_NARROW: Final = HandTable.of(105, "narrow")
_WIDE_FEED: Final = FeedId("wide")
_NARROW_FEED: Final = FeedId("narrow")
_ENGINES: Final = pytest.mark.parametrize("mode", list(KernelMode))


def _driven(limits: RowLimits, mode: KernelMode = KernelMode.OFF) -> Driven:
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(rows=limits, kernel=kernels_for(mode))))
    driven.control(
        activation([_WIDE.descriptor], start=ZERO, feed_id=_WIDE_FEED),
        activation([_NARROW.descriptor], start=ZERO, feed_id=_NARROW_FEED),
    )
    return driven


def _log(rows: int, per_entry: int = 1) -> Sequence[Record]:
    """Rows of both tables; those of the wide one are short in the log and long as JSON."""
    log = HandLog(partitions=1)
    for table in (_WIDE, _NARROW):
        log.describe(table)
    wide, narrow = log.open_range(7, _WIDE.span), log.open_range(8, _NARROW.span)
    for first in range(0, rows, per_entry):
        seconds = 1 + first / 100
        ids = range(first, first + per_entry)
        rows_of_entry = (_WIDE.put(seconds, each, *[None] * _COLUMNS) for each in ids)
        wide.apply(*(each._replace(prev_value=b"") for each in rows_of_entry), close=seconds - 0.001)
        narrow.apply(_NARROW.put(seconds, first, "v"), close=seconds - 0.001)
    return log.partitions[0]


def _steps(driven: Driven, records: Sequence[Record]) -> Iterator[StepResult]:
    while records:
        count = fitting(records, driven.processor.step_bytes)
        yield driven.step(records[:count])
        records = records[count:]


@_ENGINES
def test_rows_that_are_far_longer_than_the_log_make_steps_shorter(mode: KernelMode) -> None:
    limits = RowLimits(step_bytes=100_000)
    driven = _driven(limits, mode)
    descriptors, records = _log(400)[:2], _log(400)[2:]
    driven.step(descriptors)
    sizes = [sum(result.row_bytes.values()) for result in _steps(driven, records)]
    assert sum(sizes) > 20 * limits.step_bytes
    assert max(sizes) <= 2 * limits.step_bytes


@_ENGINES
def test_what_rows_have_is_counted_as_it_is(mode: KernelMode) -> None:
    driven = _driven(RowLimits(), mode)
    for result in _steps(driven, _log(20)):
        for feed_id, rows in result.outputs.items():
            assert result.row_bytes[feed_id] == rows_size(rows) == rows_size([*rows])


@_ENGINES
def test_a_feed_with_too_many_bytes_of_rows_in_one_step_fails_alone(mode: KernelMode) -> None:
    driven = _driven(RowLimits(feed_bytes=200_000), mode)
    driven.run(_log(100, per_entry=100))
    (incident,) = (each for result in driven.results for each in result.incidents)
    assert incident.feed_id == _WIDE_FEED
    assert "table wide: one step of its log partition makes too many bytes of rows" in incident.cause
    assert "range 7" in incident.cause
    rows = [row for result in driven.results for row in result.outputs.get(_NARROW_FEED, ())]
    assert len(rows) == 1
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == [_NARROW_FEED]


def test_a_feed_fails_at_the_same_row_by_the_kernel_and_by_python() -> None:
    found = []
    for mode in KernelMode:
        driven = _driven(RowLimits(feed_bytes=150_000), mode)
        driven.run(_log(100))
        found.append([(result.outputs, result.row_bytes, result.incidents) for result in driven.results])
    assert found[0] == found[1] == found[2]
    assert found[0][-1][2]


@pytest.mark.parametrize("mode", [KernelMode.OFF, KernelMode.ON])
@pytest.mark.parametrize("most", [1, 50_000])
def test_rows_beyond_what_a_kernel_gives_are_pythons(
    mode: KernelMode, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _driven(RowLimits())
    expected.run(_log(50))
    monkeypatch.setattr(partition_kernel, "OUTPUT_BYTES_MAX", most)
    driven = _driven(RowLimits(feed_bytes=10_000_000), mode)
    driven.run(_log(50))
    assert driven.rows == expected.rows
    assert driven.state == expected.state


@pytest.mark.parametrize(
    "options",
    [
        FeedOptions(),
        FeedOptions(diff=True),
        FeedOptions(envelope=Envelope.BARE),
        FeedOptions(envelope=Envelope.DEBEZIUM, connect_schema=True),
        FeedOptions(envelope=Envelope.ENRICHED, enriched_properties="schema,source"),
        FeedOptions(format=Format.AVRO, confluent_schema_registry="http://r"),
    ],
)
def test_what_rows_have_beside_their_values_is_about_what_is_reckoned_with(options: FeedOptions) -> None:
    driven = Driven()
    driven.control(activation([_WIDE.descriptor], options, start=ZERO))
    driven.run(_log(3))
    rows = [row for result in driven.results for each in result.outputs.values() for row in each]
    unframed = [row for result in driven.results for each in result.unframed.values() for row in each]
    sizes = [len(value or b"") for value in (*(row.value for row in rows), *(row.value for row in unframed))]
    assert sizes
    assert max(sizes) < 1.5 * fixed_bytes(_WIDE.descriptor, options) + 500


def test_the_example_of_the_page_is_true() -> None:
    table = HandTable.of(104, "t", ", ".join(["id INT", *(f"{at:020d} STRING" for at in range(1_000))]))
    assert 28_000 < fixed_bytes(table.descriptor, FeedOptions()) < 32_000
    shown = json.dumps({column.name: None for column in table.descriptor.columns})
    assert 28_000 < len(shown) < 32_000
