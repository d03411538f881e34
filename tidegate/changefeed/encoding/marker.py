"""The resolved marker: the record which says that no unseen row at or below a timestamp will follow.

A marker has no key. It goes to every partition of every topic of its feed, unless the feed has a topic for
markers (``resolved_topic``). Another printer writes it than rows (Go's standard one), so its text has no
spaces. Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.record_encoder import MarkerEncoder
from tidegate.hlc import ResolvedTimestamp

#: Envelopes whose values have members of their own, so that ``resolved`` can be one of them.
MARKER_AS_MEMBER: Final = frozenset({Envelope.WRAPPED, Envelope.ENRICHED, Envelope.DEBEZIUM})


def json_marker(options: FeedOptions) -> MarkerEncoder:
    """Return the encoder of a feed's markers in JSON."""
    return MarkerEncoder(partial(marker_value, envelope=options.envelope))


def marker_value(resolved: ResolvedTimestamp, envelope: Envelope) -> bytes:
    """Return a marker's value: ``{"resolved":"1.0000000002"}``, under ``__crdb__`` in envelopes of plain
    rows.

    Raises ``ValueError`` for zero: a feed that has resolved nothing writes no marker.
    """
    if resolved.wall <= 0:
        raise ValueError(f"a marker cannot say {resolved.decimal()}: nothing is resolved yet")
    member = f'{{"resolved":"{resolved.decimal()}"}}'
    if envelope in MARKER_AS_MEMBER:
        return member.encode()
    return f'{{"__crdb__":{member}}}'.encode()
