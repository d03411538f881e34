"""``tidegate spark load``: makes tables of closed buckets from output topics, by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tidegate.access.directory_uri import directory_uri
from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.feed import feed_id
from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.options.finite_numbers import Seconds
from tidegate.cli.printing import echo
from tidegate.cli.service_tree import service_module
from tidegate.cli.spark_place import (
    conf_option,
    master_option,
    placement,
    py_files_option,
)
from tidegate.client.feed_rows import readable
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import Timestamp


@click.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--feed",
    "feed_names",
    metavar="ID",
    multiple=True,
    required=True,
    help="A feed whose topics are loaded. Give the option again for more feeds; they close buckets together.",
)
@click.option(
    "--to",
    "directory",
    required=True,
    metavar="DIRECTORY",
    help="Where the tables are: a path that all executors reach, or the URI of a file system.",
)
@click.option("--bucket", default="1m", show_default=True, metavar="DURATION", help="How long a bucket is.")
@click.option("--delta", is_flag=True, help="Keep Delta tables of changes and current rows as well.")
@click.option(
    "--as-text",
    multiple=True,
    metavar="TOPIC.COLUMN",
    help="Load this column as the text that the feed has, whatever its type.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new records, until you interrupt the command.")
@click.option(
    "--interval",
    "interval_s",
    type=Seconds(),
    default=30.0,
    show_default=True,
    help="Seconds between passes.",
)
@click.option(
    "--batch-records",
    type=click.IntRange(min=0),
    default=500_000,
    show_default=True,
    help="How many records a task reads in a pass. It then reads on to the bucket's end. 0: all records.",
)
@master_option
@py_files_option
@conf_option
@topic_prefix_option
@app_id_option
@kafka_options
def load(
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    topics: tuple[str, ...],
    feed_names: tuple[str, ...],
    directory: str,
    bucket: str,
    delta: bool,
    as_text: tuple[str, ...],
    follow: bool,
    interval_s: float,
    batch_records: int,
    master: str | None,
    py_files: tuple[Path, ...],
    conf: tuple[str, ...],
) -> None:
    """Load output topics of feeds into tables that show only closed buckets.

    Without TOPIC all topics of the feeds are loaded. A bucket is closed when the markers of all partitions of
    all topics have passed its end. Run it again to go on; it may be killed at any time.
    """
    warehouse = service_module("tidegate.spark.warehouse.load")
    try:
        bucket_ns = parse_duration(bucket)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bucket") from None
    options = warehouse.LoadOptions(
        connection,
        app_id,
        topic_prefix,
        tuple(map(feed_id, feed_names)),
        directory_uri(directory),
        topics=topics,
        bucket_ns=bucket_ns,
        delta=delta,
        as_text=as_text,
        records=batch_records,
        interval_s=interval_s,
    )
    placed = placement(master, None, py_files, conf)
    last = warehouse.run_load(options, placed, follow=follow, heard=_say, waits=_say_wait)
    if last is not None:
        echo(_closed(last.closed))


def _closed(bucket: int) -> str:
    closed = Timestamp(bucket)
    return f"closed at {closed} ({readable(closed)})"


def _say(report: Any) -> None:
    if report.news:
        echo(
            f"{_closed(report.closed)}: {report.rows} rows in {report.files} files,"
            f" {report.repeats} repeats dropped"
        )


def _say_wait(error: Exception) -> None:
    echo(f"{error} Trying again.", err=True)
