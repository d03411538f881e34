"""A process of its own that is given a snapshot of one timestamp: how much memory it takes.

    python -m tests.unit.client.subscribe.large_snapshot ROWS MEMORY_BYTES DIRECTORY [--whole] [--joint]

Prints, as JSON, by how many bytes the process has grown at most, and how the snapshot came: in chunks, or
``--whole`` as one batch. With ``--joint`` the rows are those of three tables that are subscribed to together.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.unit.client.subscribe.stuck_partition import marker, peak_bytes
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client.subscribe.spill_files import SpillFiles
from tidegate.hlc import Timestamp
from tidegate.subscribe import Relation, Relations, parse_subscribe, plan_subscribe
from tidegate.subscribe.gate.feed_record import FeedPartition, RecordColumns
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.joint_subscription import JointMember, JointSubscription
from tidegate.subscribe.subscription import Subscription, SubscriptionSource

_SCAN_NS: Final = 1_763_000_000_000_000_000
_POLLED_ROWS: Final = 2_500
_PARTITIONS: Final = 4
_TABLES: Final = 3
_RELATION: Final = Relation(TableName("orders"), ("amount", "id", "note"), ("id",))


def places_of(tables: int) -> list[FeedPartition]:
    """The partitions of so many topics."""
    return [
        FeedPartition(f"orders{table}", number) for number in range(_PARTITIONS) for table in range(tables)
    ]


def polls(rows: int, places: Sequence[FeedPartition]) -> Iterator[tuple[FeedPartition, RecordColumns]]:
    """Rows of 219 bytes of one timestamp, as polls bring them."""
    random = Random(5)
    offsets = dict.fromkeys(places, 0)
    for first in range(0, rows, _POLLED_ROWS):
        numbers = range(first, min(first + _POLLED_ROWS, rows))
        keys: list[bytes | None] = [b"[%d]" % number for number in numbers]
        values: list[bytes | None] = [
            b'{"after": {"amount": "%d", "id": %d, "note": "%s"}, "updated": "%d.0000000000"}'
            % (random.randrange(10**6, 10**7), number, b"x" * 120, _SCAN_NS)
            for number in numbers
        ]
        place = places[first // _POLLED_ROWS % len(places)]
        begin = offsets[place]
        offsets[place] += len(numbers)
        yield place, RecordColumns(list(range(begin, offsets[place])), keys, values, lambda _: ())


def joint_subscription(tables: int, as_of: Timestamp, chunks: Spill | None) -> JointSubscription:
    """The subscription of so many tables, as `shared_reading` opens it."""
    plan = plan_subscribe(parse_subscribe("SUBSCRIBE orders"), Relations([_RELATION]), 0)
    source = SubscriptionSource(tells_before=True)
    members = {}
    for table in range(tables):
        subscription = Subscription(plan, as_of, source, chunks=chunks, chunks_apart=tables > 1)
        members[f"{table}"] = JointMember(subscription, f"orders{table}")
    return JointSubscription(members)


def main(rows: int, memory_bytes: int, directory: Path, *, in_chunks: bool, tables: int) -> None:
    """Read the scan, then take the snapshot as a consumer does that keeps nothing of it."""
    files = SpillFiles(directory)
    as_of = Timestamp(_SCAN_NS)
    start = GateStart(parts_up_to=as_of) if in_chunks else GateStart()
    places = places_of(tables)
    decoders = {place.topic: JsonDecoder(Envelope.WRAPPED) for place in places}
    gate = RowGate(decoders, places, start, spill=Spill(files, memory_bytes))
    chunks = Spill(files, memory_bytes // tables) if in_chunks else None
    subscription = joint_subscription(tables, as_of, chunks)
    began = peak_bytes()
    for place, records in polls(rows, places):
        gate.add_records(place, records)
    waited = peak_bytes() - began
    for place in places:
        gate.add_record(place, marker(10**9, _SCAN_NS + 1))
    delivered = batches = largest = 0
    while (opening := gate.open()) is not None:
        batch = subscription.advance(opening, gate.offsets())
        while batch is not None:
            batches += 1
            given = sum(len(member.rows) for member in batch.members.values())
            delivered += given
            largest = max(largest, given)
            batch = subscription.following()
    told = {"delivered": delivered, "batches": batches, "largest": largest, "while_waiting": waited}
    used = resource.getrusage(resource.RUSAGE_SELF)
    told |= {"in_all": peak_bytes() - began, "disk": files.disk_bytes}
    print(json.dumps({**told, "cpu_s": round(used.ru_utime + used.ru_stime, 1)}))


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        Path(sys.argv[3]),
        in_chunks="--whole" not in sys.argv,
        tables=_TABLES if "--joint" in sys.argv else 1,
    )
