"""States of a partition that have every kind of row, and the file of their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.feeds import activation
from tests.hand_log import HandLog
from tests.unit.processor.driving import Driven, StoredState, active
from tests.unit.processor.logs import OTHER, PLAIN, eventful_log
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Activate, Register
from tidegate.processor.bounds import RecordBounds
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state.row_pieces import is_later_piece
from tidegate.processor.state.state_codec import is_chunk_key
from tidegate.raftlog.request import Scan
from tidegate.rows.table_key import index_span

GOLDEN: Final = Path(__file__).parent / "golden" / "stored.tsv"


def _with_primary_keys(feed: Activate) -> Activate:
    targets = (replace(target, spans=(index_span(target.table_id, 1),)) for target in feed.targets)
    return replace(feed, targets=tuple(targets))


#: Its targets have the keys that were stored with it: those of the primary indexes.
FEED: Final = _with_primary_keys(activation([PLAIN.descriptor, OTHER.descriptor]))
LOG: Final = eventful_log()


def held() -> Driven:
    """A partition that has read nothing, with a feed that runs and one that waits for its start."""
    driven = active(FEED)
    driven.control(Register(replace(FEED.definition, id=FeedId("waits"))))
    return driven


def stepped(records: int) -> Driven:
    driven = active(FEED)
    driven.run(LOG[:records])
    return driven


def amid_a_snapshot() -> Driven:
    """The last moment at which a snapshot is incomplete."""
    cuts = (stepped(count) for count in range(len(LOG), 0, -1))
    return next(cut for cut in cuts if any(is_chunk_key(key) for _, key in cut.state))


def healing() -> Driven:
    """A range that has split while it was scanned: keys that no scan came to, and keys that one did."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken = log.open_range(1, PLAIN.span)
    broken.apply(PLAIN.put(5, 1, "before"), close=6)
    broken.index += 1  # index lost: a hole
    broken.apply(PLAIN.put(8, 1, "lost"), close=6)
    broken.snapshot(close=9, high=8)
    driven = active(FEED)
    driven.run(log.partitions[0])
    (scan,) = (request for request in driven.results[-1].requests if isinstance(request, Scan))
    broken.scanned(scan, span=PLAIN.split(50)[0], last=False)
    broken.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.split(PLAIN.key(100), 2, close=11)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    return driven


def states() -> dict[str, StoredState]:
    """The states of the golden file, by place."""
    return {
        "held": held().state,
        "amid": amid_a_snapshot().state,
        "end": stepped(len(LOG)).state,
        "healing": healing().state,
    }


def _in_pieces() -> StoredState:
    """A state with rows that are larger than a record may be."""
    config = ProcessorConfig(bounds=RecordBounds(400))
    driven = Driven(PartitionProcessor(0, 1, config))
    driven.control(activation([PLAIN.descriptor, OTHER.descriptor]))
    driven.run(eventful_log()[:8], batch=1)
    assert any(is_later_piece(key, value) for (_, key), value in driven.state.items())
    return driven.state


STATES: Final = {**states(), "pieces": _in_pieces()}
