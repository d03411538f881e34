"""Writes incidents of partitions, which somebody should look at, as lines of the driver's log."""

from __future__ import annotations

import json
import logging

_log = logging.getLogger("tidegate.spark")


def tell_incident(body: bytes) -> None:
    """Log an answer of the kind ``incident``."""
    incident = json.loads(body)
    _log.error(
        "log partition %d, offset %d: %s", incident["partition"], incident["offset"], incident["cause"]
    )
