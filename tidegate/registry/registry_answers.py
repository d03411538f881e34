"""Bounds the answers from a registry's address: any server may be there, and may send without an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import httpx2

#: The longest schemas, of tables with thousands of columns, take some hundred kilobytes.
LONGEST_ANSWER_BYTES: Final = 4 << 20


def bound_answers(
    session: httpx2.Client, within_s: float, clock: Callable[[], float] = time.monotonic
) -> None:
    """Let no answer's body be longer than ``LONGEST_ANSWER_BYTES``, or take longer than ``within_s`` seconds.

    The time counts from the end of the headers and is checked when a piece has come. So a body can take
    longer than ``within_s`` by the session's time limit for one piece at most. A body that breaks a bound
    raises ``ValueError`` or ``httpx2.ReadTimeout``. A compressed body is refused, since a few bytes may stand
    for many.
    """

    def bound(response: httpx2.Response) -> None:
        coding = response.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise ValueError("its answer is compressed, though that was not asked for")
        if not isinstance(response.stream, httpx2.SyncByteStream):
            raise TypeError("an answer that does not come piece by piece")
        response.stream = _Bounded(response.stream, within_s, clock)

    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"response": [bound]}


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, within_s: float, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._until = clock() + within_s

    def __iter__(self) -> Iterator[bytes]:
        length = 0
        for piece in self._stream:
            length += len(piece)
            if length > LONGEST_ANSWER_BYTES:
                raise ValueError(f"its answer is longer than {LONGEST_ANSWER_BYTES >> 20} MiB")
            if self._clock() > self._until:
                raise httpx2.ReadTimeout("the answer took too long")
            yield piece

    def close(self) -> None:
        self._stream.close()
