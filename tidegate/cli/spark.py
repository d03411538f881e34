"""``tidegate spark``: runs feeds as Spark jobs."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tidegate.access.directory_uri import directory_uri
from tidegate.access.http_access import TOKEN, HttpAccess, allowed_hosts, require_protected, usable_token
from tidegate.access.output_namespace import OutputNamespace
from tidegate.cli.failure import Commands
from tidegate.cli.kafka_options import app_id_option, kafka_options, topic_prefix_option
from tidegate.cli.options.finite_numbers import Seconds
from tidegate.cli.printing import echo
from tidegate.cli.service_tree import service_module
from tidegate.cli.spark_backfill import backfill
from tidegate.cli.spark_load import load
from tidegate.cli.spark_place import (
    conf_option,
    jars_option,
    master_option,
    output_topics_option,
    placement,
    py_files_option,
    store_access,
)
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import SettingsError

_PEM_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Commands)
def spark() -> None:
    """Run feeds as Spark jobs."""


@spark.command()
@click.argument("statement", required=False)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIRECTORY",
    help="Directory for the durable files of Spark and all executors: a path, or the URI of a file system.",
)
@topic_prefix_option
@output_topics_option
@click.option(
    "--output-partitions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many partitions the output topics get that are created.",
)
@click.option(
    "--batch-records",
    type=click.IntRange(min=0),
    default=200_000,
    show_default=True,
    help="At most so many records in a micro-batch; 0 for no limit.",
)
@click.option(
    "--tasks",
    type=click.IntRange(min=0),
    default=0,
    show_default="as many as Spark has cores",
    help="At most so many tasks in a round; a task has one log partition or several.",
)
@click.option(
    "--state-memory",
    "held_mib",
    type=click.IntRange(min=0),
    default=512,
    show_default=True,
    help="MiB for states that each Python worker keeps between rounds; a state without room is read again.",
)
@click.option(
    "--interval",
    "interval_s",
    type=Seconds(),
    default=1.0,
    show_default=True,
    help="Seconds between batches.",
)
@click.option(
    "--sink-stall",
    "sink_stall_s",
    type=Seconds(positive=True),
    default=15.0,
    show_default=True,
    help="Seconds without any acknowledgement until a feed on another cluster is left behind.",
)
@click.option(
    "--available-now",
    is_flag=True,
    help="End with the last record that the log has now. Feeds begin only if there are new records.",
)
@master_option
@jars_option
@py_files_option
@conf_option
@click.option(
    "--metrics-host",
    envvar="TIDEGATE_METRICS_HOST",
    default="127.0.0.1",
    show_default=True,
    show_envvar=True,
    help="Address of /metrics; one that others reach needs TLS, or --metrics-plaintext.",
)
@click.option(
    "--metrics-allowed-hosts",
    envvar="TIDEGATE_METRICS_ALLOWED_HOSTS",
    default="",
    help="Names by which clients may ask, comma-separated. TIDEGATE_METRICS_TOKEN is the token they send.",
)
@click.option(
    "--metrics-tls-certificate",
    envvar="TIDEGATE_METRICS_TLS_CERTIFICATE",
    type=_PEM_FILE,
    help="PEM file of the certificate for /metrics.",
)
@click.option(
    "--metrics-tls-key",
    envvar="TIDEGATE_METRICS_TLS_KEY",
    type=_PEM_FILE,
    help="PEM file of its private key, without a password.",
)
@click.option(
    "--metrics-plaintext",
    envvar="TIDEGATE_METRICS_PLAINTEXT",
    is_flag=True,
    help="Serve /metrics without TLS on an address that others reach: whoever reads the network sees them.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    help="Port of /metrics, for Prometheus. Without it the query serves no metrics.",
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
    output_topics: str,
    output_partitions: int,
    batch_records: int,
    tasks: int,
    held_mib: int,
    interval_s: float,
    sink_stall_s: float,
    available_now: bool,
    master: str | None,
    jars: tuple[Path, ...],
    py_files: tuple[Path, ...],
    conf: tuple[str, ...],
    metrics_host: str,
    metrics_port: int | None,
    metrics_allowed_hosts: str,
    metrics_tls_certificate: Path | None,
    metrics_tls_key: Path | None,
    metrics_plaintext: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run the feeds of an application; with a CREATE CHANGEFEED statement, create its feed first.

    If the application has this very feed already, it goes on with that.

    \b
    tidegate spark changefeed --checkpoint /var/lib/tidegate/spark
        "CREATE CHANGEFEED FOR TABLE flights INTO 'kafka://127.0.0.1:9092' WITH updated, resolved='10s'"
    """
    job = service_module("tidegate.spark.changefeed.run")
    query = service_module("tidegate.spark.changefeed.changefeed_query")
    options = query.QueryOptions(
        connection,
        app_id,
        topic_prefix,
        directory_uri(checkpoint),
        output_partitions=output_partitions,
        output_topics=output_topics,
        batch_records=batch_records,
        tasks=tasks,
        held_mib=held_mib,
        interval_s=interval_s,
        available_now=available_now,
        sink_stall_s=sink_stall_s,
        access=store_access(conf),
    )
    metrics = _Serving(
        HttpAccess(
            metrics_host,
            allowed_hosts(metrics_allowed_hosts),
            usable_token(os.environ.get(TOKEN), TOKEN),
        ),
        metrics_port,
        _pair(metrics_tls_certificate, metrics_tls_key),
        metrics_plaintext,
    )
    as_json = log_format == "json"
    service_module("tidegate.spark.platform.logs").configure_logs(log_level, as_json=as_json)
    ready = query.ready_query(options)
    if statement is not None:
        namespace = OutputNamespace.of(output_topics)
        jobs, registries = Jobs(connection, app_id), connection.destinations
        echo(job.create_feed(jobs, statement, namespace=namespace, destinations=registries))
    where = placement(master, jars, py_files, conf)
    job.run_changefeeds(ready, where, metrics=metrics.begin(), as_json=as_json)


class _Serving(NamedTuple):
    """The settings for serving a query's metrics. Without a port it serves none."""

    access: HttpAccess
    port: int | None
    tls: tuple[Path, Path] | None
    plaintext: bool

    def begin(self) -> Any:
        """Return the metrics, which are served from now on.

        Raises ``SettingsError`` if that is unsafe or fails.
        """
        metrics = service_module("tidegate.spark.changefeed.progress").Metrics()
        if self.port is None:
            return metrics
        host = self.access.host
        require_protected(host, tls=self.tls is not None, plaintext=self.plaintext)
        try:
            metrics.serve(host, self.port, self.access, self.tls)
        except OSError as error:
            raise SettingsError(
                f"Metrics cannot be served at {host}:{self.port} ({error}): choose another "
                "--metrics-port, and PEM files of one pair."
            ) from None
        return metrics


def _pair(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if certificate is not None and key is not None:
        return certificate, key
    if certificate is None and key is None:
        return None
    raise SettingsError("--metrics-tls-certificate and --metrics-tls-key belong together: give both or none.")


@spark.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def package(path: Path) -> None:
    """Write the package that runs here to PATH, a .zip for Spark's executors.

    Commands of `tidegate spark` give it to executors by themselves. `spark-submit --py-files` needs it.
    """
    archive = service_module("tidegate.spark.platform.package_archive")
    if path.suffix != archive.ENDING:
        raise click.BadParameter(f"{path} does not end in {archive.ENDING}.", param_hint="PATH")
    try:
        count = archive.write_archive(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error}.") from None
    echo(f"{path}: {count} files, tidegate {version('tidegate')}")


spark.add_command(load)
spark.add_command(backfill)
