"""Puts schema ids into records: the one thing in a record that the log does not say.

A step is pure and cannot ask a registry. So for a format with schemas it gives unframed records. The engine
has each schema registered once, and then frames the records. A registry gives one schema the same id whenever
it is asked, so a repeated step writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.changefeed.encoding.confluent import SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.processor.batch import OutputRecord, UnframedRecord


def schemas_of(records: Iterable[UnframedRecord]) -> list[SubjectSchema]:
    """Return the schemas of these records, in the order of their first use.

    The schema of a topic's values is among them only if a record has a value.
    """
    found: dict[SubjectSchema, None] = {}
    last, has_value = None, False
    for to, _, value, _, _ in records:
        if to is not last:
            last, has_value = to, False
            found[to.schemas.key] = None
        if value and not has_value:
            has_value = True
            found[to.schemas.value] = None
    return list(found)


def frame(records: Sequence[UnframedRecord], ids: Mapping[SubjectSchema, int]) -> list[OutputRecord]:
    """Return the records as they go to the sink, in order. Raises ``KeyError`` for a schema without an id."""
    framed: list[OutputRecord] = []
    last, key_prefix, value_prefix = None, b"", b""
    for to, key, value, timestamp_ms, headers in records:
        if to is not last:
            last, key_prefix = to, frame_prefix(ids[to.schemas.key])
            value_prefix = b""
        if value:
            value_prefix = value_prefix or frame_prefix(ids[to.schemas.value])
            value = value_prefix + value
        key = key_prefix + key
        partition = partition_of(key, to.partitions)
        framed.append(OutputRecord(to.topic, partition, key, value, timestamp_ms, headers))
    return framed
