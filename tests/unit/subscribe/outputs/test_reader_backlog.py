"""A slow reader: paused here, ended there."""

from __future__ import annotations

import pytest

from tidegate.errors import FellBehind, ResultTooLarge
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.reader_backlog import ReaderBacklog


def test_tidegate_pauses_and_goes_on() -> None:
    backlog = ReaderBacklog(Dialect.TIDEGATE, backlog_bytes=3_000)
    for _ in range(3):
        backlog.add(1_000)
    full = [backlog.full]
    backlog.sent()
    assert [*full, backlog.full, backlog.waiting_bytes] == [True, False, 2_024]


def test_the_message_that_is_sent_does_not_count() -> None:
    backlog = ReaderBacklog(Dialect.MATERIALIZE, backlog_bytes=3_000)
    backlog.add(1_000_000)
    assert backlog.waiting_bytes == 0
    backlog.sent()
    assert backlog.waiting_bytes == 0


def test_materialize_ends_a_reader_that_falls_behind() -> None:
    backlog = ReaderBacklog(Dialect.MATERIALIZE, backlog_bytes=3_000)
    backlog.add(1)
    backlog.add(1_976)
    with pytest.raises(FellBehind) as caught:
        backlog.add(1)
    assert (caught.value.code, caught.value.sqlstate) == ("fell_behind", "53200")


def test_one_result_has_to_fit() -> None:
    with pytest.raises(ResultTooLarge, match="total result exceeds max size of 10 B"):
        ReaderBacklog(Dialect.MATERIALIZE, result_bytes=10).add(11)
    ReaderBacklog(Dialect.TIDEGATE, result_bytes=10).add(11)
