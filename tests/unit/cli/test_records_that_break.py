"""Commands over a log with a record that meets an exception nobody foresaw: they name it, and go on (U8)."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandLog, HandTable
from tests.unit.cli.running import run
from tests.unit.client.topics import create_topic, write
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client import table_descriptors
from tidegate.client.contained_decoder import ContainedDecoder
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.table_descriptors import read_catalog
from tidegate.client.tail import line_of
from tidegate.errors import RegistryAway
from tidegate.logcheck import log_check
from tidegate.rangefeed import log_feeds
from tidegate.verify import Auditor, TopicRecord, ViolationKind

_TABLE: Final = HandTable.of(104, "accounts")
_OTHER: Final = HandTable.of(105, "others")
_ROW: Final = TopicRecord("rows", 0, 3, b"[1]", b'{"after":{}}', 0)


@pytest.fixture(scope="module")
def prefix(broker: KafkaBroker) -> str:
    """A log of one partition: two ranges with a row each."""
    log = HandLog(1)
    log.describe(_TABLE, _OTHER)
    first, second = log.open_range(1, _TABLE.span, close=1), log.open_range(2, _OTHER.span, close=1)
    first.apply(_TABLE.put(2, 1, "odd"), close=3)
    second.apply(_OTHER.put(2, 1, "well"), close=3)
    name = f"records-that-break-{uuid.uuid4().hex[:8]}-"
    create_topic(broker.bootstrap, f"{name}raftlog", 1)
    records = log.partitions[0]
    write(
        broker.bootstrap,
        (
            TopicRecord(f"{name}raftlog", 0, each.offset, each.key, each.value, each.timestamp)
            for each in records
        ),
    )
    return name


def _breaks(module: Any, name: str, word: bytes, patch: pytest.MonkeyPatch) -> None:
    """Have a function raise for arguments with this word in them."""
    original: Callable[..., Any] = getattr(module, name)

    @wraps(original)
    def broken(*arguments: Any) -> Any:
        if any(isinstance(each, bytes) and word in each for each in arguments):
            raise ArithmeticError("nobody foresaw it")
        return original(*arguments)

    patch.setattr(module, name, broken)


def _run(broker: KafkaBroker, prefix: str, *command: str) -> Any:
    return run("debug", *command, "-b", broker.bootstrap, "--topic-prefix", prefix)


@pytest.mark.broker
def test_a_check_names_the_record_and_goes_on(
    broker: KafkaBroker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = json.loads(_run(broker, prefix, "check-log", "--json").stdout)
    assert (sound["faults"], sound["first_faults"]) == (0, [])
    _breaks(log_check, "decode_entry", b"odd", monkeypatch)
    checked = _run(broker, prefix, "check-log", "--json")
    told = json.loads(checked.stdout)
    assert checked.exit_code == 1
    assert (told["records"], told["ranges"], told["faults"]) == (sound["records"], 2, 1)
    (fault,) = told["first_faults"]
    assert fault.startswith("partition 0, offset ")
    assert "ArithmeticError (test_records_that_break.py, line " in fault
    printed = _run(broker, prefix, "check-log")
    assert f"Not checked: {fault}" in printed.stdout
    assert "... and 1 more (--limit)" in _run(broker, prefix, "check-log", "--limit", "0").stdout


@pytest.mark.broker
def test_a_feed_of_the_log_names_the_record_and_goes_on(
    broker: KafkaBroker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _breaks(log_feeds, "decode_entry", b"odd", monkeypatch)
    followed = _run(broker, prefix, "rangefeed", "--format", "json")
    assert followed.exit_code == 0
    assert f"{prefix}raftlog[0]@" in followed.stderr
    assert "ArithmeticError (test_records_that_break.py, line " in followed.stderr
    events = [json.loads(line) for line in followed.stdout.splitlines()]
    ends = [event["range"] for event in events if event["type"] == "end"]
    values = [event["range"] for event in events if event["type"] == "value"]
    assert (ends, values) == ([1], [2])


@pytest.mark.broker
def test_the_reading_of_descriptors_names_the_record_and_goes_on(
    broker: KafkaBroker, prefix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _breaks(table_descriptors, "decode_descriptor", b"accounts", monkeypatch)
    with caplog.at_level(logging.ERROR):
        catalog = read_catalog(KafkaConnection(broker.bootstrap), f"{prefix}raftlog")
    assert [table.name for table in catalog.descriptors()] == ["others"]
    assert f"{prefix}raftlog[0] at offset 0 is passed over: " in caplog.text
    assert "ArithmeticError" in caplog.text


class _Odd(JsonDecoder):
    """A decoder that raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Envelope.WRAPPED)
        object.__setattr__(self, "error", error)

    def decode(self, *_: object) -> Any:
        """Raise it."""
        raise self.error  # type: ignore[attr-defined]


def test_a_line_of_tail_says_what_a_record_met() -> None:
    line = line_of(_ROW, ContainedDecoder(_Odd(ArithmeticError("nobody foresaw it"))))
    assert line.startswith(
        "rows[0]@3 unreadable (tidegate cannot deal with it, which is a defect: Arithmetic"
    )
    assert line.endswith("""key b'[1]' value b'{"after":{}}'""")


def test_an_audit_counts_it_as_unreadable_and_goes_on() -> None:
    auditor = Auditor({"rows": 1}, decoder=ContainedDecoder(_Odd(ArithmeticError("nobody foresaw it"))))
    auditor.feed([_ROW, _ROW._replace(offset=4)])
    report = auditor.finish()
    assert report.violation_counts[ViolationKind.UNREADABLE] == 2
    assert "Offset 3 of rows[0]" in str(report)


@pytest.mark.parametrize("error", [RegistryAway("it is away"), MemoryError(), OSError("no disk")])
def test_what_is_no_fault_of_a_record_ends_the_command(error: Exception) -> None:
    with pytest.raises(type(error)):
        ContainedDecoder(_Odd(error)).decode(b"", b"")
