"""Reports and passes over records of the application's own topics that tidegate did not write.

docs/security.md#foreign-records says which records these are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tidegate.client.foreign_records import foreign
from tidegate.errors import ForeignRecord, brief
from tidegate.processor.batch import LogRecord
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.operations.metrics import FOREIGN_RECORDS
from tidegate.worker.operations.report import ForeignReport

#: Its lines pass ``app.repeated_lines``: somebody who writes one such record may write a million.
_log: Final = logging.getLogger("tidegate.foreign")
#: The partition, offset and fault of each topic's last foreign record. An application has a dozen topics.
_last: Final[dict[str, tuple[int, int, str]]] = {}
_T = TypeVar("_T")


def own_records(
    batch: FetchedBatch, read: Callable[[bytes | None, bytes], _T]
) -> Iterator[tuple[LogRecord, _T]]:
    """Yield the records of a batch that have a value, each with what ``read`` makes of key and value.

    A record for which ``read`` raises ``ForeignRecord``, or an exception that nobody foresaw, is reported and
    left out.
    """
    for record in batch.records:
        if record.value is not None:
            try:
                found = read(record.key, record.value)
            except Exception as error:
                report_foreign(batch.topic, batch.partition, record.offset, foreign(error))
            else:
                yield record, found


def report_foreign(topic: str, partition: int, offset: int, found: ForeignRecord) -> None:
    """Tell operators of a record that is passed over."""
    FOREIGN_RECORDS.labels(topic).inc()
    _last[topic] = partition, offset, brief(str(found))
    _log.error("%s[%d] at offset %d is passed over: %s", topic, partition, offset, found)


def foreign_reports() -> tuple[ForeignReport, ...]:
    """Return a report for each topic with records that this process has passed over."""
    counts = foreign_counts()
    return tuple(ForeignReport(topic, count, *_last[topic]) for topic, count in counts if topic in _last)


def foreign_counts() -> Iterable[tuple[str, int]]:
    """Yield each topic with records that this process has passed over, and their number."""
    for metric in FOREIGN_RECORDS.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total") and sample.value:
                yield sample.labels["topic"], int(sample.value)
