"""The contract of a sink with a worker, for any kind of sink. It speaks tidegate's own types and errors.

The sink is the destination; a *row writer* is what gives rows to it. An outlet uses a ``RowWriter``, which is
one feed's. In turn, all feeds of one sink share a ``SharedRowWriter``. For a Kafka cluster it is
``tidegate.worker.output.row_producer.SharedRowProducer``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier


class RowWriter(Protocol):
    """Gives the rows of one feed to its sink, in order.

    It never drops a row by itself. Rows of a key reach the sink in the order in which they were sent. A row
    may reach the sink more than once. But among the rows of one writer no older row of a key follows a newer
    one.
    """

    @property
    def is_over(self) -> bool:
        """Whether the writer has come to its end: it takes no more rows, and tells barriers nothing more.

        The outlet then opens another one, and gives it all rows again from the first batch on that is not
        acknowledged (step R6 of docs/protocols/refused-rows.md).
        """

    @property
    def is_held(self) -> bool:
        """Whether no row can be written, for example because the sink's address means another cluster now.

        Nothing is tried until the cause is gone.
        """

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Take rows from index ``first`` on. Never waits.

        Returns the index of the first row that the writer did not take; ``len(rows)`` when it took all. There
        are three reasons not to take a row. The writer has no room: call again after a while. Or it has come
        to its end. Or the row is refused: the barrier has the refusal then.

        Each row that the writer took has one of four ends. The writer tells it once it knows, in any thread:

        * the sink has acknowledged it: ``barrier.row_acknowledged()``;
        * no repetition would deliver it: ``barrier.row_refused(...)`` with a sentence for the feed's state;
        * it is not known whether a repetition would deliver it: ``barrier.row_refused(...)`` with a
          ``RowDoubted``; then the writer comes to its end as after the next case (step R4b);
        * it is given up although it is not at fault: no call. Then the writer takes no rows any more, and
          ``is_over`` becomes true once each of its rows has its end (steps R4a and R5).
        """


class SharedRowWriter(Protocol):
    """Gives the rows of all feeds of one sink to it, as ``RowWriter`` says. Any thread may call it."""

    @property
    def is_over(self) -> bool:
        """Whether the writer has come to its end (``RowWriter.is_over``)."""

    @property
    def cluster_id(self) -> str:
        """The id that the sink at the address has answered with; empty while that is not certain.

        It distinguishes the sink from any other that the address may later mean. A kind of sink whose
        address always means the same sink may give one constant id.
        """

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Send as ``RowWriter.send`` does, for a sink whose address always means the same sink."""

    def send_to(self, cluster: str, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """Take rows as ``send`` does, but only while ``cluster`` is surely at the address.

        Acknowledgements and refusals count once it is certain that no other sink gave them: the writer calls
        ``barrier.require_confirmation`` before it takes a row, and ``barrier.confirm`` once that is certain
        (steps 3a to 4c).
        """

    def pending(self) -> int:
        """Return how many rows were taken and have none of the four ends yet."""

    def close(self) -> None:
        """Stop. Rows that have not had their end are given up."""


#: Opens the row writer of one feed: a new one with each call.
OpenRowWriter: TypeAlias = Callable[[], RowWriter]
