"""Reports foreign records of the application's own topics, if the feed may wait for records that they
replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from tidegate.changefeed.definition.feed import LIVE, FeedState
from tidegate.client.why.evidence import Evidence
from tidegate.client.why.finding import SEVERAL, Cause, Finding

#: Foreign records of topics with this ending do no harm, since state has digests.
_HARMLESS: Final = "-changelog"


def with_foreign(evidence: Evidence, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, followed by foreign records that may be the reason. If the feed waits for nothing,
    these are left out.
    """
    waits = evidence.feed.status in (*LIVE, FeedState.PENDING)
    if not waits or findings[0].cause is Cause.NOTHING:
        return [*findings]
    return [*findings, *islice(_foreign(evidence), SEVERAL)]


def _foreign(evidence: Evidence) -> Iterator[Finding]:
    for each in evidence.workers.foreign:
        if not each.topic.endswith(_HARMLESS):
            count = "A record" if each.records == 1 else f"{each.records} records"
            yield Finding(
                Cause.FOREIGN,
                f"{count} of {each.topic} {'was' if each.records == 1 else 'were'} passed over by the worker "
                f"{each.worker}, the last one in partition {each.partition} at offset {each.offset}: "
                f"{each.cause}. What waits for the record that it may have replaced waits on: look who else "
                "writes there.",
                {
                    "topic": each.topic,
                    "records": each.records,
                    "partition": each.partition,
                    "offset": each.offset,
                    "worker": each.worker,
                },
            )
