"""Runs a query over the log of the worker beside it, kills it in the midst of a batch, and writes its state.

    python .../tests/stored_state/in_old_tree.py . write_spark DIRECTORY     (in the older checkout)

``DIRECTORY`` has what ``write.py`` wrote. The README beside this file says what this is for.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.stored_state.archives import pack
from tests.stored_state.rounds import HOME_SERVERS, DriverDied, QueryOverLog, feeds_of
from tests.stored_state.stored import HOME, PARTITIONS, TOPICS, Place, Stored
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.hlc import Timestamp

_BATCHES: Final = 8
#: The first batch in which the other cluster takes no rows.
_STANDS_FROM: Final = 4


def main(directory: Path) -> None:
    """Run, and write."""
    stored = Stored(directory)
    feeds = feeds_of(stored)
    ends = [stored.ends[Place(HOME, TOPICS.log, number)] for number in range(PARTITIONS)]
    complete_to = Timestamp(0)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        query = QueryOverLog(Path(name), KafkaConnection(HOME_SERVERS), patch)
        for batch in range(_BATCHES):
            if batch == 0:
                query.due = [feeds["home"], feeds["away"]]
            elif batch == _STANDS_FROM:
                query.clients.room = 3
                complete_to = _complete_to(query)
            elif batch == _BATCHES - 1:
                query.due, query.dies = [feeds["scan"]], True
            parts = [slice(end * batch // _BATCHES, end * (batch + 1) // _BATCHES) for end in ends]
            try:
                query.run(batch, stored.log, parts)
            except DriverDied:
                pack(Path(name), directory / "query.tar.xz")
    lines = [{"kind": "batch", "number": _BATCHES - 1, "parts": [[part.start, part.stop] for part in parts]}]
    left_behind = {"kind": "left behind", "feeds": sorted(query.left_behind)}
    lines.append(left_behind | {"complete_to": list(complete_to)})
    for row in query.rows:
        key, value = row.key.hex(), None if row.value is None else row.value.hex()
        headers = [[name, text.hex()] for name, text in row.headers]
        lines.append(
            {"kind": "row", "row": [row.topic, row.partition, key, value, row.timestamp_ms, headers]}
        )
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (directory / "query.jsonl.xz").write_bytes(lzma.compress(text.encode()))


def _complete_to(query: QueryOverLog) -> Timestamp:
    """The lowest timestamp that a live range has resolved."""
    resolved = {item.range_id: item.resolved for said in query.checkpoints for item in said.ranges}
    ended = {range_id for said in query.checkpoints for range_id in said.ended}
    return min(at for range_id, at in resolved.items() if range_id not in ended)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
