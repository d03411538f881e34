"""``tidegate spark``: feeds as Spark jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tidegate.cli.connecting import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.failure import Commands
from tidegate.cli.service_tree import service_module
from tidegate.cli.spark_backfill import backfill
from tidegate.cli.spark_load import load
from tidegate.cli.spark_place import directory_uri, jars_option, master_option, placement
from tidegate.client.connection import KafkaConnection
from tidegate.client.jobs import Jobs
from tidegate.errors import SettingsError


@click.group(cls=Commands)
def spark() -> None:
    """Run feeds as Spark jobs."""


@spark.command()
@click.argument("statement", required=False)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIRECTORY",
    help="Where Spark and all executors keep what is durable: a path, or the URI of a file system.",
)
@topic_prefix_option
@click.option("--output-partitions", default=1, show_default=True, help="Of output topics that are created.")
@click.option("--batch-records", default=0, help="At most so many records in a micro-batch; 0 for no limit.")
@click.option("--interval", "interval_s", default=1.0, show_default=True, help="Seconds between batches.")
@click.option(
    "--sink-stall",
    "sink_stall_s",
    type=click.FloatRange(min=0, min_open=True),
    default=15.0,
    show_default=True,
    help="Seconds without any acknowledgement until a feed on another cluster is left behind.",
)
@click.option(
    "--available-now",
    is_flag=True,
    help="End with the last record that is there now; no feed begins without new ones.",
)
@master_option
@jars_option
@click.option(
    "--metrics-host",
    envvar="TIDEGATE_METRICS_HOST",
    default="127.0.0.1",
    show_default=True,
    show_envvar=True,
    help="Address of /metrics; nothing there is protected.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    help="Port of /metrics, for Prometheus; without it there are none.",
)
@click.option(
    "--log-level",
    envvar="TIDEGATE_LOG_LEVEL",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
    default="INFO",
    show_default=True,
    show_envvar=True,
    help="The least severe log line that is written.",
)
@click.option(
    "--log-format",
    envvar="TIDEGATE_LOG_FORMAT",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    show_envvar=True,
    help="Log lines for people, or JSON.",
)
@app_id_option
@kafka_options
def changefeed(
    connection: KafkaConnection,
    app_id: str,
    statement: str | None,
    checkpoint: str,
    topic_prefix: str,
    output_partitions: int,
    batch_records: int,
    interval_s: float,
    sink_stall_s: float,
    available_now: bool,
    master: str | None,
    jars: tuple[Path, ...],
    metrics_host: str,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the feeds of an application, and first create that of a CREATE CHANGEFEED statement, if given.

    Where the application has the very feed of the statement already, it goes on with that.

    \b
    tidegate spark changefeed --checkpoint /var/lib/tidegate/spark
        "CREATE CHANGEFEED FOR TABLE flights INTO 'kafka://127.0.0.1:9092' WITH updated, resolved='10s'"
    """
    job = service_module("pipeline.changefeed")
    query = service_module("pipeline.changefeed_query")
    options = query.QueryOptions(
        connection,
        app_id,
        topic_prefix,
        directory_uri(checkpoint),
        output_partitions=output_partitions,
        batch_records=batch_records,
        interval_s=interval_s,
        available_now=available_now,
        sink_stall_s=sink_stall_s,
    )
    service_module("pipeline.logs").configure_logs(log_level, as_json=log_format == "json")
    ready = query.ready_query(options)
    if statement is not None:
        click.echo(job.create_feed(Jobs(connection, app_id), statement))
    job.run_changefeeds(ready, placement(master, jars), metrics=_metrics(metrics_host, metrics_port))


def _metrics(host: str, port: int | None) -> Any:
    metrics = service_module("pipeline.progress").Metrics()
    if port is not None:
        try:
            metrics.serve(host, port)
        except OSError as error:
            raise SettingsError(
                f"Metrics cannot be served at {host}:{port} ({error}): choose another --metrics-port."
            ) from None
    return metrics


spark.add_command(load)
spark.add_command(backfill)
