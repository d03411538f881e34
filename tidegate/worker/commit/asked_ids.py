"""Asks schema registries for the ids that the rows of a step wait for: step 2a of
docs/protocols/rows-with-schemas.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tidegate.changefeed.definition.feed import FeedId
from tidegate.worker.commit.framing import Answer, Framing, Wanted


class AskedIds:
    """The questions to schema registries that one step waits for: one for each feed, all asked together.

    ``answers`` has the answers that ``look`` has found so far.
    """

    def __init__(self, framing: Framing, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._asks = {feed.feed_id: asyncio.create_task(framing.ask(feed)) for feed in wanted}
        self.answers: dict[FeedId, Answer] = {}

    @property
    def are_complete(self) -> bool:
        """Whether each feed has an answer."""
        return len(self.answers) == len(self._asks)

    def look(self, is_removed: Callable[[Wanted], bool]) -> None:
        """Take the answers that have come.

        A feed that is being removed gets ``None`` as its answer: its registry may never come back. Raises
        what ``Framing.ask`` raises.
        """
        self.answers |= {feed_id: ask.result() for feed_id, ask in self._asks.items() if ask.done()}
        self.answers |= {feed.feed_id: None for feed in self._wanted if is_removed(feed)}

    async def wait(self, news: asyncio.Event, timeout_s: float | None) -> None:
        """Wait until one more registry has answered, ``news`` is set, or ``timeout_s`` seconds are over.

        ``None`` seconds are no limit.
        """
        came = asyncio.create_task(news.wait())
        asks = [ask for ask in self._asks.values() if not ask.done()]
        try:
            await asyncio.wait([*asks, came], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()

    def close(self) -> None:
        """Cancel the questions that have no answer yet."""
        for ask in self._asks.values():
            ask.cancel()
