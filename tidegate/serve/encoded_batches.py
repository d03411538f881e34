"""Encodes each batch once for each form, however many clients get it.

Streams of one table may give the same batch object to all of their clients. The encoded form is kept for a
short while: clients that keep up find it there. For a slow client the batch is encoded again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Final
from weakref import ref

from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.row_size import values_bytes
from tidegate.subscribe.updates.update import RowValues

#: The most rows that are encoded in one step, and about the most bytes of memory that they take. Other
#: clients wait for a few milliseconds while a step runs. A single row may take more bytes.
CHUNK_ROWS: Final = 256
CHUNK_BYTES: Final = 1024 * 1024
#: The most bytes of encoded chunks that are kept. The rows of a chunk take up to ten times as much memory as
#: its bytes.
_KEPT_BYTES: Final = 4 * 1024 * 1024
_ENTRY_BYTES: Final = 1024

#: Encodes rows as the bytes of one form.
EncodeRows = Callable[[Sequence[RowValues]], bytes]


def chunk_of(rows: Sequence[RowValues], start: int, most: int = CHUNK_ROWS) -> Sequence[RowValues]:
    """Return the rows from ``start`` on that are encoded in one step. These are at most ``most`` rows, and at
    least one if there is one.
    """
    chunk = rows[start : start + min(most, CHUNK_ROWS)]
    if values_bytes(chain.from_iterable(chunk)) <= CHUNK_BYTES:
        return chunk
    taken = 0
    for at, row in enumerate(chunk):
        taken += values_bytes(row)
        if taken > CHUNK_BYTES and at:
            return chunk[:at]
    return chunk


class EncodedBatches:
    """The chunks of recent batches, by batch and form.

    It keeps chunks and no batches. Otherwise a long batch would stay here after a client that took one chunk
    of it has left.
    """

    __slots__ = ("_bytes", "_chunks", "_gone", "_kept_bytes", "_known", "encoded")

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._chunks: OrderedDict[tuple[int, Hashable, int], tuple[int, bytes]] = OrderedDict()
        #: The batches that have chunks here, by their ids, each with the places of its chunks.
        self._known: dict[int, tuple[ref[SubscriptionBatch], set[tuple[int, Hashable, int]]]] = {}
        #: The ids of batches that nobody has any more. Any thread may be the one that drops a batch last.
        self._gone: deque[int] = deque()
        self._bytes = 0
        self._kept_bytes = kept_bytes
        #: The number of chunks that were encoded.
        self.encoded = 0

    def chunks(
        self, batch: SubscriptionBatch, form: Hashable, encode: EncodeRows
    ) -> Iterator[tuple[int, bytes]]:
        """Yield a batch's rows in a form, chunk by chunk: the number of a chunk's rows, and its bytes.

        Two forms are equal only if their ``encode`` gives the same bytes.
        """
        start = 0
        while start < len(batch.rows):
            count, chunk = self.piece(batch, form, start, encode)
            yield count, chunk
            start += count

    def piece(
        self, batch: SubscriptionBatch, form: Hashable, start: int, encode: EncodeRows
    ) -> tuple[int, bytes]:
        """Return the chunk of a batch that begins at the row ``start``: its number of rows, and its bytes."""
        self._forget_gone()
        place = (id(batch), form, start)
        known = self._chunks.get(place)
        if known is not None:
            return known
        rows = chunk_of(batch.rows, start)
        chunk = encode(rows)
        self.encoded += 1
        self._keep(batch, place, (len(rows), chunk))
        while self._bytes > self._kept_bytes:
            _, (_, dropped) = self._chunks.popitem(last=False)
            self._bytes -= len(dropped) + _ENTRY_BYTES
        return len(rows), chunk

    def _keep(
        self, batch: SubscriptionBatch, place: tuple[int, Hashable, int], piece: tuple[int, bytes]
    ) -> None:
        number = id(batch)
        if number not in self._known:
            self._known[number] = (ref(batch, lambda _: self._gone.append(number)), set())
        self._known[number][1].add(place)
        self._chunks[place] = piece
        self._bytes += len(piece[1]) + _ENTRY_BYTES

    def _forget_gone(self) -> None:
        """Drop the chunks of batches that are gone: another batch may have got the id of one of them."""
        while self._gone:
            _, places = self._known.pop(self._gone.popleft())
            for place in places:
                if (dropped := self._chunks.pop(place, None)) is not None:
                    self._bytes -= len(dropped[1]) + _ENTRY_BYTES
