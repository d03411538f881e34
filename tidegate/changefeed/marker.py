"""The resolved marker: the record that says that no unseen row at or below a timestamp will follow.

A marker has no key and goes to every partition of every topic of its feed. Its text comes from another
printer than the rows' (Go's standard one), so it has no spaces. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``.
"""

from __future__ import annotations

from tidegate.changefeed.options import Envelope
from tidegate.hlc import ResolvedTimestamp


def marker_value(resolved: ResolvedTimestamp, envelope: Envelope) -> bytes:
    """The marker's value: ``{"resolved":"1.0000000002"}``, under ``__crdb__`` but for wrapped.

    Raises ``ValueError`` for zero: a feed that has resolved nothing has nothing to say.
    """
    if resolved.wall <= 0:
        raise ValueError(f"a marker cannot say {resolved.decimal()}: nothing is resolved yet")
    member = f'{{"resolved":"{resolved.decimal()}"}}'
    if envelope is Envelope.WRAPPED:
        return member.encode()
    return f'{{"__crdb__":{member}}}'.encode()
