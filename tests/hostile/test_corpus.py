"""Each input of the corpus has a named outcome in a whole step with live feeds, and leaves others alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from time import process_time
from typing import Final

import pytest

from tests.feeds import activation
from tests.hostile.corpus.case import Ends, Hostile, Stage
from tests.hostile.corpus.definitions import DEFINITIONS, Definition
from tests.hostile.corpus.entries import ENTRIES
from tests.hostile.corpus.output_records import OUTPUT_RECORDS, OutputRecord
from tests.hostile.corpus.rows import ROWS
from tests.hostile.corpus.texts import MESSAGES, STATEMENTS, Message, Options
from tests.unit.processor.driving import Driven
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.lifecycle.control import Failed, Register, read_control
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, read_job_record
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.topic_ownership import check_sink
from tidegate.errors import FeedError, ForeignRecord, MalformedRecord, StatementError
from tidegate.hlc import ZERO
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import Incident
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import RangeId

_CORPUS: Final = (*ROWS, *ENTRIES)
_HOSTILE: Final = FeedId("hostile")
_HEALTHY: Final = FeedId("healthy")
#: Of the whole step, on a slow or busy machine too. What broke took minutes, or did not end.
_SECONDS_MAX: Final = 10


def _driven(case: Hostile, mode: KernelMode) -> Driven:
    stage = case.stage()
    driven = Driven(PartitionProcessor(0, 1, ProcessorConfig(kernel=kernels_for(mode))))
    driven.control(
        activation([stage.table.descriptor], case.options, start=ZERO, feed_id=_HOSTILE),
        activation([stage.healthy.descriptor], start=ZERO, feed_id=_HEALTHY),
    )
    begin = process_time()
    driven.run(stage.log.partitions[0])
    assert process_time() - begin < _SECONDS_MAX
    return driven


def _written(driven: Driven, feed: FeedId) -> int:
    """Return how many rows of the feed there are, framed or not."""
    return sum(
        len(result.outputs.get(feed, ())) + len(result.unframed.get(feed, ())) for result in driven.results
    )


def _incidents(driven: Driven) -> list[Incident]:
    return [incident for result in driven.results for incident in result.incidents]


@pytest.fixture(scope="module", params=_CORPUS, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Hostile:
    """Each input in turn, for all tests of it."""
    hostile: Hostile = request.param
    return hostile


@pytest.fixture(scope="module", params=[KernelMode.OFF, KernelMode.ON], ids=["python", "kernel"])
def driven(case: Hostile, request: pytest.FixtureRequest) -> Driven:
    """The step behind the input, by Python and by the kernel. Tests look at it, and give it nothing more."""
    return _driven(case, request.param)


def test_an_input_that_broke_something_has_a_named_outcome(case: Hostile, driven: Driven) -> None:
    acks = chain.from_iterable(result.acks for result in driven.results)
    failed = {ack.feed_id: ack.reason for ack in acks if isinstance(ack, Failed)}
    quarantined = {each.range_id: each.cause for each in _incidents(driven) if each.range_id is not None}
    assert "which is a defect" not in str(driven.causes), "nobody has foreseen it"
    assert all(len(cause) <= 1_100 for cause in driven.causes)
    match case.ends:
        case Ends.WRITTEN:
            assert (_written(driven, _HOSTILE), failed, quarantined) == (1, {}, {})
        case Ends.FAILED:
            assert case.says in failed[_HOSTILE]
            assert (_written(driven, _HOSTILE), quarantined) == (0, {})
        case Ends.QUARANTINED:
            assert case.says in quarantined[RangeId(1)]
            assert (_written(driven, _HOSTILE), failed) == (0, {})
        case Ends.REPORTED:
            assert any(case.says in cause for cause in driven.causes)
            assert (failed, quarantined) == ({}, {})
    assert _written(driven, _HEALTHY) == 1
    assert _HEALTHY not in failed
    assert 2 not in quarantined


def test_state_behind_such_an_input_can_be_read_again(driven: Driven) -> None:
    restored = Driven.restored(driven.state)
    assert _shown(restored) == _shown(driven)
    assert all(len(value) <= 1_000_000 for value in driven.state.values())


def _shown(driven: Driven) -> object:
    """Return what a processor would say of its ranges and feeds; feeds are in order of their names once
    restored."""
    checkpoint = driven.processor.full_checkpoint()
    return replace(checkpoint, feeds=tuple(sorted(checkpoint.feeds)))


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case.name)
def test_a_statement_that_broke_something_is_refused_by_name(case: Options) -> None:
    statement = f"CREATE CHANGEFEED FOR t INTO 'kafka://h:1' WITH {case.text}"
    begin = process_time()
    with pytest.raises(StatementError) as refused:
        define_feed(statement, _HOSTILE, 1_700_000_000_000_000_000)
    assert process_time() - begin < _SECONDS_MAX
    assert len(str(refused.value).encode()) < 2_000


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.name)
def test_a_message_that_broke_something_is_refused_by_name(case: Message) -> None:
    with pytest.raises(ForeignRecord) as refused:
        read_control(case.value)
    assert len(str(refused.value).encode()) < 1_000


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case.name)
def test_a_stored_definition_that_broke_something_fails_before_a_partition_is_told(case: Definition) -> None:
    defined = case.activation([Stage.alone("id INT, v STRING", "id").table.descriptor], _HOSTILE).definition
    stored = DefinitionRecord(defined)
    read = read_job_record(stored.key, stored.to_bytes())
    assert read == stored
    with pytest.raises(FeedError, match=case.stored) as refused:
        check_sink(defined)
    assert len(str(refused.value).encode()) < 2_000


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case.name)
def test_a_control_message_that_broke_something_fails_its_feed_and_no_other(case: Definition) -> None:
    stage = Stage.alone("id INT, v STRING", "id")
    told = case.activation([stage.table.descriptor], _HOSTILE)
    stage.row("one")
    stage.other.apply(stage.healthy.put(6, 1, "well"), close=6)
    driven = Driven(PartitionProcessor(0, 1))
    driven.control(activation([stage.healthy.descriptor], start=ZERO, feed_id=_HEALTHY))
    driven.control(*(read_control(each.to_bytes()) for each in (Register(told.definition), told)))
    driven.run(stage.log.partitions[0])
    acks = list(chain.from_iterable(result.acks for result in driven.results))
    failed = {ack.feed_id: ack.reason for ack in acks if isinstance(ack, Failed)}
    assert list(failed) == [_HOSTILE]
    assert case.told in failed[_HOSTILE]
    assert all(len(ack.to_bytes()) < 2_000 for ack in acks)
    assert all(len(value) <= 1_000_000 for value in driven.state.values())
    assert (_written(driven, _HOSTILE), _written(driven, _HEALTHY)) == (0, 1)
    assert _shown(Driven.restored(driven.state)) == _shown(driven)


@pytest.mark.parametrize("case", OUTPUT_RECORDS, ids=lambda case: case.name)
def test_an_output_record_that_broke_something_has_a_named_outcome(case: OutputRecord) -> None:
    decoder = decoder_for(case.options, lambda _: case.schema)
    begin = process_time()
    try:
        decoder.decode(case.key, case.value)
        said = ""
    except MalformedRecord as error:
        said = str(error)
    assert process_time() - begin < _SECONDS_MAX
    assert len(said.encode()) < 2_000
    assert case.says in said
    assert bool(case.says) == bool(said)


def test_each_input_has_a_name_of_its_own_and_a_sentence() -> None:
    for chapter in (_CORPUS, STATEMENTS, MESSAGES, DEFINITIONS, OUTPUT_RECORDS):
        assert len({case.name for case in chapter}) == len(chapter)
        assert all(case.broke.endswith(".") for case in chapter)
