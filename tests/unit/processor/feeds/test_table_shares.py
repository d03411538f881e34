"""The rows of a batch by table: a feed looks at the rows of its own tables, in the order of the log."""

from __future__ import annotations

from tests.hand_log import at
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.errors import RowError
from tidegate.processor.feeds.table_shares import Share, TableShares
from tidegate.processor.feeds.version_rows import Decoded, TableRowError
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version
from tidegate.rows import Row

_VERSIONS = [
    Version(b"", at(number), b"", None, False, RangeId(1), RaftIndex(number), 0) for number in range(6)
]
_ROWS: list[Decoded] = [
    Row(PLAIN.descriptor, (0,), None),
    Row(OTHER.descriptor, (1,), None),
    None,
    TableRowError(104, _VERSIONS[3], RowError("it is damaged")),
    Row(OTHER.descriptor, (4,), None),
    TableRowError(106, _VERSIONS[5], RowError("it is damaged")),
]


def _share(*places: int) -> Share:
    return Share([_VERSIONS[place] for place in places], [_ROWS[place] for place in places])


def test_a_feed_gets_the_rows_of_its_tables_and_no_others() -> None:
    shares = TableShares(_VERSIONS, _ROWS)
    for _ in range(2):
        assert shares.of([104]) == _share(0, 3)
        assert shares.of([105, 107]) == _share(1, 4)
        assert shares.of([104, 105]) == shares.of([105, 104]) == _share(0, 1, 3, 4)
        assert shares.of([107]) is None
    assert shares.of([104, 107]) is shares.of([104]), "feeds with the same tables get the same"


def test_a_feed_on_all_tables_gets_the_batch_as_it_is() -> None:
    whole = TableShares(_VERSIONS, _ROWS).of([106, 105, 104, 107])
    assert whole is not None
    assert whole.versions is _VERSIONS
    assert whole.rows is _ROWS
    assert TableShares(_VERSIONS, [None] * 6).of([104]) is None
