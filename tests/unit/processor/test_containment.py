"""Exceptions that nobody foresaw: the data that brings one about is refused, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from tests.breaking_steps import broken_at_the_end, broken_by_records
from tests.feeds import activation
from tests.logs import Record
from tests.unit.processor.careful import CarefulEngine
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN, eventful_log, opened
from tidegate.changefeed.lifecycle.control import (
    Activate,
    Active,
    ControlMessage,
    Failed,
    read_control_record,
)
from tidegate.errors import EncodingError, StateError
from tidegate.processor import processor
from tidegate.processor.batch import ExchangeRecord, Incident
from tidegate.processor.containment import Caution, Input, InputPlace, StepBroke, unforeseen
from tidegate.processor.feeds import feed_control
from tidegate.processor.feeds import version_rows as rows
from tidegate.processor.feeds.emitter import _TableEmitter
from tidegate.processor.log_step import LogStep
from tidegate.processor.moving import entry_reader
from tidegate.processor.moving.exchange import Exchanges
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.refused import KEPT_OF_A_STEP, RefusedRecord, Source
from tidegate.processor.state.exchange_codec import read_exchange_record
from tidegate.raftlog.entry import Offset, RaftIndex, RangeId
from tidegate.ranges.handoff import Claim
from tidegate.rows import TableCodec, decode_descriptor
from tidegate.spans import Span

_FEED = activation([PLAIN.descriptor, OTHER.descriptor])
_LOG: Final = eventful_log()

Breaking = Callable[[Container[int]], AbstractContextManager[None]]


def _unreadable(offset: int) -> Sequence[Record]:
    """The log, where the record has other bytes."""
    return [record._replace(value=b"\xff") if record.offset == offset else record for record in _LOG]


def _output(driven: Driven) -> tuple[object, ...]:
    rows = [(row.topic, row.partition, row.key, row.value, row.headers) for row in driven.rows]
    ranges = sorted((each.offset, each.range_id) for each in _incidents(driven) if each.range_id is not None)
    feeds = {each.feed_id for each in _incidents(driven)}
    return rows, driven.processor.full_checkpoint(), ranges, feeds, len(driven.state)


def _incidents(driven: Driven) -> list[Incident]:
    return [incident for result in driven.results for incident in result.incidents]


@pytest.mark.sampled(4)
@pytest.mark.python_step
@pytest.mark.parametrize("batch", [1, 3, 1_000])
@pytest.mark.parametrize("breaking", [broken_by_records, broken_at_the_end])
@pytest.mark.parametrize("offset", range(len(_LOG)))
def test_a_record_that_breaks_its_step_is_as_one_that_cannot_be_read(
    offset: int, breaking: Breaking, batch: int
) -> None:
    expected = active(_FEED)
    expected.run(_unreadable(offset), batch)
    careful = CarefulEngine(_FEED)
    with breaking({offset}):
        careful.run(_LOG, batch)
    assert careful.opened in (2, 3), "once for the batch, once for the record"
    assert _output(careful.driven) == _output(expected)


@pytest.mark.python_step
def test_an_operator_is_told_of_the_exception_and_where_it_came_from() -> None:
    careful = CarefulEngine(_FEED)
    with broken_by_records({7}):
        careful.run(_LOG, batch=1_000)
    cause = next(each.cause for each in _incidents(careful.driven) if each.offset == 7)
    assert "ArithmeticError (breaking_steps.py, line " in cause
    assert "nobody foresaw offset 7" in cause
    assert "report it" in cause


def _raise(*_: object, **__: object) -> Any:
    raise ArithmeticError("nobody foresaw it")


@pytest.mark.python_step
@pytest.mark.parametrize(
    ("part", "method"), [(TableCodec, "decode"), (_TableEmitter, "_encoded")], ids=["read", "written"]
)
def test_a_row_that_nobody_can_deal_with_fails_its_feed_at_once(
    part: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, plain = opened()
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0])
    plain.apply(PLAIN.put(7, 2, "odd"), close=8)
    with monkeypatch.context() as patched:
        patched.setattr(part, method, _raise)
        driven.step(log.partitions[0])
    (cause,) = driven.causes
    assert cause.startswith("feed feed failed: ")
    assert "ArithmeticError" in cause
    assert driven.processor.status().quarantined == ()
    assert [*map(type, driven.results[-1].acks)] == [Failed]


@pytest.mark.parametrize("first", [0, 1])
def test_a_message_that_breaks_its_step_fails_its_feed_and_the_others_go_on(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes alone, or with others behind it or before it."""
    feeds = [activation([PLAIN.descriptor], feed_id=name) for name in ("odd", "well")]

    def take_up(feeds: Any, message: ControlMessage, *others: Any) -> bool:
        taken = feed_control.take_up(feeds, message, *others)
        if isinstance(message, Activate) and message.feed_id == "odd":
            _raise()
        return taken

    monkeypatch.setattr(processor, "take_up", take_up)
    careful = CarefulEngine()
    careful.control(*(feeds[first:] + feeds[:first]))
    acks = {ack.feed_id: type(ack) for result in careful.driven.results for ack in result.acks}
    assert acks == {"odd": Failed, "well": Active}


def test_a_step_that_a_refused_record_breaks_as_well_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    careful = CarefulEngine(_FEED)
    monkeypatch.setattr(LogStep, "settle", _raise)
    with pytest.raises(StepBroke, match=r"a step broke at offset 0 of the log: .*ArithmeticError"):
        careful.run(_LOG, batch=5)


@pytest.mark.parametrize("fault", [StateError("its disk is full"), MemoryError(), OSError("no space left")])
def test_what_is_of_the_process_s_own_ground_is_no_fault_of_a_record(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*_: object) -> None:
        raise fault

    careful = CarefulEngine(_FEED)
    monkeypatch.setattr(LogStep, "settle", settle)
    with pytest.raises(type(fault)) as raised:
        careful.run(_LOG, batch=5)
    assert raised.value is fault


def test_a_broken_step_is_told_as_it_is() -> None:
    place = InputPlace(Input.HAND_OFFS, 9)
    record = RefusedRecord(Source.HAND_OFFS, 9, 0, b"key", None, "ArithmeticError", "it was odd")
    for broke in (
        StepBroke(InputPlace(Input.HAND_OFFS, 3), place, "it was odd"),
        StepBroke(place, place, "it was odd", record),
    ):
        told = StepBroke.from_bytes(broke.to_bytes())
        assert (told.first, told.last, told.cause, told.record, str(told)) == (
            broke.first,
            broke.last,
            broke.cause,
            broke.record,
            str(broke),
        )


def test_records_have_steps_of_their_own_up_to_where_the_step_broke() -> None:
    caution = Caution().after(StepBroke(InputPlace(Input.LOG, 3), InputPlace(Input.LOG, 5), "odd"))
    records = [record for record in _LOG if record.offset in range(4, 9)]
    steps = [[record.offset for record in some] for some in caution.steps(Input.LOG, records)]
    assert steps == [[4], [5], [6, 7, 8]]
    assert [[*some] for some in caution.steps(Input.CONTROL, records)] == [records]


@pytest.mark.parametrize(
    ("alone_to", "offsets", "groups"),
    [
        (None, [], [[]]),
        (None, [0, 1], [[0, 1]]),
        (0, [0, 1, 2], [[0], [1, 2]]),
        (1, [0, 1], [[0], [1]]),
        (5, [3], [[3]]),
        (5, [6], [[6]]),
        (5, [], [[]]),
    ],
)
def test_each_group_of_records_is_a_step_and_there_is_one_at_least(
    alone_to: int | None, offsets: list[int], groups: list[list[int]]
) -> None:
    caution = Caution({} if alone_to is None else {Input.LOG: alone_to})
    records = [_LOG[offset] for offset in offsets]
    assert [[record.offset for record in some] for some in caution.steps(Input.LOG, records)] == groups


@pytest.mark.python_step
@pytest.mark.parametrize("breaking", [broken_by_records, broken_at_the_end])
@pytest.mark.parametrize("batch", [1, 1_000])
def test_the_record_that_broke_a_step_is_told_as_it_came(batch: int, breaking: Breaking) -> None:
    careful = CarefulEngine(_FEED)
    with breaking({7}):
        careful.run(_LOG, batch)
    *_, told = careful.broken
    record = next(each for each in _LOG if each.offset == 7)
    assert told.record is not None
    assert told.record[:5] == (Source.LOG, 7, record.timestamp, record.key, record.value)
    assert told.record.exception.startswith("ArithmeticError (breaking_steps.py, line ")
    assert told.record.cause == told.cause


@pytest.mark.python_step
def test_of_a_batch_that_broke_no_record_is_told_for_another() -> None:
    careful = CarefulEngine(_FEED)
    with broken_at_the_end({7}):
        careful.run(_LOG, batch=1_000)
    assert careful.broken[0].record is None


def test_a_message_that_broke_its_step_is_told_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "take_up", _raise)
    careful = CarefulEngine(_FEED)
    (told,) = careful.broken
    assert told.record is not None
    assert told.record[:3] == (Source.CONTROL, 0, 0)
    assert read_control_record(told.record.key, told.record.value or b"") == _FEED


def test_a_hand_off_that_broke_its_step_is_told_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = PartitionProcessor(0, 1)
    claim = Claim(RangeId(3), RangeId(5), RaftIndex(2), Span(b"a", b"c"))
    monkeypatch.setattr(Exchanges, "receive", _raise)
    with pytest.raises(StepBroke) as raised:
        engine.exchange([ExchangeRecord(Offset(4), claim)])
    told = raised.value.record
    assert told is not None
    assert told[:3] == (Source.HAND_OFFS, 4, 0)
    assert read_exchange_record(told.key, told.value or b"") == claim


def test_a_record_whose_reading_nobody_foresaw_is_kept_and_its_range_is_quarantined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driven = active(_FEED)
    monkeypatch.setattr(entry_reader, "decode_batch", _raise)
    monkeypatch.setattr(entry_reader, "decode_entry", _raise)
    result = driven.step(_LOG)
    assert [each.offset for each in result.refused] == [each.offset for each in _LOG[:KEPT_OF_A_STEP]]
    first = result.refused[0]
    assert first[:5] == (Source.LOG, _LOG[0].offset, _LOG[0].timestamp, _LOG[0].key, _LOG[0].value)
    assert first.exception.startswith("ArithmeticError (test_containment.py, line ")


def test_a_sentence_about_what_nobody_foresaw_says_what_to_send() -> None:
    error = ArithmeticError("odd")
    begin = "tidegate cannot deal with it, which is a defect: ArithmeticError: odd. Please report it, with "
    assert unforeseen(error) == begin + "the record (`tidegate debug refused`)"
    assert unforeseen(error, keeps=False) == begin + "the lines of the log"
    assert unforeseen(error).exception == "ArithmeticError"


def test_a_descriptor_whose_reading_nobody_foresaw_is_kept_with_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driven = active(_FEED)
    monkeypatch.setattr(rows, "decoded_descriptor", _raise)
    result = driven.step(_LOG)
    assert {each.source for each in result.refused} == {Source.LOG}
    assert "ArithmeticError" in result.refused[0].exception


@pytest.mark.python_step
@pytest.mark.parametrize(
    ("part", "method"), [(TableCodec, "decode"), (_TableEmitter, "_encoded")], ids=["read", "written"]
)
def test_a_row_that_nobody_can_deal_with_is_kept_with_what_reads_it(
    part: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, plain = opened()
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0])
    version = PLAIN.put(7, 2, "odd")
    plain.apply(version, close=8)
    with monkeypatch.context() as patched:
        patched.setattr(part, method, _raise)
        result = driven.step(log.partitions[0])
    (kept,) = result.refused
    assert (kept.source, kept.timestamp_ms) == (Source.ROW, 0)
    assert kept.exception.startswith("ArithmeticError (test_containment.py, line ")
    assert kept.row is not None
    assert (kept.row.feed_id, kept.row.previous) == ("feed", None)
    codec = TableCodec(decode_descriptor(kept.row.descriptor))
    row = codec.decode(kept.key or b"", kept.value or b"")
    assert row is not None
    assert row.values is not None
    assert "odd" in row.values


@pytest.mark.python_step
def test_a_row_that_cannot_be_read_for_a_reason_that_is_known_is_not_kept() -> None:
    log, plain = opened()
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0])
    plain.apply(PLAIN.put(7, 2, "odd"), close=8)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableCodec, "decode", _refuse)
        result = driven.step(log.partitions[0])
    assert result.refused == []
    assert driven.causes


def _refuse(*_: object) -> Any:
    raise EncodingError("its bytes are none")


def test_a_message_that_cannot_be_written_again_is_told_without_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "take_up", _raise)
    monkeypatch.setattr("tidegate.processor.breaking.control_key", _raise)
    (told,) = CarefulEngine(_FEED).broken
    assert told.record is not None
    assert (told.record.key, told.record.value) == (None, None)
