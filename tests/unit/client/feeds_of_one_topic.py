"""A feed that has the topic ``plain``, on any sink."""

from __future__ import annotations

from dataclasses import replace

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedDefinition

OTHER = activation([HandTable.of(104, "plain").descriptor], feed_id="other")


def definition(sink_uri: str) -> FeedDefinition:
    return replace(OTHER.definition, sink_uri=sink_uri)
