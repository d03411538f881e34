"""Ops in sentences: what they are and where, and no values."""

from __future__ import annotations

import pytest

from tests.hand_log import at, txn
from tidegate.logcheck.op_text import op_text
from tidegate.raftlog.entry import CommitIntent, DeleteRange, UpdateIntent, WriteIntent, WriteValue

_AT = at(1)
_LONG = b"\xf0" * 500_000


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (WriteValue(b"\xf0\x89", _AT, _LONG, _LONG), f"WriteValue of key f089 at {_AT}"),
        (CommitIntent(txn(5), b"\xf0\x89", _AT, _LONG), f"CommitIntent of key f089 at {_AT}"),
        (WriteIntent(txn(5), _LONG, _AT, _AT), f"WriteIntent of transaction {txn(5).hex()} at {_AT}"),
        (UpdateIntent(txn(5), _AT), f"UpdateIntent of transaction {txn(5).hex()} at {_AT}"),
        (DeleteRange(b"\xf0", b"\xf1", _AT), f"DeleteRange of keys from f0 on at {_AT}"),
        (WriteValue(_LONG, _AT, b""), f"WriteValue of key {'f0' * 40}... at {_AT}"),
    ],
)
def test_an_op_is_described_without_its_value(op: WriteValue, text: str) -> None:
    assert op_text(op) == text
