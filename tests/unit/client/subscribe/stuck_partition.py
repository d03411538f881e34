"""A process of its own in which rows wait behind a partition that stands still: how much memory they take.

    python -m tests.unit.client.subscribe.stuck_partition ROWS MEMORY_BYTES DIRECTORY

Prints, as JSON, by how many bytes the process has grown at most: while rows wait, and to the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client.subscribe.spill_files import SpillFiles
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.gate.spilled_rows import Spill

_BEGIN_NS: Final = 1_763_000_000_000_000_000
_POLLED_ROWS: Final = 2_500
_READ: Final = [FeedPartition("orders", number) for number in range(4)]
_STUCK: Final = FeedPartition("orders", 4)


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def marker(offset: int, wall: int) -> FeedRecord:
    """A marker."""
    return FeedRecord(offset, None, f'{{"resolved":"{Timestamp(wall).decimal()}"}}'.encode())


def polls(rows: int) -> Iterator[tuple[FeedPartition, RecordColumns]]:
    """Rows of 219 bytes, as polls bring them."""
    random = Random(5)
    next_offsets = dict.fromkeys(_READ, 1)
    for first in range(0, rows, _POLLED_ROWS):
        numbers = range(first, first + _POLLED_ROWS)
        keys: list[bytes | None] = [b"[%d]" % number for number in numbers]
        values: list[bytes | None] = [
            b'{"after": {"amount": "%d", "id": %d, "note": "%s"}, "updated": "%d.0000000000"}'
            % (random.randrange(10**6, 10**7), 10**7 + number, b"x" * 114, _BEGIN_NS + number)
            for number in numbers
        ]
        place = _READ[first // _POLLED_ROWS % len(_READ)]
        begin = next_offsets[place]
        next_offsets[place] += _POLLED_ROWS
        yield place, RecordColumns(list(range(begin, next_offsets[place])), keys, values, lambda _: ())


def main(rows: int, memory_bytes: int, directory: Path) -> None:
    """Let rows wait, then let them go."""
    files = SpillFiles(directory)
    decoder = JsonDecoder(Envelope.WRAPPED)
    gate = RowGate({"orders": decoder}, [*_READ, _STUCK], spill=Spill(files, memory_bytes))
    for place in (*_READ, _STUCK):
        gate.add_record(place, marker(0, _BEGIN_NS - 1))
    gate.open()
    began = peak_bytes()
    for place, records in polls(rows):
        gate.add_records(place, records)
    waiting, grown, disk = gate.waiting_rows, peak_bytes() - began, files.disk_bytes
    for place in (*_READ, _STUCK):
        gate.add_record(place, marker(10**9, _BEGIN_NS + rows))
    delivered = 0
    while (opening := gate.open()) is not None:
        delivered += len(opening.rows)
    told = {"waiting": waiting, "delivered": delivered, "disk": disk}
    print(json.dumps({**told, "while_waiting": grown, "in_all": peak_bytes() - began}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
