"""``tidegate debug step`` over a log on a real broker."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.topics import create_topic, write
from tests.unit.kernel.planted import PLANTED_IN_LOGS
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.client.kafka.topics import Topics
from tidegate.replay.step_file import encode_step
from tidegate.replay.written_step import StateBefore, StateRows, StepRecord, WrittenStep
from tidegate.verify import TopicRecord

pytest.importorskip("wasmtime")

_TABLE: Final = HandTable.of(104, "accounts")
_FEED: Final = activation([_TABLE.descriptor], feed_id="accounts")
#: The log's records: a descriptor, a snapshot, and twenty rows.
_LOG: Final = HandLog(1)
_LOG.describe(_TABLE)
_RANGE: Final = _LOG.open_range(1, _TABLE.span, close=1)
for _number in range(20):
    _RANGE.apply(_TABLE.put(2 + _number, _number, f"row {_number}"), close=1.5 + _number)
_RECORDS: Final = tuple(
    StepRecord(each.offset, each.key, each.value, each.timestamp) for each in _LOG.partitions[0]
)
_END: Final = _RECORDS[-1].offset + 1


def _state(upto: int) -> StateRows:
    """The state of a worker that has read the log up to an offset."""
    state = StateBefore(0, 1)
    state.begin([_FEED], ())
    state.read(_RECORDS[:upto])
    return state.rows


# ---- on a real broker ----


@pytest.fixture
def application(broker: KafkaBroker, topic_prefix: str) -> Topics:
    """An application that runs the feed; its workers have read the first half of the log."""
    topics = Topics(f"{topic_prefix}app", topic_prefix)
    create_topic(broker.bootstrap, topics.log)
    create_topic(broker.bootstrap, topics.jobs, cleanup_policy="compact")
    state = StateRecord(FeedId("accounts"), FIRST_EPOCH, FeedState.RUNNING, _FEED.start, _FEED.targets)
    written = [
        TopicRecord(topics.log, 0, each.offset, each.key, each.value, each.timestamp) for each in _RECORDS
    ]
    written += [
        TopicRecord(topics.jobs, 0, -1, each.key, each.to_bytes(), 0)
        for each in (DefinitionRecord(_FEED.definition), state)
    ]
    for table, changelog in topics.changelogs().items():
        create_topic(broker.bootstrap, changelog, cleanup_policy="compact")
        written += [
            TopicRecord(changelog, 0, -1, key, value, 0)
            for (of, key), value in _state(len(_RECORDS) // 2).items()
            if of is table
        ]
    write(broker.bootstrap, written)
    return topics


def _step(broker: KafkaBroker, topics: Topics, *options: str) -> Any:
    named = ("--app-id", topics.app_id, "--topic-prefix", topics.prefix)
    return run("debug", "step", "-b", broker.bootstrap, *named, *options)


def _json(broker: KafkaBroker, topics: Topics, *options: str) -> dict[str, Any]:
    result = _step(broker, topics, "--json", *options)
    assert not result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


@pytest.mark.broker
def test_a_step_of_the_log_has_the_rows_of_the_applications_feeds(
    broker: KafkaBroker, application: Topics
) -> None:
    told = _json(broker, application, "--partition", "0", "--from-offset", "12")
    assert told == {
        "partition": 0,
        "from_offset": 12,
        "to_offset": _END - 1,
        "records": _END - 12,
        "followed": _END - 12,
        "rows": _END - 12,
        "traps": 0,
        "broke": "",
        "difference": "",
    }
    few = _step(broker, application, "--partition", "0", "--from-offset", "5", "--records", "3")
    assert (few.exit_code, few.stderr) == (0, "")
    assert few.stdout == (
        "Log partition 0, offsets 5 to 7: 3 records, of which the kernel followed 3, and 3 rows.\n"
        "Python and the kernel agree in all rows, in the state, and in all else that the step says.\n"
    )


@pytest.mark.broker
def test_a_step_begins_behind_what_workers_have_stored(broker: KafkaBroker, application: Topics) -> None:
    stored = len(_RECORDS) // 2
    told = _json(broker, application, "--partition", "0", "--stored")
    assert (told["from_offset"], told["rows"], told["difference"]) == (stored, _END - stored, "")
    later = _json(broker, application, "--partition", "0", "--stored", "--from-offset", str(stored + 3))
    assert (later["from_offset"], later["rows"]) == (stored + 3, _END - stored - 3)
    before = _step(broker, application, "--partition", "0", "--stored", "--from-offset", "2")
    assert before.exit_code == 1
    assert before.stderr.startswith(
        f"The stored state of log partition 0 has passed offset 2: it goes on at {stored}. Begin there, or"
    )


@pytest.mark.broker
def test_stored_rows_of_several_moments_are_named(broker: KafkaBroker, application: Topics) -> None:
    _overwrite(broker, application, _state(len(_RECORDS) // 2 + 3).items(), tables=1)
    torn = _step(broker, application, "--partition", "0", "--stored")
    assert torn.exit_code == 1
    assert "stop them first: the rows that were read here are of several moments" in torn.stderr


def _overwrite(broker: KafkaBroker, topics: Topics, rows: Iterable[Any], tables: int) -> None:
    changelogs = dict(list(topics.changelogs().items())[:tables])
    write(
        broker.bootstrap,
        [
            TopicRecord(changelogs[table], 0, -1, key, value, 0)
            for (table, key), value in rows
            if table in changelogs
        ],
    )


@pytest.mark.broker
def test_a_step_is_written_down_and_taken_again_without_kafka(
    broker: KafkaBroker, application: Topics, tmp_path: Path
) -> None:
    file = tmp_path / "step.avro"
    first = _json(broker, application, "--partition", "0", "--from-offset", "12", "--save", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = run("debug", "step", *NOBODY, "--json", "--replay", str(file))
    assert json.loads(again.stdout) == first
    twice = _step(broker, application, "--partition", "0", "--from-offset", "12", "--save", str(file))
    assert twice.stderr == f"{file} exists already: give a name that is free, or remove it.\n"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--partition", "1", "--from-offset", "0"), "has 1 partitions; there is no partition 1."),
        (("--partition", "0", "--from-offset", "900"), "has no record from offset 900 on, within 1000"),
    ],
)
def test_places_that_do_not_exist_are_named(
    broker: KafkaBroker, application: Topics, options: tuple[str, ...], told: str
) -> None:
    result = _step(broker, application, *options)
    assert result.exit_code == 1
    assert told in result.stderr


# ---- without one ----


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A step of the log's second half."""
    middle = len(_RECORDS) // 2
    step = WrittenStep(0, 1, middle, _state(middle), _RECORDS[middle:])
    written = tmp_path / "step.avro"
    written.write_bytes(encode_step(step))
    return written


def test_a_difference_is_shown_and_is_the_exit_status(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_IN_LOGS["what is closed"](monkeypatch)
    result = run("debug", "step", *NOBODY, "--replay", str(file))
    assert result.exit_code == 1
    told = result.stdout.splitlines()[-1]
    assert told.startswith("They differ. changes of portion 1, number 0: StateChange(table=")
    assert " by the kernel, " in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "Give --partition, or --replay with the file of a step."),
        (("--partition", "0"), "Give --from-offset, or --stored."),
    ],
)
def test_what_is_missing_is_named(options: tuple[str, ...], told: str) -> None:
    result = run("debug", "step", *NOBODY, *options)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_file_says_all_of_its_step(file: Path) -> None:
    result = run("debug", "step", *NOBODY, "--replay", str(file), "--partition", "0")
    assert result.exit_code == 2
    assert "--replay takes the step of its file: give it alone." in result.stderr


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("{}")
    result = run("debug", "step", *NOBODY, "--replay", str(other))
    assert result.exit_code == 1
    assert result.stderr.startswith("The file is not a step that `tidegate debug step --save` wrote")
