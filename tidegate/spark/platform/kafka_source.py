"""Reads the log by Spark's Kafka source, as a stream or between offsets.

The source uses Kafka's Java client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tidegate.client.kafka.cluster import Bounds
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import InputError

#: The length of a slice, in milliseconds of record time.
SLICE_MS: Final = 300_000
#: The most slices of all partitions together, which the driver holds. With 8 partitions that is a log of 434
#: days.
SLICE_PARTS_MAX: Final = 1_000_000
#: The number of Kafka consumers that Spark keeps on an executor by default.
_CONSUMERS: Final = 64
_LOGIN = "org.apache.kafka.common.security.{module} required username={name} password={word};"


def log_stream(
    session: SparkSession, connection: KafkaConnection, log: str, batch_records: int, parts: int = 0
) -> DataFrame:
    """Return the log from its first record on, committed records only.

    A batch has at most ``batch_records``; 0 stands for all there is. A batch comes in at most ``parts``
    parts; 0 stands for one part for each log partition. A part has whole log partitions, each in its order.
    Spark takes some milliseconds for each part, for example to observe figures.
    """
    reader = session.readStream.format("kafka").options(
        startingOffsets="earliest", **_options(connection, log)
    )
    if batch_records:
        reader = reader.option("maxOffsetsPerTrigger", batch_records)
    stream = reader.load()
    return stream.coalesce(parts) if parts else stream


def consumers_for(partitions: int) -> dict[str, str]:
    """Return the property of Spark by which an executor keeps a consumer for each partition of the log.

    With fewer of them each batch opens some anew, which asks brokers for metadata first. Once Spark has as
    many as the property says, it closes the oldest ones before each use. Other jobs may read by the same
    executor. So the property is twice the number of partitions.
    """
    return {"spark.kafka.consumer.cache.capacity": str(max(_CONSUMERS, 2 * partitions))}


def log_slice(
    session: SparkSession, connection: KafkaConnection, log: str, bounds: Mapping[int, Bounds]
) -> DataFrame:
    """Return the committed records of the log between two offsets of each partition."""
    first = {str(partition): each.low for partition, each in bounds.items()}
    end = {str(partition): each.end for partition, each in bounds.items()}
    reader = session.read.format("kafka").options(**_options(connection, log))
    return reader.options(
        startingOffsets=json.dumps({log: first}), endingOffsets=json.dumps({log: end})
    ).load()


def time_slices(records: DataFrame, bounds: Mapping[int, Bounds]) -> list[dict[int, Bounds]]:
    """Return ``bounds`` cut into slices of five minutes of record time, one slice after the other.

    With slices all partitions reach a moment at about the same time, as when the log was written. So a
    partition that waits for another one waits briefly, and keeps little meanwhile. Raises ``InputError`` if
    there are more than `SLICE_PARTS_MAX` slices of all partitions together.
    """
    number = f"floor(unix_millis(timestamp) / {SLICE_MS}) AS number"
    firsts = records.selectExpr("partition", "offset", number).groupBy("number", "partition").min("offset")
    found = {(row[0], row[1]): row[2] for row in firsts.limit(SLICE_PARTS_MAX + 1).collect()}
    if max(len(found), len({number for number, _ in found}) * len(bounds)) > SLICE_PARTS_MAX:
        raise InputError(
            f"The log has records of too many moments for a backfill: times of {len(bounds)} partitions in "
            f"steps of five minutes are more than {SLICE_PARTS_MAX} together. Nothing was written by this "
            "run. Drop the feed, and create it with `tidegate feed create`, on other topics if an earlier "
            "run has written: the store scans its tables then."
        )
    return sliced(found, bounds)


def sliced(firsts: Mapping[tuple[int, int], int], bounds: Mapping[int, Bounds]) -> list[dict[int, Bounds]]:
    """Return the bounds of each slice.

    ``firsts`` has the lowest offset of each slice in each partition, by the slice's number and the partition.
    Record times that fall do no harm: a slice begins at or after the end of the one before it.

    For example, with first offsets 0 and 40 of slices 7 and 8 in a partition that ends at 90, slice 7 has the
    offsets from 0 to below 40, and slice 8 those from 40 to below 90.
    """
    slices: list[dict[int, Bounds]] = []
    ends = {partition: each.end for partition, each in bounds.items()}
    for number in sorted({number for number, _ in firsts}, reverse=True):
        begins = {
            partition: min(end, firsts.get((number, partition), end)) for partition, end in ends.items()
        }
        slices.append({partition: Bounds(begins[partition], ends[partition]) for partition in bounds})
        ends = begins
    if not slices:  # offsets of transactions that were aborted, and of their ends: nothing to read
        return [dict(bounds)]
    slices[-1] = {
        partition: Bounds(each.low, slices[-1][partition].end) for partition, each in bounds.items()
    }
    return slices[::-1]


def _options(connection: KafkaConnection, log: str) -> dict[str, str]:
    options = {
        "subscribe": log,
        "failOnDataLoss": "false",  # tasks notice lost records, as a hole
        "kafka.isolation.level": "read_committed",
        # The source asks for a partition's bounds after each read, on the connection where the client has
        # asked for more records already. The broker answers in order, so the bounds would wait half a second
        # for records that are not there yet.
        "kafka.fetch.min.bytes": "0",
    }
    return options | {f"kafka.{name}": value for name, value in java_config(connection).items()}


def is_time_overflow(error: Exception) -> bool:
    """Return whether Spark has failed to read a record because of its time.

    Spark counts microseconds in 64 bits, and Kafka milliseconds.
    """
    return "java.lang.ArithmeticException: long overflow" in str(error)


def java_config(connection: KafkaConnection) -> dict[str, str]:
    """Return a connection's settings for Kafka's Java client: certificates as text, the login as a JAAS
    line.
    """
    config = {
        "bootstrap.servers": connection.bootstrap_servers,
        "security.protocol": connection.security_protocol,
    }
    if connection.ssl_ca_location is not None:
        config["ssl.truststore.type"] = "PEM"
        config["ssl.truststore.certificates"] = Path(connection.ssl_ca_location).read_text()
    if connection.ssl_certificate_location is not None and connection.ssl_key_location is not None:
        config["ssl.keystore.type"] = "PEM"
        config["ssl.keystore.certificate.chain"] = Path(connection.ssl_certificate_location).read_text()
        config["ssl.keystore.key"] = Path(connection.ssl_key_location).read_text()
    if connection.ssl_key_password is not None:
        config["ssl.key.password"] = connection.ssl_key_password
    if connection.security_protocol.startswith("SASL"):
        config["sasl.mechanism"] = connection.sasl_mechanism
        config["sasl.jaas.config"] = _login(connection)
    return config


def _login(connection: KafkaConnection) -> str:
    module = "plain.PlainLoginModule" if connection.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
    name, word = connection.sasl_username or "", connection.sasl_password or ""
    return _LOGIN.format(module=module, name=_quoted(name), word=_quoted(word))


def _quoted(text: str) -> str:
    """Return a text as a JAAS line has it, which escapes by backslashes as Java does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
