"""A marker: the record which says that no unseen row at or below a resolved timestamp will follow.

A marker has no key. It goes to every partition of every topic of its feed, unless the feed has a topic for
markers (``resolved_topic``). In CockroachDB Go's standard printer writes markers, and another one writes
rows. So a marker's text has no spaces. Source: CockroachDB ``pkg/ccl/changefeedccl/encoder_json.go``.
"""

from __future__ import annotations

from functools import partial

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.envelopes.registry import form_of
from tidegate.changefeed.encoding.record_encoder import MarkerEncoder
from tidegate.hlc import ResolvedTimestamp


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
    if form_of(envelope).marker_as_member:
        return member.encode()
    return f'{{"__crdb__":{member}}}'.encode()
