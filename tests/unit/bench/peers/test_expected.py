"""The expected rows are what tidegate's reference writes, and any other byte is found."""

from __future__ import annotations

import pytest

from bench.peers.expected import Expected
from bench.peers.row_before import with_row_before, without_row_before
from bench.workload import updates_log
from tidegate.errors import RetryError

_ROWS = 3_000
_PARTITIONS = 2


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.of(updates_log(_ROWS, _PARTITIONS, 1), _PARTITIONS)


def test_the_job_of_the_peers_gives_the_bytes_of_a_feed_with_the_row_before(expected: Expected) -> None:
    assert len(expected.rows) == _ROWS
    newest: dict[bytes, bytes] = {}
    for row in expected.rows:
        value, newest[row.key] = with_row_before(without_row_before(row.value), newest.get(row.key))
        assert value == row.value


def test_all_rows_or_the_first_of_them_are_as_expected(expected: Expected) -> None:
    written = [(row.key, row.value) for row in expected.rows]
    assert expected.compare("one", written) == _ROWS
    assert expected.compare("one", written[:1_000]) == 1_000


def test_another_byte_a_row_too_many_and_another_order_are_found(expected: Expected) -> None:
    written = [(row.key, row.value) for row in expected.rows]
    key, value = written[0]
    with pytest.raises(RetryError, match="one wrote other bytes: row 0 of the key"):
        expected.compare("one", [(key, value + b" ")])
    with pytest.raises(RetryError, match="and should be b'no row'"):
        expected.compare("one", [*written, written[-1]])
    swapped = [(key, each) for each in reversed(expected.values[key])] * 2
    with pytest.raises(RetryError, match="wrote other bytes"):
        expected.compare("one", swapped)
