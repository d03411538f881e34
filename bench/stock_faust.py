"""A stock Faust worker whose agent forwards each event. tidegate's worker is compared with it.

``BENCH_BOOTSTRAP``, ``BENCH_SOURCE`` and ``BENCH_TARGET`` name broker and topics;
``python -m faust -A bench.stock_faust:app worker`` runs it.
"""

from __future__ import annotations

import os
from typing import Any

import faust

_SOURCE = os.environ.get("BENCH_SOURCE", "source")
_TARGET = os.environ.get("BENCH_TARGET", "target")

app = faust.App(
    f"{_SOURCE}-stock-faust",
    broker=f"kafka://{os.environ.get('BENCH_BOOTSTRAP', '127.0.0.1:9092')}",
    store="memory://",
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    topic_allow_declare=False,
    topic_disable_leader=True,
    key_serializer="raw",
    value_serializer="raw",
)
_RAW: dict[str, Any] = {
    "key_type": bytes,
    "value_type": bytes,
    "key_serializer": "raw",
    "value_serializer": "raw",
}
source = app.topic(_SOURCE, **_RAW)
target = app.topic(_TARGET, **_RAW)


@app.agent(source)  # type: ignore[untyped-decorator]  # Faust has no annotations that mypy sees
async def forward(stream: Any) -> None:
    """Forward each event."""
    async for event in stream.events():
        await event.forward(target)
