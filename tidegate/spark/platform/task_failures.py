"""Spark's exceptions for a job whose task has failed as often as Spark tries, and what they say in a line."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException, UnknownException

from tidegate.errors import brief

#: PySpark has a class of its own only for exceptions of the task's Python code. A lost executor and a Python
#: worker that died come as Java's exception.
TASK_FAILURES: Final = (PythonException, UnknownException, Py4JJavaError)

_SENTENCE_CHARACTERS: Final = 500


def words_of(failure: Exception) -> str:
    """Return what the failure says, as a sentence without traces.

    That is the message of an error of ours, or else the last line of Python's trace, or Java's first message.

    Example: ``Job aborted due to stage failure: ... ExecutorLostFailure (executor 7 exited ...).``
    """
    lines = [line.rstrip() for line in str(failure).splitlines() if not _is_frame(line)]
    ours = [line for line in lines if line.startswith("tidegate.")]
    if ours:
        return ours[-1].partition(": ")[2]
    if isinstance(failure, PythonException) and lines:
        return _sentence(lines[-1])
    told = [line[2:] for line in lines if line.startswith(": ")] or lines or [type(failure).__name__]
    name, _, message = told[0].partition(": ")
    return _sentence(message if message and " " not in name else told[0])


def _is_frame(line: str) -> bool:
    """Return whether the line is of a trace of Java, or has no text."""
    return not line.strip() or line.lstrip().startswith(("at ", "... "))


def _sentence(words: str) -> str:
    return f"{brief(words.strip(), _SENTENCE_CHARACTERS).rstrip('.')}."
