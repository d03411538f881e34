"""The state of all feeds, which one look finds for all clients of the page of feeds.

A look of this module is the *feed look* of docs/serve.md.

1. A client asks. If the last look is older than the interval, a new one begins. Only one look runs at a time.
2. Every client that asks while the look runs waits for it, but at most for an interval. Then it gets the
   result of the last look that has ended. Before the first look has ended, clients wait for its end.
3. The result of a look is encoded once. All clients get the same bytes until the next look.

So the number of questions to Kafka and the workers does not depend on the number of clients. While no client
asks, there are none.

Failure cases: Kafka does not answer at a look: clients get the feeds of the look before, its time, and the
error. A client is gone in step 2: only its own waiting ends.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

from tidegate.serve.feeds.feed_lookup import FeedsLook
from tidegate.serve.feeds.shown_feed import ShownFeed
from tidegate.serve.web.batch_messages import error_message

#: Seconds between two looks.
INTERVAL_S: Final = 2.0
#: The most looks of each feed that its plot shows.
MOST_POINTS: Final = 120
_MS: Final = 1_000


class WatchedFeeds:
    """Looks at feeds for all clients: calls ``look`` at most once in ``interval_s`` seconds.

    All calls have to come from one event loop.
    """

    def __init__(
        self,
        look: Callable[[], FeedsLook],
        interval_s: float = INTERVAL_S,
        patience_s: float | None = None,
    ) -> None:
        """``look`` is called in a thread of its own. If there is an earlier result, a client waits for a new
        one at most ``patience_s`` seconds; the default is the interval."""
        self._look = look
        self._interval_s = interval_s
        self._patience_s = interval_s if patience_s is None else patience_s
        self._threads = ThreadPoolExecutor(1, "feeds")
        self._task: asyncio.Task[None] | None = None
        self._due = 0.0
        self._last: FeedsLook | None = None
        self._feeds: list[dict[str, Any]] = []
        self._courses: dict[tuple[str, int], _Course] = {}
        self._answer = b""
        #: The number of looks that were begun.
        self.looks = 0

    async def now(self) -> tuple[HTTPStatus, bytes]:
        """Return the feeds as JSON. The status is 503 until a look has succeeded."""
        if self._task is None and time.monotonic() >= self._due:
            self.looks += 1
            self._task = asyncio.ensure_future(self._refresh())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._patience_s if self._answer else None)
        return HTTPStatus.SERVICE_UNAVAILABLE if self._last is None else HTTPStatus.OK, self._answer

    def close(self) -> None:
        """Stop looking at the feeds."""
        self._threads.shutdown(wait=False)

    async def _refresh(self) -> None:
        error: dict[str, Any] = {}
        try:
            look = await asyncio.get_running_loop().run_in_executor(self._threads, self._look)
            self._note_look(look)
        except Exception as failure:
            error = error_message(failure)
        finally:
            self._task = None
            self._due = time.monotonic() + self._interval_s
        at_ms = None if self._last is None else self._last.at_ms
        shown = {"at_ms": at_ms, "interval_s": self._interval_s, "feeds": self._feeds, **error}
        self._answer = json.dumps(shown, separators=(",", ":")).encode()

    def _note_look(self, look: FeedsLook) -> None:
        courses: dict[tuple[str, int], _Course] = {}
        feeds = []
        for feed in look.feeds:
            course = self._courses.get((feed.feed, feed.epoch)) or _Course()
            course.add(look.at_ms, feed)
            courses[feed.feed, feed.epoch] = course
            feeds.append({**feed.to_json(), **course.to_json()})
        self._last, self._feeds, self._courses = look, feeds, courses  # feeds that are gone are forgotten


class _Course:
    """The newest looks at a feed: their times, the lags, and the records/s since the look before."""

    __slots__ = ("_at_ms", "_points", "_records")

    def __init__(self) -> None:
        self._points: deque[tuple[int, int | None, float | None]] = deque(maxlen=MOST_POINTS)
        self._at_ms = 0
        self._records: int | None = None

    def add(self, at_ms: int, feed: ShownFeed) -> None:
        self._points.append((at_ms, feed.lag_ms, self._rate(at_ms, feed.records)))
        self._at_ms, self._records = at_ms, feed.records

    def _rate(self, at_ms: int, records: int | None) -> float | None:
        """Return the records/s since the last look. Return ``None`` at the first look, if the number of
        records is not known, and if topics were made anew."""
        before = self._records
        if records is None or before is None or records < before or at_ms <= self._at_ms:
            return None
        return round((records - before) * _MS / (at_ms - self._at_ms), 1)

    def to_json(self) -> dict[str, Any]:
        return {"records_per_s": self._points[-1][2], "points": [list(point) for point in self._points]}
