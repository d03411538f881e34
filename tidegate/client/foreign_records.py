"""Reports foreign records: those on an application's own topics that tidegate did not write.

docs/security.md#foreign-records says which records are foreign. They are passed over.
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
    """Report a record that is passed over."""
    place = f"{record.topic}[{record.partition}]"
    _passed_over[record.topic] += 1
    _log.error("%s at offset %d is passed over: %s", place, record.offset, found)


def foreign(error: Exception) -> ForeignRecord:
    """Return the error to report for a record whose reading has raised ``error``.

    An unforeseen error makes a record foreign too (U1). Raises ``error`` if the record is not at fault, for
    example ``StateError`` for a record of a newer version.
    """
    return error if isinstance(error, ForeignRecord) else ForeignRecord(unforeseen(error))


def passed_over() -> Mapping[str, int]:
    """Return how many records of each topic this process has passed over.

    A record that is read again counts again.
    """
    return dict(_passed_over)
