"""The client library: commands use it to create feeds and to read what they wrote to Kafka."""

from tidegate.client.expectations import CommittedVersion, expected_versions
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_rows import feed_row
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.output import OutputTopics
from tidegate.client.table_descriptors import read_catalog
from tidegate.client.tail import TailFrom, line_of, tail_topics

__all__ = [
    "CommittedVersion",
    "FeedTopics",
    "Jobs",
    "KafkaConnection",
    "OutputTopics",
    "TailFrom",
    "expected_versions",
    "feed_row",
    "line_of",
    "new_feed_id",
    "read_catalog",
    "tail_topics",
]
