"""The durable side of a commit loop in tests, and a sink that acknowledges by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.processor.driving import StoredState, fold
from tidegate.changefeed.lifecycle.control import Ack
from tidegate.processor.batch import OutputRecord, StepResult
from tidegate.worker.output.barrier import Barrier


class HandSink:
    """Keeps every row, and acknowledges at once unless told to wait."""

    is_over = False

    def __init__(self, *, waits: bool = False) -> None:
        self.rows: list[OutputRecord] = []
        #: Whether rows wait for ``acknowledge``.
        self.waits = waits
        self._unacknowledged: list[Barrier] = []

    is_held = False

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        self.rows += rows[first:]
        self._unacknowledged += [barrier] * len(rows[first:])
        if not self.waits:
            self.acknowledge()
        return len(rows)

    def acknowledge(self) -> None:
        """Every row so far."""
        waiting, self._unacknowledged = self._unacknowledged, []
        for barrier in waiting:
            barrier.row_acknowledged()

    @property
    def topics(self) -> list[str]:
        """The topics of the rows, in order."""
        return [row.topic for row in self.rows]


class HandStore:
    """The durable state of the partition."""

    def __init__(self) -> None:
        self.results: list[StepResult] = []
        self.state: StoredState = {}

    def commit(self, results: Sequence[StepResult]) -> None:
        self.results += results
        for result in results:
            self.state = fold(self.state, result.changes)

    @property
    def offsets(self) -> list[int]:
        """The log positions that were committed, in order."""
        return [int(result.offset) for result in self.results if result.offset is not None]

    @property
    def acks(self) -> list[Ack]:
        """The control answers of all results."""
        return [ack for result in self.results for ack in result.acks]


class HandValve:
    """Lets the log flow always."""

    def halt(self) -> None:
        pass

    def proceed(self) -> None:
        pass
