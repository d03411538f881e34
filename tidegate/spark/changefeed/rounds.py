"""The messages of one round for its tasks, as values that are stored and that a restart reads again.

A micro-batch is a sequence of rounds. Each round is one Spark job. Its tasks run every log partition that has
something to do, one task for one or several partitions. What a round tells partitions is stored before the
round runs. A batch that runs again tells them the same at the same places, and so writes the same bytes
(docs/protocols/spark-rounds.md).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.processor.containment import Caution
from tidegate.spark.platform import checked_json
from tidegate.spark.platform.state_files import BUILD_ANEW


class RoundId(NamedTuple):
    """The place of a round among all rounds of a query.

    ``batch`` is the id of Spark's batch, ``number`` counts the rounds of that batch.
    """

    batch: int
    number: int

    @property
    def name(self) -> str:
        """The name of the round's files. Names sort as rounds do, for example ``0000000012-00003``."""
        return f"{self.batch:010d}-{self.number:05d}"


class Told(NamedTuple):
    """A message for a partition, and its number among all messages that the partition was ever told."""

    offset: int
    message: bytes


@dataclass(frozen=True, slots=True)
class Instructions:
    """The work of one partition in a round, beside stepping its records.

    ``controls`` are messages about feeds (``tidegate.changefeed.lifecycle.control``). ``exchanges`` are
    claims and hand-offs of other partitions' ranges. Both are taken up before records. ``everything`` asks
    for the whole checkpoint, for a driver that has none.
    """

    controls: tuple[Told, ...] = ()
    exchanges: tuple[Told, ...] = ()
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what partitions are told, and whether they step the batch's records.

    ``paused`` are feeds that get no rows, since their sinks do not take rows. Three fields are not stored
    with the round. ``clusters`` are the ids of the clusters that feeds write to, as the jobs topic has them
    now, by the names that ranges use for feeds. ``refused`` has, for each partition, the feeds whose rows
    were refused in an earlier attempt, and why. ``cautions`` say how to step partitions in which an earlier
    attempt broke.
    """

    id: RoundId
    records: bool = False
    instructions: Mapping[int, Instructions] = field(default_factory=dict)
    paused: frozenset[FeedId] = frozenset()
    clusters: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[int, Mapping[FeedId, str]] = field(default_factory=dict)
    cautions: Mapping[int, Caution] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        told = {
            str(partition): {
                "controls": [_told(each) for each in instructions.controls],
                "exchanges": [_told(each) for each in instructions.exchanges],
                "everything": instructions.everything,
            }
            for partition, instructions in sorted(self.instructions.items())
        }
        body = {
            "id": list(self.id),
            "records": self.records,
            "instructions": told,
            "paused": sorted(self.paused),
        }
        return checked_json.dump(body)


def read_round(stored: bytes, where: str) -> Round:
    """Return the round whose stored form, in the file ``where``, is ``stored``.

    Raises ``StateError`` if ``stored`` is anything else.
    """

    def read(body: dict[str, Any]) -> Round:
        return Round(
            RoundId(*body["id"]),
            bool(body["records"]),
            {int(partition): _instructions(told) for partition, told in body["instructions"].items()},
            frozenset(map(FeedId, body.get("paused", ()))),
        )

    return checked_json.load(stored, where, read, f"Nothing was emitted. Put it back, or {BUILD_ANEW}.")


def _told(told: Told) -> list[Any]:
    return [told.offset, base64.b64encode(told.message).decode()]


def _instructions(stored: Mapping[str, Any]) -> Instructions:
    return Instructions(
        tuple(Told(offset, base64.b64decode(message)) for offset, message in stored["controls"]),
        tuple(Told(offset, base64.b64decode(message)) for offset, message in stored["exchanges"]),
        bool(stored["everything"]),
    )
