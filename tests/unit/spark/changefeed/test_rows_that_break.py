"""Rows that cannot be handed to their sink fail their feed, and end no query (U1 of docs/security.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import tidegate.spark.changefeed.task.partition_task
from tests.unit.spark.driven_query import DrivenQuery
from tidegate.access.header_secrets import HeaderSecrets
from tidegate.errors import StatementError
from tidegate.processor.batch import OutputRecord

_BATCHES: Final = 8


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ArithmeticError("an odd header"), "ArithmeticError (test_rows_that_break.py"),
        (StatementError("no name of a secret"), "StatementError (test_rows_that_break.py"),
    ],
)
def test_an_exception_as_rows_are_handed_over_fails_their_feed_alone(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other feeds have all of their rows, and markers for them."""

    class Odd(HeaderSecrets):
        def into(self, rows: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
            if rows[0].topic.startswith("away-"):
                raise error
            return super().into(rows)

    monkeypatch.setattr(tidegate.spark.changefeed.task.partition_task, "HeaderSecrets", Odd)
    run = DrivenQuery(31, tmp_path, monkeypatch)
    run.run(_BATCHES)
    ((failed, why),) = run.feeds.failed.items()
    assert (failed, said in why) == ("away", True), why


@pytest.mark.long
def test_faults_of_the_process_itself_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def into(_: HeaderSecrets, rows: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
        raise OSError("the disk is full")

    monkeypatch.setattr(HeaderSecrets, "into", into)
    with pytest.raises(OSError, match="the disk is full"):
        DrivenQuery(31, tmp_path, monkeypatch).run(_BATCHES)
