"""What a partition answers of a round: from its task to the driver (docs/spark.md, step T6)."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import pyarrow as pa

from tidegate.processor.batch import StepResult
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.request import encode_request

ANSWER_SCHEMA: Final = "partition int, kind string, body binary"
_ARROW: Final = pa.schema([("partition", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])


class Answer(NamedTuple):
    """One thing that a partition has to say of a round. ``kind`` is one of:

    ``head`` (the name of its state's file), ``checkpoint``, ``exchange``, ``request`` (key, then value),
    ``ack``, ``stalled`` (a feed whose sink does not acknowledge its rows, and that is left behind),
    ``incident`` and ``figures`` (JSON: ``rows`` that were written, ``records`` that were read,
    ``next_offset`` in the log, ``seconds`` and ``cpu_s`` by stage, which another attempt has others of, and
    every few seconds ``status``: counts, by the names of their metrics), or ``aside`` (JSON: a record to be
    kept aside). Or it is all that the partition says, and nothing of the round is stored: ``fault``
    (`tidegate.spark.platform.faults`), or ``refused`` (JSON: a feed of which a row is refused for good, and
    why).
    """

    partition: int
    kind: str
    body: bytes


def as_arrow(answers: list[Answer]) -> pa.RecordBatch:
    """The answers as Spark takes them from a task."""
    return pa.RecordBatch.from_pylist([answer._asdict() for answer in answers], _ARROW)


class RoundAnswers:
    """All answers of partition ``partition``. Those that steps give are made when nothing changes them any
    more: a feed that is left behind does (step S1).
    """

    def __init__(self, partition: int, *, whole_checkpoints_only: bool) -> None:
        self.said: list[Answer] = []
        #: The steps that are kept, without rows and rows of state.
        self.steps: list[StepResult] = []
        self._partition = partition
        self._checkpoints = not whole_checkpoints_only

    @property
    def tell_news(self) -> bool:
        """Whether there is something among them that somebody should look at."""
        return any(answer.kind == "incident" for answer in self.said)

    def say(self, kind: str, body: bytes) -> None:
        """Answer this."""
        self.said.append(Answer(self._partition, kind, body))

    def keep(self, step: StepResult) -> None:
        """Answer later what the step has to say."""
        self.steps.append(step)

    def let_go(self) -> None:
        """Say what the kept steps have to say. All rows of theirs that may be given up are acknowledged."""
        for step in self.steps:
            self._say_all_of(step)
        self.steps.clear()

    def _say_all_of(self, step: StepResult) -> None:
        if step.checkpoint is not None and self._checkpoints:
            self.say("checkpoint", encode_checkpoint(step.checkpoint))
        for message in step.exchanges:
            self.say("exchange", encode_exchange(message)[1])
        for request in step.requests:
            self.say("request", b"".join(encode_request(request)))
        for ack in step.acks:
            self.say("ack", ack.to_bytes())
        for incident in step.incidents:
            self.say("incident", json.dumps(incident._asdict()).encode())
        for record in step.refused:
            self.say("aside", json.dumps(record.to_json()).encode())
