"""Tells tidegate's figures of each batch in Spark's own progress of the query, as an observed metric.

Listeners of Spark (``StreamingQueryListener``), its log of events and ``query.lastProgress`` have the figures
in ``observedMetrics["tidegate"]``. Spark gives a ``foreachBatch`` no other place for figures. Its sink
reports no rows (``numOutputRows`` is -1), and metrics that the batch's own jobs observe do not come to the
query's progress. So the stream itself observes the figures. Spark evaluates the last function of an observed
metric in the driver, when the batch is over; that function asks for the figures. A batch that failed has no
progress, so its figures are not told.

Spark does not promise where it evaluates that function. A version that sends it to executors, as 4.3.0 does,
cannot take it: Python's answer is no value that Java could send. So one small job tries it before the query
begins, unless the version is known to take it. If the job fails, the query runs without figures in its
progress.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession, functions

from tidegate.spark.platform.executors import words_of

#: The name of the observed metric.
OBSERVED: Final = "tidegate"
#: The versions of Spark with which the test suite runs, and which take the metric. Others are tried.
KNOWN: Final = ("4.0.0", "4.1.1", "4.2.0")
#: The figures of a batch, in the order in which Spark shows them.
FIGURES: Final = ("records", "rows", "markers", "resolved_lag_ms", "parked_ranges", "quarantined_ranges")

#: The figures of the batch that has just ended, by name; ``None`` for one that is not known.
Figures = Callable[[], Mapping[str, int | None]]

_log = logging.getLogger("tidegate.spark")


@contextmanager
def observed(stream: DataFrame, figures: Figures) -> Iterator[DataFrame]:
    """Yield the stream with the figures in its progress, or unchanged if this Spark cannot take them.

    The progress has the figures for as long as the ``with`` lasts.
    """
    session = stream.sparkSession
    context = session.sparkContext
    # Spark calls the function of `foreachBatch` by this way, too.
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001
    name = f"tidegate_figure_{uuid.uuid4().hex}"
    java = context._jvm.org.apache.spark.sql.types.DataType  # type: ignore[union-attr]  # noqa: SLF001
    session._jsparkSession.udf().register(name, _Figure(figures), java.fromJson('"string"'))  # noqa: SLF001
    # The count is of no use, but a metric without an aggregate would be evaluated once, beforehand.
    metrics = [f"try_cast({name}('{each}', count(1)) AS BIGINT) AS {each}" for each in FIGURES]
    is_taken = session.version in KNOWN or _are_taken(session, metrics)
    try:
        yield _observed(stream, metrics) if is_taken else stream
    finally:
        session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def _observed(frame: DataFrame, metrics: Iterable[str]) -> DataFrame:
    return frame.observe(OBSERVED, *map(functions.expr, metrics))


def _are_taken(session: SparkSession, metrics: Iterable[str]) -> bool:
    """Return whether this version of Spark can observe the metrics."""
    try:
        _observed(session.range(0, 1, 1, 1), metrics).collect()
    except Exception as error:  # whatever it is, the query can do without
        _log.warning(
            "Spark %s cannot tell the figures of batches in the progress of the query: %s Lines and metrics "
            "have them.",
            session.version,
            words_of(error),
        )
        return False
    return True


class _Figure:
    """A function for Spark that runs in Python: it returns the figure of a name, as text.

    It returns text because Python's numbers come to Java as ``Integer`` or ``Long``, whichever they fit.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def call(self, name: str, _: int) -> str | None:
        """Return the figure, or ``None`` when it is not known. Raises nothing: the query would end."""
        try:
            figure = self._figures().get(name)
        except Exception:  # figures must not end what they tell of
            _log.exception("the figure %s of the batch is not known", name)
            return None
        return None if figure is None else str(figure)

    class Java:
        """The names of Java's interfaces, for Py4J."""

        implements: ClassVar = ["org.apache.spark.sql.api.java.UDF2"]
