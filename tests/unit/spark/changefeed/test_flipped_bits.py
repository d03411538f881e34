"""Files of a query with any one bit flipped are refused with what to do: none is misread."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from pyarrow import fs

from tests.examples import USUAL
from tests.unit.processor.stored_states import GOLDEN
from tidegate.errors import StateError
from tidegate.processor.batch import StateTable
from tidegate.spark.changefeed.checkpoint import QueryIdentity, checkpoint_at
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.platform.store_access import StoreAccess

_SEED: Final = 8
#: How many bits of a file are flipped in `make test`; in longer runs all of them are.
_SAMPLE: Final = 400
_ROUND: Final = Round(
    RoundId(4, 1), instructions={0: Instructions((Told(7, b"one"),), (Told(9, b"two"),), everything=True)}
)
_ACCOUNT: Final = Account({0: "0000000004-00001-abcdefab", 2: "b"}, 7, {0: 3})
_IDENTITY: Final = QueryIdentity("app", "raftlog", "log-1", 3, "jobs-1")
_ROWS: Final = {(StateTable.RANGES, b"a"): GOLDEN.read_bytes()[:200], (StateTable.FEEDS, b"b"): b"row"}


def _ledger(root: Path) -> Ledger:
    return Ledger(fs.LocalFileSystem(), str(root))


def _files(root: Path) -> StateFiles:
    return StateFiles(fs.LocalFileSystem(), str(root), 0)


def _write_state(root: Path) -> None:
    _files(root).write("0", "", _ROWS)
    _files(root).write("1", "0", {(StateTable.RANGES, b"a"): b"later"})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("path", "write", "read", "expected"),
    [
        (
            "rounds/0000000004-00001.json",
            lambda root: _ledger(root).tell(_ROUND),
            lambda root: _ledger(root).told(_ROUND.id),
            _ROUND,
        ),
        (
            "batches/0000000004.json",
            lambda root: _ledger(root).close_batch(4, _ACCOUNT),
            lambda root: _ledger(root).account(4),
            _ACCOUNT,
        ),
        (
            "tidegate/query.json",
            lambda root: checkpoint_at(str(root), StoreAccess()).claim(_IDENTITY),
            lambda root: checkpoint_at(str(root), StoreAccess()).require(_IDENTITY),
            True,
        ),
        ("state/0/0.arrow", _write_state, lambda root: _files(root).load("0").rows, _ROWS),
        ("state/0/1.arrow", _write_state, lambda root: _files(root).load("1").base, "0"),
        ("state/0/1.arrow", _write_state, lambda root: _files(root).require("1"), None),
    ],
    ids=["a round", "an account", "whose it is", "all rows", "changed rows", "a head"],
)
def test_a_file_with_any_one_bit_flipped_is_refused(
    tmp_path: Path,
    path: str,
    write: Callable[[Path], None],
    read: Callable[[Path], object],
    expected: object,
) -> None:
    write(tmp_path)
    assert read(tmp_path) == expected
    file = tmp_path / path
    whole = file.read_bytes()
    bits = range(8 * len(whole))
    chosen = bits if settings().max_examples > USUAL else random.Random(_SEED).sample(bits, _SAMPLE)
    for at in chosen:
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        file.write_bytes(flipped)
        with pytest.raises(StateError, match=r"is torn or damaged.*start on a new checkpoint directory"):
            print(f"seed {_SEED}, bit {at} of {path}:", read(tmp_path))


def test_files_of_before_are_read(tmp_path: Path) -> None:
    _write_state(tmp_path)
    for name in ("0", "1"):
        file = tmp_path / f"state/0/{name}.arrow"
        file.write_bytes(file.read_bytes()[48:])
        assert file.read_bytes().startswith(b"ARROW1")
    assert _files(tmp_path).load("1").rows == {**_ROWS, (StateTable.RANGES, b"a"): b"later"}
    _ledger(tmp_path)
    (tmp_path / "batches/0000000000.json").write_text(
        '{"controls": 7, "exchanges": {"0": 3}, "heads": {"0": "a"}, "version": 1}'
    )
    assert _ledger(tmp_path).account(0) == Account({0: "a"}, 7, {0: 3})
