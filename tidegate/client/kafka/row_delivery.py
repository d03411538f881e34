"""How librdkafka delivers rows (docs/delivery.md#rows): the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: A batch of rows for one partition has no more, but where it is one row.
BATCH_BYTES: Final = 1_000_000
#: In order, without gaps and without end: what every producer of rows has in its configuration.
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
