"""An engine of one partition whose steps may break."""

from __future__ import annotations

from collections.abc import Sequence

from tests.logs import Record
from tests.unit.processor.driving import Driven
from tidegate.changefeed.lifecycle.control import ControlMessage
from tidegate.processor.batch import ControlRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Caution, Input, StepBroke
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset


class CarefulEngine:
    """Runs partition 0 of 1, and opens it again from what is durable when a step broke.

    ``opened`` counts how often that was, ``broken`` is why.
    """

    def __init__(self, *messages: ControlMessage) -> None:
        self.driven = Driven()
        self.caution = Caution()
        self.opened = 1
        self.broken: list[StepBroke] = []
        self.control(*messages)

    def control(self, *messages: ControlMessage) -> None:
        """Take up messages, each at the next offset of the control topic."""
        first = self.driven.processor.next_control_offset
        records = [ControlRecord(Offset(first + number), each) for number, each in enumerate(messages)]
        while left := [each for each in records if each.offset >= self.driven.processor.next_control_offset]:
            try:
                for some in self.caution.steps(Input.CONTROL, left):
                    self.driven.note(self.driven.processor.control(some))
            except StepBroke as broke:
                self._open_again(broke)

    def run(self, records: Sequence[Record], batch: int) -> None:
        """Step all records, in batches."""
        while (following := self.driven.processor.next_offset or 0) <= records[-1].offset:
            left = [each for each in records if each.offset >= following]
            try:
                for some in self.caution.steps(Input.LOG, left[:batch]):
                    self.driven.step(some)
            except StepBroke as broke:
                self._open_again(broke)

    def _open_again(self, broke: StepBroke) -> None:
        """Nothing but durable state is left of the processor."""
        self.opened += 1
        self.broken.append(broke)
        self.caution = self.caution.after(broke)
        rows = ((table, key, value) for (table, key), value in self.driven.state.items())
        self.driven.processor = PartitionProcessor.restore(0, 1, ProcessorConfig(), rows)
        self.driven.processor.pass_over(self.caution.refused)
