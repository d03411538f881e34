"""``make demo-spark``: flights through the Spark engine into Delta tables.

A broker is started, a simulated range store replays the flights of 2013 into it, a Spark query turns its log
into a changefeed, and the loader makes tables of that. They are compared with what the store had at each
closed bucket, the topics are audited, and a page with a plot says how it went. ``make demo-spark CLUSTER=1``
runs the query and the loader on a standalone cluster of two workers.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import click

from examples.demo.children import Child
from examples.demo.run import LOCAL, Demo, Options, Shown, audit, run_to_exit, show
from examples.demo.spark_page import Loaded, write_page
from sim.log.history import History
from sim.nycflights import fetch_archive
from stack.kafka import KafkaBroker
from stack.spark import SparkCluster
from tidegate.changefeed.definition.feed import Engine
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.spark.warehouse.snapshots import Warehouse

_BUCKET_S: Final = 5
_BUCKETS: Final = Buckets(_BUCKET_S * NANOS_PER_SECOND)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long the store runs.")
@click.option("--rate", default=500.0, show_default=True, help="Rows that it writes per second.")
@click.option("--seed", default=1, show_default=True, help="Decides everything but the times.")
@click.option("--partitions", default=4, show_default=True, help="Partitions of the log.")
@click.option("--cluster", is_flag=True, help="Run Spark on a standalone cluster of two workers.")
def main(seconds: float, rate: float, seed: int, partitions: int, *, cluster: bool) -> None:
    """Real flights through Spark into Delta tables, compared, audited and plotted."""
    run_to_exit(partial(_run, Options(seconds, rate, seed, partitions, keep=False), cluster))


def _run(options: Options, cluster: bool, name: str, directory: Path) -> int:
    fetch_archive()
    with ExitStack() as stack:
        bootstrap = stack.enter_context(closing(KafkaBroker().start())).bootstrap
        statement = (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://{bootstrap}"
            f"?topic_prefix={name}_board_' WITH updated, mvcc_timestamp, resolved, initial_scan='yes'"
        )
        click.echo(f"Kafka is up at {bootstrap}; logs and state are in {directory}")
        master = stack.enter_context(SparkCluster()).master if cluster else LOCAL
        click.echo(f"Spark runs at {master}" + (", on two workers" if cluster else ""))
        demo = Demo(
            options, bootstrap, name, directory, statement, ("spark",), engine=Engine.SPARK, master=master
        )
        shown = show(demo, stack)
        tables = _load(demo, shown)
        status = audit(demo, shown)
        page = write_page(directory, shown.board.samples, tables, shown.board.marks(), passed=status == 0)
        click.echo(f"{page} shows rows a minute, how far markers were behind, and why.")
        return max(status, *(min(table.differing, 1) for table in tables))


def _load(demo: Demo, shown: Shown) -> list[Loaded]:
    """Load the feed's topics, and compare them with the store's history at each closed bucket."""
    click.echo("The loader makes Delta tables of the topics:")
    directory = (demo.directory / "warehouse").absolute()
    command = ["tidegate.cli", "spark", "load", "--feed", shown.feed_id, "--to", str(directory), "--delta"]
    command += ["--bucket", f"{_BUCKET_S}s", *demo.on_spark]
    Child("loader", command, demo.directory / "loader.log", environment=demo.environment("loader")).wait()
    house, history = Warehouse(directory.as_uri()), History.load(demo.history)
    tables = []
    for target in shown.feed.targets:
        table = _compared(house, target.topic, target.table_id, history, shown)
        tables.append(table)
        click.echo(
            f"{target.topic} has {table.rows:,} rows at {house.closed}; at {table.buckets} closed buckets "
            f"{table.differing:,} versions differ from the store's."
        )
    return tables


def _compared(house: Warehouse, topic: str, table_id: int, history: History, shown: Shown) -> Loaded:
    """Compare rows by the times of their versions. No two versions of a key have the same time."""
    scanned = shown.feed.beginning.start if shown.feed.beginning is not None else None
    differing, buckets, rows = 0, 0, 0
    for bucket in range(house.first.wall, house.closed.wall + 1, _BUCKETS.length_ns):
        at = Timestamp(BucketEnd(bucket))
        stored = history.as_of(at, table_id).values()
        expected = Counter(max(version.timestamp, scanned or version.timestamp) for version in stored)
        loaded = house.rows(topic, at)
        times = zip(loaded.column("_wall").to_pylist(), loaded.column("_logical").to_pylist(), strict=True)
        found = Counter(Timestamp(*time) for time in times)
        differing += ((expected - found) + (found - expected)).total()
        buckets, rows = buckets + 1, loaded.num_rows
    return Loaded(topic, rows, buckets, differing)


if __name__ == "__main__":
    main()
