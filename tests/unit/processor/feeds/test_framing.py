"""Schema ids into records, and what becomes of a feed whose schema is refused."""

from __future__ import annotations

from typing import Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at, update_of
from tests.unit.processor.driving import Driven, StoredState, fold
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.schemed import (
    schemas_for,
    schemed_options,
)
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema, unframe
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.lifecycle.control import Active, Failed, Remove, Removed
from tidegate.errors import SchemaRejected
from tidegate.processor.batch import SchemedTopic, StepResult, UnframedRecord
from tidegate.processor.feeds.framing import frame, schemas_of

_KEY, _OLD, _NEW = SubjectSchema("t-key", "k"), SubjectSchema("t-value", "v1"), SubjectSchema("t-value", "v2")
_FIRST = SchemedTopic("t", 7, RecordSchemas(_KEY, _OLD))
_SECOND = SchemedTopic("t", 7, RecordSchemas(_KEY, _NEW))
_IDS: Final = {_KEY: 1, _OLD: 2, _NEW: 300}

_WIDE = PLAIN.widened(5)
_OPTIONS = schemed_options("s-")
_SCHEMED = activation([PLAIN.descriptor], _OPTIONS, feed_id="schemed")
_JSON = activation([PLAIN.descriptor], feed_id="json")


def _unframed(to: SchemedTopic, key: bytes, value: bytes | None) -> UnframedRecord:
    return UnframedRecord(to, key, value, 5, [("h", b"x")])


def test_schemas_are_named_once_in_the_order_of_their_first_use() -> None:
    rows = [_unframed(to, b"key", b"value") for to in (_FIRST, _FIRST, _SECOND, _FIRST)]
    assert schemas_of(rows) == [_KEY, _OLD, _NEW]


def test_a_value_behind_deletions_has_its_schema_named() -> None:
    rows = [_unframed(_FIRST, b"a", None), _unframed(_FIRST, b"b", b""), _unframed(_FIRST, b"c", b"v")]
    assert schemas_of([*rows, _unframed(_SECOND, b"d", None)]) == [_KEY, _OLD]


@pytest.mark.parametrize("value", [None, b""])
def test_no_schema_of_a_value_is_asked_for_without_a_value(value: bytes | None) -> None:
    rows = [_unframed(_FIRST, b"key", value)]
    assert schemas_of(rows) == [_KEY]
    assert frame(rows, {_KEY: 1})[0].value == value


def test_records_are_framed_in_order_each_with_the_schemas_of_its_own_version() -> None:
    rows = [_unframed(_FIRST, b"a", b"1"), _unframed(_SECOND, b"b", b"2"), _unframed(_FIRST, b"c", None)]
    framed = frame(rows, _IDS)
    assert [unframe(record.key) for record in framed] == [(1, b"a"), (1, b"b"), (1, b"c")]
    assert [record.value and unframe(record.value) for record in framed] == [(2, b"1"), (300, b"2"), None]
    assert {(record.topic, record.timestamp_ms, tuple(record.headers)) for record in framed} == {
        ("t", 5, (("h", b"x"),))
    }


def test_the_framed_key_chooses_the_partition_as_consumers_see_it() -> None:
    rows = [_unframed(_FIRST, b"%d" % number, b"v") for number in range(50)]
    framed = frame(rows, _IDS)
    assert [record.partition for record in framed] == [partition_of(record.key, 7) for record in framed]
    assert [record.partition for record in framed] != [partition_of(row.key, 7) for row in rows]


def test_a_record_without_the_id_of_its_schema_is_never_made() -> None:
    with pytest.raises(KeyError):
        frame([_unframed(_FIRST, b"a", b"1"), _unframed(_SECOND, b"b", b"2")], {_KEY: 1, _OLD: 2})


def test_a_records_time_is_the_commits_in_every_format() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(PLAIN.put(5.25, 1, "a"), close=6)
    driven = Driven()
    driven.control(_SCHEMED, _JSON)
    (result,) = driven.run(log.partitions[0])
    (unframed,), (framed,) = result.unframed[FeedId("schemed")], result.outputs[FeedId("json")]
    assert unframed.timestamp_ms == framed.timestamp_ms == at(5.25).wall_ms


# ---- a refused schema


def _refused() -> tuple[Driven, StepResult]:
    """A partition of both feeds, after the step that wrote a row of the new version, and its refusal."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    rows.apply(PLAIN.put(1, 1, "x"), close=1)
    log.write(update_of(_WIDE.descriptor))
    rows.apply(_WIDE.put(6, 2, "y", None), close=6)
    driven = Driven()
    driven.control(_SCHEMED, _JSON)
    result = driven.step(log.partitions[0])
    driven.processor.refuse(_SCHEMED.feed_id, SchemaRejected("409: not compatible"), result)
    return driven, result


def _folded(driven: Driven, result: StepResult) -> StoredState:
    """The state as the transaction of the refused step leaves it."""
    return fold(driven.state, result.changes)


def test_both_versions_schemas_are_among_what_a_step_leaves_unframed() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    rows.apply(PLAIN.put(1, 1, "x"))
    log.write(update_of(_WIDE.descriptor))
    rows.apply(_WIDE.put(6, 2, "y", None))
    driven = Driven()
    driven.control(_SCHEMED)
    result = driven.step(log.partitions[0])
    old, new = schemas_for(PLAIN.descriptor, _OPTIONS), schemas_for(_WIDE.descriptor, _OPTIONS)
    assert schemas_of(result.unframed[_SCHEMED.feed_id]) == [old.key, old.value, new.value]
    assert not any(result.outputs.values())


def test_a_refused_feed_fails_with_the_registrys_words_in_the_step_that_it_was_refused_in() -> None:
    _, result = _refused()
    assert [(ack.feed_id, ack.reason) for ack in result.acks if isinstance(ack, Failed)] == [
        (FeedId("schemed"), "409: not compatible")
    ]
    assert [(one.feed_id, one.offset) for one in result.incidents] == [(FeedId("schemed"), result.offset)]


def test_the_checkpoint_of_a_refused_step_names_only_the_feeds_whose_rows_are_in_it() -> None:
    _, result = _refused()
    assert result.checkpoint is not None
    assert [active.feed_id for active in result.checkpoint.feeds] == ["json"]
    assert _SCHEMED.feed_id not in result.unframed
    assert _SCHEMED.feed_id not in result.outputs
    assert len(result.outputs[_JSON.feed_id]) == 2


def test_a_refusal_is_part_of_the_state_of_its_step() -> None:
    driven, result = _refused()
    again = Driven.restored(_folded(driven, result))
    answers = again.control(_SCHEMED, _JSON).acks
    assert [type(answer) for answer in answers] == [Failed, Active]


def test_a_feed_can_be_removed_right_after_its_refusal() -> None:
    driven, result = _refused()
    driven.state = _folded(driven, result)
    removal = driven.control(Remove(_SCHEMED.feed_id, _SCHEMED.definition.epoch))
    assert [type(ack) for ack in removal.acks] == [Removed]
    again = Driven.restored(driven.state)
    assert [active.feed_id for active in again.processor.full_checkpoint().feeds] == ["json"]


def test_nothing_is_emitted_for_a_refused_feed_any_more() -> None:
    driven, _ = _refused()
    assert driven.processor.full_checkpoint().feeds[0].feed_id == "json"
    assert len(driven.processor.full_checkpoint().feeds) == 1


def test_the_definition_that_names_the_registry_is_the_feeds_own() -> None:
    driven, _ = _refused()
    assert driven.processor.definition_of(_JSON.feed_id) == _JSON.definition
    assert driven.processor.definition_of(_SCHEMED.feed_id) == _SCHEMED.definition
