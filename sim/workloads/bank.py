"""Bank: transfers between accounts. After the opening the sum of the balances never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from sim.plan import ORDINARY, Outcome, OutcomeMix, SimTable, TransactionPlan, Write
from sim.workload_tables import declare_table, place_table
from tidegate.errors import SettingsError
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.table_codec import TableCodec

ACCOUNTS_TABLE_ID: Final = 104
OPENING_BALANCE: Final = 1_000
_LARGEST_TRANSFER: Final = 100
_PARTIES: Final = 3  # of a restarted transfer: the source, and one target in each epoch


@dataclass(frozen=True, slots=True)
class BankOptions:
    """The options of a bank: ``accounts`` is the number of rows, ``ranges`` that of the table's ranges."""

    accounts: int = 1_000
    ranges: int = 4
    outcomes: OutcomeMix = ORDINARY

    def __post_init__(self) -> None:
        if self.accounts < _PARTIES:
            raise SettingsError(f"a bank needs {_PARTIES} accounts, not {self.accounts}")


class Bank:
    """Opens all accounts in one transaction, then transfers money between two accounts at a time, without
    end.
    """

    def __init__(self, options: BankOptions, seed: int) -> None:
        self._options = options
        self._seed = seed
        self.codec = TableCodec(_accounts(ZERO))
        self._keys = [self.codec.encode_key((number, 0)) for number in range(options.accounts)]

    @property
    def total(self) -> int:
        """The sum of all balances, at any time after the opening."""
        return self._options.accounts * OPENING_BALANCE

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``: the table accounts(id, balance)."""
        accounts, ranges = self._options.accounts, self._options.ranges
        splits = [self._keys[part * accounts // ranges] for part in range(1, ranges)]
        return [place_table(_accounts(modified), splits)]

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``."""
        rng = Random(self._seed)
        opening = (self.codec.encode((account, OPENING_BALANCE)) for account in range(len(self._keys)))
        yield TransactionPlan(tuple(Write(key, value) for key, value in opening), alone=True)
        while True:
            yield self._transfer(rng)

    def _transfer(self, rng: Random) -> TransactionPlan:
        source, target, other = rng.sample(range(len(self._keys)), _PARTIES)
        amount = rng.randint(1, _LARGEST_TRANSFER)
        outcome = self._options.outcomes.choose(rng)
        if outcome is Outcome.RESTART:
            return TransactionPlan(
                self._move(source, target, amount), outcome, self._move(source, other, amount)
            )
        return TransactionPlan(self._move(source, target, amount), outcome)

    def _move(self, source: int, target: int, amount: int) -> tuple[Write, Write]:
        transfer = _Transfer(self.codec, amount)
        return (
            Write(self._keys[source], partial(transfer.withdraw, source)),
            Write(self._keys[target], partial(transfer.deposit, target)),
        )


class _Transfer:
    """Moves as much of ``amount`` as the source has. At every try the withdrawal runs before the deposit."""

    __slots__ = ("_amount", "_codec", "_moved")

    def __init__(self, codec: TableCodec, amount: int) -> None:
        self._codec = codec
        self._amount = amount
        self._moved = 0

    def withdraw(self, account: int, standing: bytes | None) -> bytes:
        balance = self._balance(account, standing)
        self._moved = min(self._amount, balance)
        return self._codec.encode((account, balance - self._moved))[1]

    def deposit(self, account: int, standing: bytes | None) -> bytes:
        return self._codec.encode((account, self._balance(account, standing) + self._moved))[1]

    def _balance(self, account: int, standing: bytes | None) -> int:
        assert standing is not None, f"account {account} was never opened"
        return balance_of(self._codec, self._codec.encode_key((account, 0)), standing)


def balance_of(codec: TableCodec, key: bytes, value: bytes) -> int:
    """Return the balance in a row of accounts."""
    row = codec.decode(key, value)
    assert row is not None
    assert row.values is not None
    balance = row.values[1]
    assert isinstance(balance, int)
    return balance


def _accounts(modified: Timestamp) -> TableDescriptor:
    columns = (("id", "INT"), ("balance", "INT"))
    return declare_table(ACCOUNTS_TABLE_ID, "accounts", columns, ("id",), modified)
