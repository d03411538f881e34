"""Spark's entry: ``register(session)``, and then ``session.readStream.format("tidegate")``.

One micro-batch is one closed cut: all changes above the last cut, each once, over all tables and partitions.
The steps of a batch, and what happens when the query ends between two of them, are in
docs/spark-dataframe.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidegate.errors import SettingsError

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as missing:
    raise SettingsError(
        "format('tidegate') needs PySpark 4.2 or a newer one: install it, or read the feed by `tidegate "
        "spark load` or `tidegate subscribe`."
    ) from missing

from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.closed_cut import ClosedCut
from tidegate.spark.datasource.cut_finder import CutFinder
from tidegate.spark.datasource.frame_columns import FrameColumns
from tidegate.spark.datasource.partition_read import PartitionRead, read_partition
from tidegate.spark.datasource.source_feed import SourceFeed, find_feed
from tidegate.spark.datasource.source_options import SourceOptions
from tidegate.spark.platform.executors import Needs, prepare_executors


def register(session: SparkSession) -> None:
    """Make ``format("tidegate")`` known to a session, and give its executors the code.

    Raises ``SettingsError`` for executors that cannot run it.
    """
    prepare_executors(session, (), Needs(__name__))
    session.dataSource.register(TidegateSource)


class TidegateSource(DataSource):
    """The rows of a feed as a DataFrame."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tidegate"

    def schema(self) -> StructType:
        """Return the columns, as the newest descriptors of the tables say.

        Raises as ``find_feed`` and ``FrameColumns.of`` do, and ``SettingsError`` for options.
        """
        return from_arrow_schema(self._columns.schema(), prefer_timestamp_ntz=True)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's
        """Return the reader of a stream of closed cuts."""
        return CutStreamReader(self._feed, self._columns, self._options)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's
        """Return the reader of the tables' state at one closed cut."""
        return StateReader(self._feed, self._columns, self._options)

    @cached_property
    def _options(self) -> SourceOptions:
        return SourceOptions.of(self.options)

    @cached_property
    def _feed(self) -> SourceFeed:
        return find_feed(self._options)

    @cached_property
    def _columns(self) -> FrameColumns:
        return FrameColumns.of(self._feed)


class CutStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a feed cut by cut. Offsets are ``ClosedCut.to_dict``.

    With ``Trigger.AvailableNow`` it ends at the cut that is the newest when the query starts.
    """

    def __init__(self, feed: SourceFeed, columns: FrameColumns, options: SourceOptions) -> None:
        self._feed = feed
        self._columns = columns
        self._options = options
        self._finder: CutFinder | None = None
        self._target: Timestamp | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins."""
        return self._cuts().first(self._options.start, self._options.buckets).to_dict()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return the newest closed cut, or a lower one that the limit lets a batch reach."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        cut = ClosedCut.from_dict(start)
        return self._cuts().next(cut, self._options.buckets, most, self._target).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many records a batch may read."""
        return ReadMaxRows(self._options.batch_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember the newest closed cut: no batch goes further."""
        self._target = self._cuts().newest(self._options.buckets)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a task for each partition; none where nothing is to be read.

        Spark may plan a batch of an earlier run, in which the query had other options, or in which other
        topics had these names. So this raises as ``ClosedCut.require_of`` does.
        """
        begin, cut = ClosedCut.from_dict(start), ClosedCut.from_dict(end)
        for each in (begin, cut):
            each.require_of(self._feed.feed_id, self._feed.topic_ids)
        if cut.closed <= begin.closed:
            return []
        return _tasks(self._feed, self._columns, begin, cut)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        assert isinstance(partition, PartitionRead)
        return read_partition(partition)

    def stop(self) -> None:
        """Close the clients."""
        if self._finder is not None:
            self._finder.close()
            self._finder = None

    def __getstate__(self) -> Mapping[str, Any]:
        """Return what travels to executors: clients stay here."""
        return {**self.__dict__, "_finder": None, "_feed": self._feed.for_tasks()}

    def _cuts(self) -> CutFinder:
        if self._finder is None:
            self._finder = CutFinder(self._feed)
        return self._finder


class StateReader(DataSourceReader):
    """Reads the tables as they were at one closed cut."""

    def __init__(self, feed: SourceFeed, columns: FrameColumns, options: SourceOptions) -> None:
        self._feed = feed
        self._columns = columns
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each partition."""
        finder = CutFinder(self._feed)
        try:
            cut = finder.whole(self._options.as_of)
        finally:
            finder.close()
        begin = ClosedCut(ZERO, cut.positions, cut.topic_ids)
        return _tasks(self._feed, self._columns, begin, cut, newest=True)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        assert isinstance(partition, PartitionRead)
        return read_partition(partition)

    def __getstate__(self) -> Mapping[str, Any]:
        """Return what travels to executors."""
        return {**self.__dict__, "_feed": self._feed.for_tasks()}


def _tasks(
    feed: SourceFeed, columns: FrameColumns, begin: ClosedCut, cut: ClosedCut, *, newest: bool = False
) -> list[PartitionRead]:
    return [
        PartitionRead(
            feed.reading,
            feed.table_of(place.topic),
            columns,
            place,
            position,
            begin.closed,
            cut.closed,
            newest,
            feed.term,
        )
        for place, position in sorted(begin.positions.items())
    ]
