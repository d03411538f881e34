"""Short records of a topic, and what was read of them."""

from __future__ import annotations

from tidegate.verify import TopicRecord


def record(topic: str, partition: int, text: str) -> TopicRecord:
    return TopicRecord(topic, partition, -1, b"[1]", text.encode(), 1_000, [("h", b"1")])


def texts(records: list[TopicRecord], partition: int) -> list[str]:
    return [(each.value or b"").decode() for each in records if each.partition == partition]
