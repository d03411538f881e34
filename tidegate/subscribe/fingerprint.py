"""The fingerprint of a subscription. A subscription refuses tokens of another fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.statement.canonical_text import query_text

_DIGITS: Final = 32


def fingerprint(plan: SubscribePlan, source: str = "") -> str:
    """Return the fingerprint that a token must share with the subscription that it resumes: 32 hex digits.

    It is a hash of the table, the query, the columns, and the envelope with its key. Bounds, PROGRESS,
    SNAPSHOT, the order within a timestamp and the dialect may change between two runs. ``source`` is the feed
    that is read. Earlier versions did not reduce keys. If the keys of a table are reduced, its fingerprint
    differs from the one that these versions made, so their tokens are refused.
    """
    shape = plan.shape
    parts: dict[str, Any] = {
        "columns": shape.columns,
        "key": [shape.columns[at] for at in shape.key],
        "mode": "diffs" if not shape.key else shape.mode.value,
        "query": "" if plan.query is None else query_text(plan.query),
        "relation": plan.relation.name.to_json(),
        "source": source,
    }
    if plan.relation.composite:  # older tokens are refused: deletions of these tables were lost then
        parts["keys"] = "reduced"
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
