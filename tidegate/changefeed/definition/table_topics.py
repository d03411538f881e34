"""The topic of a table's records, and the subjects of its schemas.

Source: CockroachDB ``pkg/ccl/changefeedccl/topic.go`` and ``encoder_avro.go``. There ``topic_prefix`` is not
part of subjects. Here a subject is its topic's name with a suffix, so that two feeds of one table on two
topics do not share their schemas.
"""

from __future__ import annotations

from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.names import kafka_name, topic_name
from tidegate.changefeed.definition.options import FeedOptions


def table_label(table: TableName, options: FeedOptions) -> str:
    """Return what the feed calls the table: its name, or all three parts with ``full_table_name``."""
    if options.full_table_name:
        return f"{table.database}.{table.schema}.{table.name}"
    return table.name


def table_topic(table: TableName, options: FeedOptions) -> str:
    """Return the topic of a table."""
    return topic_name(options.topic_prefix, table_label(table, options))


def named_by(topic: str, options: FeedOptions) -> str:
    """Return the option that gives one of the feed's topics its name."""
    return "resolved_topic" if topic == options.resolved_topic else "topic_prefix"


def key_subject(table: TableName, options: FeedOptions) -> str:
    """Return the subject of the key's schema."""
    return f"{subject_stem(table, options)}-key"


def value_subject(table: TableName, options: FeedOptions) -> str:
    """Return the subject of the schemas of values and of markers."""
    return f"{subject_stem(table, options)}-value"


def subject_stem(table: TableName, options: FeedOptions) -> str:
    """Return the subjects of a table without their endings.

    This is the topic's name, with ``avro_schema_prefix`` before it and nothing between the two. So it may be
    the name of another topic (``tidegate/client/subject_ownership.py``).
    """
    return kafka_name(options.avro_schema_prefix + options.topic_prefix + table_label(table, options))
