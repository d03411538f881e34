"""The reasons, common to several envelopes, for which the warehouse loader cannot read a feed."""

from __future__ import annotations

from tidegate.changefeed.definition.options import FeedOptions


def without_updated(options: FeedOptions) -> str:
    """Return a fault unless rows have their commit's timestamp, in ``updated`` or ``source.ts_hlc``."""
    return "" if options.updated else "its rows do not tell when they were committed; create it WITH updated"


def untold_changes(options: FeedOptions) -> str:
    """Return the fault of envelopes whose records may not tell when a change was committed, or its kind."""
    return (
        f"records of envelope='{options.envelope.value}' do not tell of every change when it was"
        " committed, and what it is; create it with envelope='wrapped' and updated"
    )
