from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from tidegate.spark.platform.task_failures import TASK_FAILURES, words_of

_CALL = "An error occurred while calling o91.collectToPython.\n: "
_ABORTED = "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times"
_LOST = "ExecutorLostFailure (executor 7 exited) Reason: Container killed by YARN for exceeding memory limits"
_FRAMES = "\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)\n\t... 1 more\n"
_TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'


class _Java(Py4JJavaError):  # type: ignore[misc]  # Py4J is not typed
    """An exception of Java with this text; Py4J asks the Java process for it otherwise."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self._text = text

    def __str__(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            _Java(f"{_CALL}org.apache.spark.SparkException: {_ABORTED}: {_LOST}{_FRAMES}"),
            f"{_ABORTED}: {_LOST}.",
        ),
        (
            _Java(f"{_CALL}org.apache.spark.SparkException: {_TRACE}tidegate.errors.StoreAway: Away.\n"),
            "Away.",
        ),
        (PythonException(f"{_TRACE}tidegate.errors.BrokerUnavailable: Kafka is away.\n"), "Kafka is away."),
        (PythonException(f"{_TRACE}ValueError: no number\n"), "ValueError: no number."),
        (_Java("no text of Java's"), "no text of Java's."),
        (_Java(""), "_Java."),
    ],
)
def test_the_words_are_those_of_the_cause_without_traces(failure: Exception, words: str) -> None:
    assert isinstance(failure, TASK_FAILURES)
    assert words_of(failure) == words


def test_words_have_a_bound() -> None:
    assert len(words_of(_Java(f"{_CALL}java.lang.Exception: {'x' * 10_000}"))) < 600
