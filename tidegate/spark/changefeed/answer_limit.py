"""Watches the size of a round's answers. Spark's driver takes ``spark.driver.maxResultSize`` at most."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from tidegate.errors import QueryEnded
from tidegate.spark.changefeed.task.answers import Answer

_NAME: Final = "spark.driver.maxResultSize"
_DEFAULT: Final = "1g"
#: The bytes that an answer takes beside its body.
_ANSWER_BYTES: Final = 64
_MIB: Final = 1 << 20
_ADVICE: Final = (
    f"Give the driver more by --conf {_NAME}=4g, and as much memory (spark.driver.memory), or let a batch be "
    "smaller by --batch-records. docs/spark.md#answers says what an answer holds."
)

_log = logging.getLogger("tidegate.spark")


class AnswerLimit:
    """Warns when the answers of a round come near the limit, and says it in a sentence when Spark refuses
    them.

    Spark compresses answers, so it counts fewer bytes than are counted here.
    """

    def __init__(self) -> None:
        self._warned_at = 0

    @contextmanager
    def explained(self, session: SparkSession) -> Iterator[None]:
        """Turn Spark's refusal of a round's answers into ``QueryEnded``."""
        try:
            yield
        except Exception as error:
            if _NAME in str(error):
                raise QueryEnded(
                    f"The answers of a round are more than Spark's driver takes: {_NAME} is "
                    f"{_setting(session)}. The batch is not done, and its next run writes the same rows. "
                    f"{_ADVICE}"
                ) from None
            raise

    def look(self, session: SparkSession, answers: Sequence[Answer]) -> None:
        """Warn if the answers have more than half of what Spark takes, and at least twice as much as at the
        last warning.
        """
        taken = sum(len(answer.body) + _ANSWER_BYTES for answer in answers)
        if taken < 2 * self._warned_at or taken < _MIB:
            return
        limit = limit_bytes(session)
        if limit and taken > limit // 2:
            self._warned_at = taken
            _log.warning(
                "the answers of a round have %d MiB, and Spark's driver takes %d MiB at most. %s",
                taken // _MIB,
                limit // _MIB,
                _ADVICE,
            )


def limit_bytes(session: SparkSession) -> int:
    """Return how many bytes of answers Spark's driver takes; 0 for no limit."""
    jvm = session.sparkContext._jvm  # noqa: SLF001 - Spark reads sizes such as 512m
    return int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(_setting(session)))  # type: ignore[union-attr]


def _setting(session: SparkSession) -> str:
    return session.sparkContext.getConf().get(_NAME, _DEFAULT) or _DEFAULT
