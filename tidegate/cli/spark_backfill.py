"""``tidegate spark backfill``: writes a feed's past from the log, by Spark."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.access.directory_uri import directory_uri
from tidegate.changefeed.definition.feed import LASTING, Engine
from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.printing import echo
from tidegate.cli.service_tree import service_module
from tidegate.cli.spark_place import (
    conf_option,
    jars_option,
    master_option,
    output_topics_option,
    placement,
    py_files_option,
    store_access,
)
from tidegate.client.kafka.connection import KafkaConnection


@click.command()
@click.argument("statement")
@click.option(
    "--work",
    required=True,
    metavar="DIRECTORY",
    help="Directory for the job's files: a path that all executors reach, or the URI of a file system.",
)
@click.option(
    "--then",
    "then",
    type=click.Choice([engine.value for engine in LASTING]),
    default=Engine.WORKERS.value,
    show_default=True,
    help="The engine that goes on with the feed.",
)
@output_topics_option
@click.option(
    "--output-partitions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many partitions the output topics get that are created.",
)
@master_option
@jars_option
@py_files_option
@conf_option
@topic_prefix_option
@app_id_option
@kafka_options
def backfill(
    connection: KafkaConnection,
    app_id: str,
    topic_prefix: str,
    statement: str,
    work: str,
    then: str,
    output_topics: str,
    output_partitions: int,
    master: str | None,
    jars: tuple[Path, ...],
    py_files: tuple[Path, ...],
    conf: tuple[str, ...],
) -> None:
    """Create a feed, and write its past to its topics from the log: its initial scan, or the versions above
    its cursor. Then workers or the Spark query go on with it.

    The store is not asked for anything. If the log does not reach back far enough the command says so. It
    may be killed at any time, and run again as it is.

    \b
    tidegate spark backfill --work /var/tmp/tidegate "CREATE CHANGEFEED FOR TABLE flights
        INTO 'kafka://127.0.0.1:9092' WITH updated, resolved='10s', initial_scan='yes'"
    """
    job = service_module("tidegate.spark.backfill.backfill")
    service_module("tidegate.spark.platform.logs").configure_logs("WARNING", as_json=False)
    options = job.BackfillOptions(
        connection,
        app_id,
        topic_prefix,
        directory_uri(work),
        Engine(then),
        output_partitions,
        output_topics,
        store_access(conf),
    )
    feed_id = job.define_backfill(options, statement)
    echo(feed_id)
    job.run_backfill(options, feed_id, placement(master, jars, py_files, conf), echo)
