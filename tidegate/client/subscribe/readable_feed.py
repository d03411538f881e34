"""Which feeds a consumer of complete rows can read."""

from __future__ import annotations

from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format

_ENVELOPES = frozenset({Envelope.WRAPPED, Envelope.ENRICHED, Envelope.DEBEZIUM})


def subscribing_fault(options: FeedOptions) -> str:
    """Return why a feed with these options cannot be subscribed to, as the end of a sentence; empty if it
    can be.
    """
    if options.format is Format.CSV:
        return (
            "its rows tell neither their columns nor when they were committed; create it with format='json'"
        )
    if options.envelope not in _ENVELOPES:
        return (
            f"records of envelope='{options.envelope.value}' do not tell of every change when it was"
            " committed, and what it is; create it with envelope='wrapped' and updated"
        )
    if options.envelope is Envelope.DEBEZIUM and (options.format is Format.AVRO or options.connect_schema):
        return "its values have Kafka Connect's types; create it without a schema, or with envelope='wrapped'"
    if options.envelope is not Envelope.DEBEZIUM and not options.updated:
        return "its rows do not tell when they were committed; create it WITH updated"
    if options.key_column:
        return "its keys are not those of its rows, and deletions do not tell theirs; leave key_column out"
    if options.resolved_interval_ns is None:
        return "it writes no markers, so nothing of it is known to be complete; create it WITH resolved"
    return ""
