"""A consistent join of two loaded tables, by Spark.

    python -m examples.closed_join run/warehouse board_flights board_weather origin time_hour

The loader (docs/warehouse.md) closes a bucket in all tables at the same time. So tables that are read at the
end of one closed bucket, however old, are as they were in the store at that moment, and a join of them is one
that the store itself could have answered.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from tidegate.hlc import Timestamp
from tidegate.spark.platform.session import start_session
from tidegate.spark.warehouse.snapshots import Warehouse


def rows_at(session: SparkSession, house: Warehouse, topic: str, at: Timestamp) -> DataFrame:
    """Return the rows that a table had at ``at``, the end of a closed bucket.

    Each key has its newest change up to then, unless that is a deletion.
    """
    files = house.files(topic, at)
    if files:
        changes = session.read.option("mergeSchema", "true").parquet(*files)
    else:
        changes = session.createDataFrame(house.changes(topic, at))
    newest_first = Window.partitionBy(*house.key(topic)).orderBy(f.desc("_wall"), f.desc("_logical"))
    newest = changes.withColumn("_place", f.row_number().over(newest_first)).where("_place = 1")
    columns = [name for name in house.columns(topic) if name in changes.columns]
    return newest.where("NOT _deleted").select(*columns)


def closed_join(
    session: SparkSession, root: str, left: str, right: str, on: Sequence[str], at: Timestamp | None = None
) -> DataFrame:
    """Return both tables joined as of ``at``, or as of the last closed bucket."""
    house = Warehouse(root)
    at = house.closed if at is None else at
    return rows_at(session, house, left, at).join(rows_at(session, house, right, at), list(on))


def main() -> None:
    """Read the command line, join, and print some of it."""
    parser = argparse.ArgumentParser(description="Join two loaded tables as of the last closed bucket.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("on", nargs="+", help="columns that both tables have")
    arguments = parser.parse_args()
    root = arguments.directory.absolute().as_uri()
    session = start_session("closed join", master="local[*]", jars=None)
    session.sparkContext.setLogLevel("ERROR")
    at = Warehouse(root).closed
    joined = closed_join(session, root, arguments.left, arguments.right, arguments.on, at)
    print(f"{joined.count()} rows as of {at}, among them:")
    joined.show(5, truncate=20)
    session.stop()


if __name__ == "__main__":
    main()
