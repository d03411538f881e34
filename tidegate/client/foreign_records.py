"""Records of an application's own topics that tidegate did not write: told of, and passed over.

docs/security.md#foreign-records says what is one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tidegate.errors import ForeignRecord
from tidegate.processor.containment import unforeseen
from tidegate.verify import TopicRecord

_log: Final = logging.getLogger("tidegate.foreign")
_passed_over: Final = Counter[str]()


def report_foreign(record: TopicRecord, found: ForeignRecord) -> None:
    """Tell of a record that is passed over."""
    place = f"{record.topic}[{record.partition}]"
    _passed_over[record.topic] += 1
    _log.error("%s at offset %d is passed over: %s", place, record.offset, found)


def foreign(error: Exception) -> ForeignRecord:
    """What is told of a record that ``error`` came of: one whose reading nobody foresaw is foreign too (U1).

    Raises ``error`` where it is not of the record, as ``StateError`` for one of a newer version.
    """
    return error if isinstance(error, ForeignRecord) else ForeignRecord(unforeseen(error))


def passed_over() -> Mapping[str, int]:
    """How many records of each topic this process has passed over; one that is read again counts again."""
    return dict(_passed_over)
