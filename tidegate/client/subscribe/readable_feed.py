"""Checks whether a feed can be read by a consumer that needs complete rows."""

from __future__ import annotations

from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.envelopes.registry import form_of


def reading_fault(options: FeedOptions) -> str:
    """Return why the rows of a feed with these options do not tell all that a table of them needs.

    It is the end of a sentence; empty if they do.
    """
    if options.format is Format.CSV:
        return (
            "its rows tell neither their columns nor when they were committed; create it with format='json'"
        )
    fault = form_of(options.envelope).loading_fault(options)
    if fault:
        return fault
    if options.key_column:
        return "its keys are not those of its rows, and deletions do not tell theirs; leave key_column out"
    return ""


def subscribing_fault(options: FeedOptions) -> str:
    """Return why a feed with these options cannot be subscribed to, as the end of a sentence; empty if it
    can be.
    """
    fault = reading_fault(options)
    if not fault and options.resolved_interval_ns is None:
        return "it writes no markers, so nothing of it is known to be complete; create it WITH resolved"
    return fault
