"""Readers of a range's feeds as the cases have them: eager, blocked, or failing."""

from __future__ import annotations

from tidegate.rangefeed.event import FeedEvent, ValueEvent
from tidegate.rangefeed.feed_end import EndReason, FeedEnd
from tidegate.rangefeed.registration import Registration


class FeedReader:
    """Takes a feed's events as soon as there are any, unless the case says otherwise.

    A blocked reader has the next event in hand and is not done with it: so it keeps one more event from
    waiting than fit into the feed's buffer, like a stream whose send does not return.
    """

    def __init__(self, feed: Registration, *, running: bool) -> None:
        self.feed = feed
        self.received: list[FeedEvent] = []
        self.running = running
        self.blocked = False
        #: Blocks with the event in hand that makes it so many values.
        self.block_after_values: int | None = None
        self.fail_next_send: str | None = None
        self._in_hand: FeedEvent | None = None
        self._values = 0

    def block(self) -> None:
        self.blocked = True

    def unblock(self) -> None:
        self.blocked = False
        self.block_after_values = None
        if self._in_hand is not None:
            self.received.append(self._in_hand)
            self._in_hand = None

    def read(self) -> bool:
        """Take one event if that is possible; returns whether it was."""
        if not self.running or self._in_hand is not None:
            return False
        events = self.feed.take(1)
        for event in events:
            self._receive(event)
        return bool(events)

    def forget(self) -> None:
        """Forget the events so far: they were looked at."""
        self.received.clear()

    def _receive(self, event: FeedEvent) -> None:
        if self.fail_next_send is not None:
            self.feed.end(FeedEnd(EndReason.FAILED, self.fail_next_send))
            return
        self._values += isinstance(event, ValueEvent)
        if self.block_after_values is not None and self._values >= self.block_after_values:
            self.blocked = True
        if self.blocked:
            self._in_hand = event
        else:
            self.received.append(event)
