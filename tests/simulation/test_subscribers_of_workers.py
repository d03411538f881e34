"""From a store through workers under every fault to subscribers: each state is the store's, in every mode."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from tests.simulation.forked import Simulations
from tests.simulation.subscribers import WatchedTopic
from tests.unit.subscribe.consumer_run import MODES
from tests.unit.subscribe.topic_histories import (
    RELATION,
    Commit,
    TopicHistory,
    marker_record,
    record_bytes,
)
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.hlc import Timestamp
from tidegate.rows.sql_type import parse_sql_type
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord

pytest.importorskip("pyarrow")

_RUNS = 2  # of one test
_MANY_RUNS = 40


def _subscribe(simulations: Simulations, first: int, runs: int) -> None:
    arguments = "--profile", "subscribers", "--seed", str(first), "--runs", str(runs), "--subscribers"
    done = simulations.run(*arguments)
    assert done.status == 0, done.output
    assert len(re.findall(r", \d+ subscriptions$", done.output, re.MULTILINE)) == runs, done.output


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 10])  # the second has deletions of nothing in Debezium's envelope
def test_subscribers_see_the_store_whatever_happens_to_workers(simulations: Simulations, first: int) -> None:
    _subscribe(simulations, first, _RUNS)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_subscribers_see_the_store_whatever_happens_to_workers_for_longer(simulations: Simulations) -> None:
    _subscribe(simulations, 0, _MANY_RUNS)


def _watched() -> WatchedTopic:
    """A topic in which the row 1 is written, changed and deleted, and the row 2 is written."""
    place = FeedPartition("accounts", 0)
    commits = (
        Commit(Timestamp(1), 1, (1, 10, "a"), None),
        Commit(Timestamp(2), 2, (2, 20, None), None),
        Commit(Timestamp(3), 1, (1, 11, "b"), (1, 10, "a")),
        Commit(Timestamp(5), 1, None, (1, 11, "b")),
    )
    records: list[tuple[FeedPartition, FeedRecord]] = []
    for commit in commits:
        records.append((place, FeedRecord(len(records), *record_bytes(commit))))
        records.append((place, marker_record(len(records), commit.time)))
    types = tuple(map(parse_sql_type, ("INT8", "DECIMAL(10,2)", "STRING")))
    options = FeedOptions(updated=True, resolved_interval_ns=0, diff=True)
    return WatchedTopic(
        replace(RELATION, types=types),
        options,
        JsonDecoder(Envelope.WRAPPED),
        TopicHistory(commits, (place,), tuple(records)),
        Timestamp(1),
    )


@pytest.mark.parametrize("mode", MODES, ids=["diffs", "ordered", "upsert", "debezium"])
def test_a_row_that_is_missing_is_told_in_both_forms(mode: str) -> None:
    sound = _watched()
    assert list(sound.faults(mode, Random(1))) == []
    missing = sound.history.records[2]
    history = replace(
        sound.history, records=tuple(each for each in sound.history.records if each is not missing)
    )
    told = list(replace(sound, history=history).faults(mode, Random(1)))
    assert len(told) == 2
    assert "Arrow" in told[1]
    assert all("and not" in each for each in told)
