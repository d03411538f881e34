"""Transfers between accounts, on the topic of a feed that does all that a feed may do."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any, Final

from tests.unit.client.subscribe.hand_feed import HandFeed

ACCOUNTS: Final = 100
OPENING: Final = 1_000
TOTAL: Final = ACCOUNTS * OPENING
#: Transfers between two markers: more of them where there are many, for each marker is waited for.
_MARKED_TRANSFERS: Final = 20
_MOST_MARKERS: Final = 5_000


class BankTopic:
    """Writes whole transfers, each at a timestamp of its own.

    Rows of different accounts leave in any order, some come again, and partitions have their markers at
    different moments.
    """

    def __init__(self, feed: HandFeed, seed: int) -> None:
        self._feed = feed
        self._random = Random(seed)
        self._balances = dict.fromkeys(range(ACCOUNTS), OPENING)
        self._wall = 1
        self._waiting: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self._written: list[tuple[Any, ...]] = []
        for account in range(ACCOUNTS):
            self._set(account, None)
        self._write(everywhere=True)

    @property
    def last(self) -> int:
        """The timestamp of the last transfer."""
        return self._wall

    def transfer(self, count: int) -> None:
        """Make so many transfers, and mark the last one everywhere."""
        random = self._random
        marked = max(_MARKED_TRANSFERS, count // _MOST_MARKERS)
        for number in range(count):
            self._wall += 1
            source, target = random.sample(range(ACCOUNTS), 2)
            amount = random.randint(1, 100)
            for account, change in ((source, -amount), (target, amount)):
                before = self._balances[account]
                self._balances[account] += change
                self._set(account, before)
            if number % marked == 0:
                self._write()
        self._write(everywhere=True)

    def _set(self, account: int, before: int | None) -> None:
        row, old = (
            {"id": account, "balance": each, "note": ""} for each in (self._balances[account], before)
        )
        self._waiting[account % self._feed.partitions].append(
            (self._wall, account, row, None if before is None else old)
        )

    def _write(self, *, everywhere: bool = False) -> None:
        """Write what waits: rows of one account in their order, those of others in any."""
        for partition, rows in self._waiting.items():
            accounts = [account for _, account, *_ in rows]
            self._random.shuffle(accounts)
            of_account = {account: iter([row for row in rows if row[1] == account]) for account in accounts}
            for account in accounts:
                row = (partition, *next(of_account[account]))
                self._feed.write(*row)
                self._written = [*self._written[-50:], row]
            for row in self._random.sample(self._written, min(2, len(self._written))):
                self._feed.write(*row)  # it comes again
            rows.clear()
        partitions = [
            each for each in range(self._feed.partitions) if everywhere or self._random.random() < 0.7
        ]
        if partitions:
            self._feed.mark(self._wall, *partitions)
