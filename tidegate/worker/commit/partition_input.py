"""The input that waits for a step of a log partition: batches of the log, messages about feeds, hand-offs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidegate.changefeed.lifecycle.control import ControlMessage, Register, Remove
from tidegate.processor.batch import ControlRecord, ExchangeRecord
from tidegate.processor.containment import Input
from tidegate.worker.commit.batch_queue import BatchQueue
from tidegate.worker.commit.framing import Wanted
from tidegate.worker.kafka.fetched import FetchedBatch

_NOT_CAREFUL: Final[Mapping[Input, int]] = {}


class PartitionInput:
    """The waiting input of one log partition. It is added at any time, and taken between two batches.

    ``came`` is called when something was added. ``present`` is the log position that must be reached before a
    new feed is registered. ``alone_to`` names, for each input, the offset up to which every record has a step
    of its own (``tidegate.processor.containment.Caution``).
    """

    def __init__(
        self,
        batches: BatchQueue,
        present: int,
        came: Callable[[], None],
        alone_to: Mapping[Input, int] = _NOT_CAREFUL,
    ) -> None:
        self.batches = batches
        self._alone_to = alone_to
        self._present = present
        self._came = came
        self._controls: list[ControlRecord] = []
        self._exchanges: list[ExchangeRecord] = []

    def queue_batch(self, batch: FetchedBatch) -> None:
        """Queue a batch of the log, and halt the flow when enough is queued."""
        self.batches.put(batch)
        self._came()

    def cut(self, log_start: int) -> None:
        """Queue the news that the log begins at ``log_start``, above the offset that was to be read next."""
        self.batches.cut(log_start)
        self._came()

    def control(self, records: Sequence[ControlRecord]) -> None:
        """Queue messages about feeds.

        The jobs agent repeats a message until it is answered, and a waiting partition does not answer. Of
        equal messages in a row about a feed only the last is kept. If the first were kept, the position in
        the control topic could pass over a message that was not taken up.
        """
        for record in records:
            self._drop_repeated(record.message)
            self._controls.append(record)
        self._came()

    def exchange(self, records: Sequence[ExchangeRecord]) -> None:
        """Queue claims and hand-offs."""
        self._exchanges += records
        self._came()

    def take_controls(self, *, held: bool) -> list[ControlRecord]:
        """Take the messages for the next step. Registrations are taken only once the log is at ``present``.

        A held partition takes registrations before that too: it reads nothing, so it would never reach
        ``present``. A registration that waits may be taken after later messages. The processor passes over
        it then, and the jobs agent repeats it.
        """
        taken, self._controls = self._controls, []
        if self.batches.position < self._present and not held:
            self._controls = [record for record in taken if isinstance(record.message, Register)]
            taken = [record for record in taken if not isinstance(record.message, Register)]
        now = self._at_once(Input.CONTROL, taken)
        self._controls = [*taken[now:], *self._controls]
        return taken[:now]

    def take_exchanges(self) -> list[ExchangeRecord]:
        """Take the claims and hand-offs for the next step."""
        now = self._at_once(Input.HAND_OFFS, self._exchanges)
        taken, self._exchanges = self._exchanges[:now], self._exchanges[now:]
        return taken

    def _at_once(self, input_: Input, records: Sequence[ControlRecord | ExchangeRecord]) -> int:
        """Return how many of the records, from the first on, the next step takes: one alone, or all."""
        alone = records and records[0].offset <= self._alone_to.get(input_, -1)
        return 1 if alone else len(records)

    def removes(self, feed: Wanted) -> bool:
        """Whether a waiting message removes the feed, in its epoch or a later one."""
        messages = (record.message for record in self._controls)
        return any(
            isinstance(message, Remove) and message.feed_id == feed.feed_id and message.epoch >= feed.epoch
            for message in messages
        )

    def _drop_repeated(self, message: ControlMessage) -> None:
        about = (queued for queued in reversed(self._controls) if queued.message.feed_id == message.feed_id)
        last = next(about, None)
        if last is not None and last.message == message:
            self._controls.remove(last)
