"""The driver's account: what a batch left behind, and what its rounds were told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from tests.unit.spark.hdfs import Hdfs, WriterDied
from tidegate.errors import StateError
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told, read_round

_TOLD = st.lists(st.builds(Told, st.integers(0, 2**60), st.binary(max_size=9)), max_size=3).map(tuple)
_ROUNDS = st.builds(
    Round,
    st.builds(RoundId, st.integers(0, 2**40), st.integers(0, 2**20)),
    st.booleans(),
    st.dictionaries(st.integers(0, 99), st.builds(Instructions, _TOLD, _TOLD, st.booleans()), max_size=3),
)


def _ledger(root: Path) -> Ledger:
    return Ledger(fs.LocalFileSystem(), str(root))


@given(_ROUNDS)
def test_a_round_is_read_as_it_was_stored(round_: Round) -> None:
    assert read_round(round_.to_bytes(), "here") == round_


def test_a_round_that_is_torn_is_refused_wherever_it_is_torn() -> None:
    whole = Round(RoundId(1, 2), instructions={0: Instructions(controls=(Told(3, b"four"),))}).to_bytes()
    for length in range(len(whole)):
        with pytest.raises(StateError, match="rounds/1 is torn"):
            read_round(whole[:length], "rounds/1")


def test_rounds_sort_by_name_as_they_follow_each_other() -> None:
    rounds = [RoundId(batch, number) for batch in (0, 9, 10, 123_456) for number in (0, 9, 10, 1_234)]
    assert sorted(rounds, key=lambda each: each.name) == rounds


def test_what_a_round_was_told_is_found_again(tmp_path: Path) -> None:
    round_ = Round(RoundId(4, 1), instructions={0: Instructions(everything=True)})
    _ledger(tmp_path).tell(round_)
    again = _ledger(tmp_path)
    assert again.told(RoundId(4, 1)) == round_
    assert again.told(RoundId(4, 2)) is None


def test_two_drivers_run_the_round_that_was_stored_first(tmp_path: Path) -> None:
    first = Round(RoundId(4, 1), instructions={0: Instructions(controls=(Told(3, b"a feed"),))})
    later = Round(RoundId(4, 1), instructions={0: Instructions(controls=(Told(3, b"another"),))})
    one, other = _ledger(tmp_path), _ledger(tmp_path)
    assert one.tell_first(first) == first
    assert other.tell_first(later) == first
    other.tell(later)
    assert one.tell_first(first) == later


def test_a_driver_that_dies_while_it_replaces_a_round_on_hdfs_leaves_the_round_whole(tmp_path: Path) -> None:
    """A round that is not found would be made anew, with other messages than tasks have had."""
    hdfs = Hdfs()

    def dies(amended: Round) -> None:
        hdfs.deadly = True
        with pytest.raises(WriterDied):
            Ledger(hdfs, str(tmp_path)).tell(amended)
        hdfs.deadly = False

    first = Round(RoundId(5, 0), records=True)
    second = Round(RoundId(5, 0), records=True, instructions={0: Instructions(controls=(Told(3, b"end"),))})
    third = Round(RoundId(5, 0), records=True, instructions={1: Instructions(controls=(Told(4, b"end"),))})
    Ledger(hdfs, str(tmp_path)).tell_first(first)
    dies(second)
    assert Ledger(hdfs, str(tmp_path)).told(RoundId(5, 0)) == second
    dies(third)
    assert Ledger(hdfs, str(tmp_path)).told(RoundId(5, 0)) == second, "there is no other copy of it"
    Ledger(hdfs, str(tmp_path)).tell(third)
    assert Ledger(hdfs, str(tmp_path)).told(RoundId(5, 0)) == third


def test_a_driver_that_dies_while_it_replaces_an_account_on_hdfs_leaves_it_whole(tmp_path: Path) -> None:
    hdfs = Hdfs()
    Ledger(hdfs, str(tmp_path)).close_batch(5, Account({0: "a"}))
    hdfs.deadly = True
    with pytest.raises(WriterDied):
        Ledger(hdfs, str(tmp_path)).close_batch(5, Account({0: "b"}))
    hdfs.deadly = False
    assert Ledger(hdfs, str(tmp_path)).account(5) == Account({0: "b"})


def test_an_account_is_read_as_it_was_stored(tmp_path: Path) -> None:
    account = Account({0: "a", 11: "b"}, 7, {11: 3})
    _ledger(tmp_path).close_batch(5, account)
    assert _ledger(tmp_path).account(5) == account


def test_before_the_first_batch_nothing_is_true(tmp_path: Path) -> None:
    assert _ledger(tmp_path).account(-1) == Account()


def test_an_account_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"batches/0000000006\.json is missing"):
        _ledger(tmp_path).account(6)


def test_a_round_of_a_version_beyond_all_floats_is_torn() -> None:
    with pytest.raises(StateError, match="rounds/1 is torn"):
        read_round(b'{"version": 1e999, "id": [0, 0]}', "rounds/1")


def test_an_account_that_is_torn_is_named(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    ledger.close_batch(0, Account({0: "a"}))
    path = tmp_path / "batches/0000000000.json"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateError, match=r"batches/0000000000\.json is torn"):
        ledger.account(0)


def test_the_last_batches_are_kept_with_their_rounds(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    for batch in range(5):
        ledger.tell(Round(RoundId(batch, 0), records=True))
        ledger.close_batch(batch, Account({0: str(batch)}))
    assert [batch for batch in range(5) if ledger.told(RoundId(batch, 0)) is not None] == [3, 4]
    assert ledger.account(3) == Account({0: "3"})
    with pytest.raises(StateError):
        ledger.account(2)
