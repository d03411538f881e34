"""Keeps each table of a feed as a Delta table, each version of which is a closed cut of the store.

    python -m examples.spark_delta --to /tmp/delta --key flights=carrier,flight,time_hour

1. ``format("tidegate")`` gives a micro-batch for each closed cut.
2. The newest row of each key of the batch is merged into its table: one commit, one version.
3. Spark stores that the batch is done. A batch that comes again, because the query ended before, changes
   nothing: the same rows are merged once more.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.spark.datasource.tidegate_source import register
from tidegate.spark.platform.session import start_session

_OWN: Final = ("_table", "_op", "_updated", "_resolved", "_before")
_NTH: Final = "_nth"


class DeltaTables:
    """The function of ``foreachBatch``: merges a cut into the tables in a directory.

    ``keys`` has the columns of the primary key of each table, by its short name.
    """

    def __init__(self, directory: Path, keys: Mapping[str, Sequence[str]]) -> None:
        self._directory = directory
        self._keys = keys

    def __call__(self, batch: DataFrame, _: int) -> None:
        """Merge a batch."""
        changes = batch.toArrow()
        for table, key in self._keys.items():
            of_table = changes.filter(pc.ends_with(changes["_table"], f".{table}"))
            if of_table.num_rows:
                self._merge(table, key, _newest(of_table, key))

    def _merge(self, table: str, key: Sequence[str], newest: pa.Table) -> None:
        columns = [name for name in newest.column_names if name not in _OWN]
        path = str(self._directory / table)
        schema = pa.schema([newest.schema.field(name) for name in columns])
        delta = DeltaTable.create(path, schema, mode="ignore")
        taken = {f'"{name}"': f'new."{name}"' for name in columns}
        (
            delta.merge(
                newest.select([*columns, "_op"]),
                " AND ".join(f'old."{name}" = new."{name}"' for name in key),
                source_alias="new",
                target_alias="old",
            )
            .when_matched_delete("new._op = 'delete'")
            .when_matched_update(taken)
            .when_not_matched_insert(taken, "new._op <> 'delete'")
            .execute()
        )


def _newest(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the newest row of each key."""
    ordered = changes.sort_by("_updated")
    numbered = ordered.append_column(_NTH, pa.array(range(ordered.num_rows)))
    last = numbered.group_by(list(key)).aggregate([(_NTH, "max")])[f"{_NTH}_max"]
    return ordered.take(last)


def start(
    session: SparkSession, options: Mapping[str, str], tables: DeltaTables, checkpoint: Path
) -> StreamingQuery:
    """Start the query; ``options`` are those of ``format("tidegate")``."""
    register(session)
    changes = session.readStream.format("tidegate").options(**options).load()
    return changes.writeStream.foreachBatch(tables).option("checkpointLocation", str(checkpoint)).start()


def main() -> None:
    """Read the command line, and keep the tables up to date."""
    parser = argparse.ArgumentParser(description="Keep the tables of a feed as Delta tables.")
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--to", type=Path, required=True, help="the directory of the tables")
    parser.add_argument(
        "--key",
        action="append",
        required=True,
        metavar="TABLE=COLUMN,...",
        help="a table and its primary key",
    )
    given = parser.parse_args()
    keys = {table: columns.split(",") for table, _, columns in (each.partition("=") for each in given.key)}
    session = start_session("delta tables", master="local[2]", jars=None)
    session.sparkContext.setLogLevel("ERROR")
    options = {"bootstrap": given.bootstrap_servers, "tables": ",".join(keys)}
    start(session, options, DeltaTables(given.to, keys), given.to / "_checkpoint").awaitTermination()


if __name__ == "__main__":
    main()
