"""A feed writes the rows of a table under the name of its statement, however the table is called later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import active
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format

_RENAMED = HandTable(replace(PLAIN.descriptor, version=2, modified=at(8), name="other", schema="elsewhere"))


def _log() -> HandLog:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    plain = log.open_range(1, PLAIN.span)
    plain.apply(PLAIN.put(3, 1, "before"), close=4)
    log.write(update_of(_RENAMED.descriptor))
    plain.apply(_RENAMED.put(9, 2, "behind it"), close=10)
    return log


def test_the_topic_in_its_rows_is_the_topic_that_they_stand_on() -> None:
    driven = active(activation([PLAIN.descriptor], replace(WITH_MARKERS, topic_in_value=True)))
    driven.run(_log().partitions[0])
    assert driven.causes == []
    assert len(driven.rows) == 2
    for row in driven.rows:
        assert f'"topic": "{row.topic}"'.encode() in (row.value or b"")


@pytest.mark.parametrize("envelope", [Envelope.WRAPPED, Envelope.BARE, Envelope.KEY_ONLY])
def test_its_schemas_keep_their_subjects_and_names(envelope: Envelope) -> None:
    options = FeedOptions(
        format=Format.AVRO, envelope=envelope, confluent_schema_registry="http://127.0.0.1:9"
    )
    driven = active(activation([PLAIN.descriptor], options))
    driven.run(_log().partitions[0])
    assert driven.causes == []
    first, second = (row for result in driven.results for rows in result.unframed.values() for row in rows)
    assert first.to.schemas.key == second.to.schemas.key
    assert first.to.schemas.value == second.to.schemas.value
