"""Records on our own topics that are not ours, or of a newer version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.worker.ended_process import Ended
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.worker.kafka.foreign_records import foreign_counts, foreign_reports
from tidegate.worker.kafka.jobs_follower import JobsFollower

_DEFINITION = activation([HandTable.of(104, "plain").descriptor]).definition


def message(key: bytes | None, value: bytes | None, offset: int) -> Any:
    """A record as confluent-kafka hands it out."""
    return SimpleNamespace(
        error=lambda: None,
        topic=lambda: "app-jobs",
        partition=lambda: 0,
        offset=lambda: offset,
        key=lambda: key,
        value=lambda: value,
    )


def follower_of_jobs() -> Any:
    follower: Any = JobsFollower.__new__(JobsFollower)  # without its thread and its broker
    follower.view, follower._listeners, follower._end, follower._waiting = JobsView(), [], 0, []
    return follower


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"other/definition", b'{"v":99,"kind":"definition"}'),
        (b"other/wishes", b'{"v":99,"kind":"wishes"}'),
    ],
    ids=["newer format", "newer part"],
)
def test_a_job_record_of_a_newer_version_ends_the_process(
    reasons: list[BaseException], key: bytes | None, value: bytes
) -> None:
    known = DefinitionRecord(_DEFINITION)
    with pytest.raises(Ended):
        follower_of_jobs()._receive([message(key, value, 0), message(known.key, known.to_bytes(), 1)], [])
    assert len(reasons) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"nobody knows", b"{}"),
        (b"nobody knows", None),
        (None, b"{}"),
        (None, None),
        (b"other/definition", b"{"),
        (b"other/definition", b'{"v":99,"kind":7}'),
        (b"nobody/knows/it", b'{"v":99,"kind":"definition"}'),
    ],
    ids=[
        "a key",
        "a tombstone",
        "no key",
        "nothing",
        "no JSON",
        "a kind of 7",
        "a key of no part",
    ],
)
def test_a_foreign_record_is_passed_over_and_reported(
    reasons: list[BaseException],
    caplog: pytest.LogCaptureFixture,
    key: bytes | None,
    value: bytes | None,
) -> None:
    known, follower = DefinitionRecord(_DEFINITION), follower_of_jobs()
    before = dict(foreign_counts()).get("app-jobs", 0)
    follower._receive([message(key, value, 7), message(known.key, known.to_bytes(), 8)], [])
    assert not reasons
    assert [feed_id for feed_id, _ in follower.view.feeds()] == [_DEFINITION.id]
    assert follower._end == 9
    assert "app-jobs[0] at offset 7 is passed over" in caplog.text
    assert dict(foreign_counts())["app-jobs"] == before + 1
    (told,) = (each for each in foreign_reports() if each.topic == "app-jobs")
    assert (told.records, told.partition, told.offset) == (before + 1, 0, 7)
    assert 0 < len(told.cause) <= 1_000
