"""A feed's row writer whose exceptions fail the feed and nothing else (docs/security.md, U1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.feed_faults import FeedFaults
from tidegate.delivery.refused_rows import rows_broke
from tidegate.errors import RowRefused, SettingsError
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_writer import OpenRowWriter, RowWriter

ResultT = TypeVar("ResultT")


class ContainedWriter:
    """The row writer that ``open_writer`` opens for the feed (``tidegate.worker.output.row_writer``).

    After an exception that nobody foresaw it takes no row any more, and ``refusal`` says why. Faults of the
    process itself, such as a full disk, and settings that cannot be used are raised.
    """

    def __init__(self, feed_id: FeedId, open_writer: OpenRowWriter) -> None:
        self._feed_id = feed_id
        #: The reason why no row of the feed can be handed over, so that the feed fails (step R1).
        self.refusal: RowRefused | None = None
        self._writer: RowWriter | None = None
        self._writer = self._contained(open_writer, None)

    @property
    def is_over(self) -> bool:
        """See ``RowWriter``."""
        return self._ask(lambda writer: writer.is_over, otherwise=False)

    @property
    def is_held(self) -> bool:
        """See ``RowWriter``."""
        return self._ask(lambda writer: writer.is_held, otherwise=False)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """See ``RowWriter``."""
        return self._ask(lambda writer: writer.send(rows, barrier, first), otherwise=first)

    def _ask(self, question: Callable[[RowWriter], ResultT], otherwise: ResultT) -> ResultT:
        writer = self._writer
        if writer is None or self.refusal is not None:
            return otherwise
        return self._contained(lambda: question(writer), otherwise)

    def _contained(self, call: Callable[[], ResultT], otherwise: ResultT) -> ResultT:
        try:
            return call()
        except SettingsError:
            raise
        except Exception as error:
            self.refusal = rows_broke(FeedFaults().reported(self._feed_id, error))
            return otherwise
