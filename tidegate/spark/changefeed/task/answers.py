"""The answers of a partition in a round, from its task to the driver (docs/protocols/spark-rounds.md, step
T6)."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import pyarrow as pa

from tidegate.processor.batch import StepResult
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.request import encode_request
from tidegate.spark.changefeed.task.merged_checkpoints import MergedCheckpoints

ANSWER_SCHEMA: Final = "partition int, kind string, body binary"
#: The most bytes of records to be kept aside that a partition answers in a round. Further records are
#: dropped, as in a step.
_ASIDE_BYTES: Final = 8 << 20
_ARROW: Final = pa.schema([("partition", pa.int32()), ("kind", pa.string()), ("body", pa.binary())])


class Answer(NamedTuple):
    """One answer of a partition in a round; ``kind`` says what ``body`` holds.

    * ``head``: the name of the file that holds the partition's state
    * ``checkpoint``, merged from those of many steps
    * ``exchange``: a claim or a hand-off
    * ``request`` to the source: key, then value
    * ``ack``
    * ``left_behind``: a feed that is detached, since its sink does not acknowledge its rows (step S1)
    * ``incident``
    * ``figures``, JSON: ``rows`` that were written, ``records`` that were read, ``next_offset`` in the log,
      ``seconds`` and ``cpu_s`` by stage, which differ between attempts, and every few seconds ``status``,
      counts by the names of their metrics
    * ``aside``, JSON: a record to be kept aside

    A partition that gives one of these four answers gives no other, and stores nothing of the round:

    * ``fault`` (`tidegate.spark.platform.faults`)
    * ``refused``, JSON: a feed with a row that is refused, and why
    * ``doubted``, the same of a row that another attempt may deliver (step S5a)
    * ``broke``: a step met an exception that nobody foresaw
    """

    partition: int
    kind: str
    body: bytes


def as_arrow(answers: list[Answer]) -> pa.RecordBatch:
    """Return the answers in the form that Spark takes from a task."""
    return pa.RecordBatch.from_pylist([answer._asdict() for answer in answers], _ARROW)


class RoundAnswers:
    """Collects all answers of partition ``partition``.

    The results of steps are kept until nothing can change them any more: when a feed is detached, results of
    earlier steps change (step S1).
    """

    def __init__(self, partition: int, *, whole_checkpoints_only: bool) -> None:
        self.said: list[Answer] = []
        #: Results of steps that are not answered yet, without their rows and changes of state.
        self.steps: list[StepResult] = []
        self._partition = partition
        self._checkpoints = None if whole_checkpoints_only else MergedCheckpoints()
        self._aside_bytes = 0

    @property
    def tell_news(self) -> bool:
        """Whether one of the answers is an incident, which somebody should look at."""
        return any(answer.kind == "incident" for answer in self.said)

    def say(self, kind: str, body: bytes) -> None:
        """Add an answer."""
        self.said.append(Answer(self._partition, kind, body))

    def keep(self, step: StepResult) -> None:
        """Keep the result of a step, to answer it later."""
        self.steps.append(step)

    def let_go(self) -> None:
        """Answer the kept results.

        Every row that may be given up is acknowledged by now, so no result changes any more.
        """
        for step in self.steps:
            self._say_all_of(step)
        self.steps.clear()

    def say_checkpoints(self) -> None:
        """Answer the checkpoints of all steps that were answered so far."""
        for checkpoint in () if self._checkpoints is None else self._checkpoints.take_out():
            self.say("checkpoint", encode_checkpoint(checkpoint))

    def _say_all_of(self, step: StepResult) -> None:
        if step.checkpoint is not None and self._checkpoints is not None:
            self._checkpoints.add(step.checkpoint)
        for message in step.exchanges:
            self.say("exchange", encode_exchange(message)[1])
        for request in step.requests:
            self.say("request", b"".join(encode_request(request)))
        for ack in step.acks:
            self.say("ack", ack.to_bytes())
        for incident in step.incidents:
            self.say("incident", json.dumps(incident._asdict()).encode())
        for record in step.refused:
            self._aside_bytes += record.size
            if self._aside_bytes <= _ASIDE_BYTES:
                self.say("aside", json.dumps(record.to_json()).encode())
