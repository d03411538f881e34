"""The settings with which librdkafka delivers rows (docs/protocols/rows.md): the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: The most bytes of a batch of rows for one partition, unless the batch is a single larger row.
BATCH_BYTES: Final = 1_000_000
#: The configuration of every row producer: rows in order, without gaps, and without expiry.
ROW_DELIVERY: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "max.in.flight.requests.per.connection": 5,
    "message.timeout.ms": 0,  # no expiry: it would reorder a key
    "batch.size": BATCH_BYTES,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 512 << 10,
}
