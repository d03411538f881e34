"""A broker that is away for an hour does not fill the disk with the clients' complaints."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from app.repeated_lines import RepeatedLines


@dataclass
class Log:
    """A handler's view: what is said is written, or passed over."""

    now_s: float = 0.0
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._filter = RepeatedLines(("aiokafka", "tidegate.kafka"), again_s=10.0, clock=lambda: self.now_s)

    def say(
        self, text: str, *args: object, name: str = "aiokafka.fetcher", level: int = logging.ERROR
    ) -> None:
        record = logging.LogRecord(name, level, __file__, 1, text, args, None)
        if self._filter.filter(record):
            self.lines.append(record.getMessage())


def test_a_line_is_written_once_in_ten_seconds_with_the_count_of_its_like() -> None:
    log = Log()
    for tenth in range(150):
        log.now_s = tenth / 10
        log.say("node %d refused after %dms", 1, tenth)
    assert log.lines == ["node 1 refused after 0ms", "node 1 refused after 100ms (and 99 times before this)"]


def test_another_text_level_or_logger_is_another_line() -> None:
    log = Log()
    log.say("refused")
    log.say("refused", level=logging.WARNING)
    log.say("refused", name="tidegate.kafka")
    log.say("not ready")
    assert log.lines == ["refused", "refused", "refused", "not ready"]


def test_our_own_lines_are_never_passed_over() -> None:
    log = Log()
    for _ in range(3):
        log.say("incident", name="tidegate.rangefeed")
    assert log.lines == ["incident"] * 3


def test_texts_without_end_take_no_memory_without_end() -> None:
    log = Log()
    for number in range(5_000):
        log.say("x" * number)
    assert len(log.lines) == 5_000
    assert len(log._filter._kinds) <= 1_000
