"""Topics that no feed may write to, by the form of their names (docs/security.md#where-a-feed-may-write).

They are the topics that any application of tidegate keeps for itself, the logs of sources, and Kafka's own.
Their readers would read a feed's record there as one of tidegate or of the source. So neither an option of
the statement nor a setting of the operator allows them.
"""

from __future__ import annotations

import re
from typing import Final

#: ``<prefix>raftlog`` is a log, whatever its prefix. ``<prefix>requests`` may also be a table's topic. If its
#: prefix is not empty, it belongs to a source only if the log with the same prefix exists (`log_beside`).
_SHAPES: Final = (
    (re.compile(r"__.*"), "one of Kafka's own"),
    (re.compile(r"_schemas"), "the schema registry's"),
    (re.compile(r".+-jobs"), "the jobs topic of an application of tidegate"),
    (re.compile(r".+-control"), "the control topic of an application of tidegate"),
    (re.compile(r".+-control-acks"), "the topic of answers of an application of tidegate"),
    (re.compile(r".+-handoff"), "the hand-off topic of an application of tidegate"),
    (re.compile(r".+-checkpoints"), "the checkpoints topic of an application of tidegate"),
    (re.compile(r".+-changelog"), "a changelog of an application of tidegate"),
    (re.compile(r".*raftlog"), "the log of a source"),
    (re.compile(r"requests"), "the topic of requests to a source"),
)
_REQUESTS: Final = "requests"


def internal_kind(topic: str) -> str:
    """Return which kind of topic the name belongs to, if no feed may write to it: ``the log of a source``.

    Return an empty text for other names.
    """
    return next((kind for shape, kind in _SHAPES if shape.fullmatch(topic)), "")


def internal_topic_fault(topic: str, mend: str) -> str:
    """Return why no feed may write to a topic of this name, and then ``mend``, which says what to do.

    Return an empty text if feeds may write to the topic.
    """
    kind = internal_kind(topic)
    return f"no feed may write to {topic}: it has the name of {kind}; {mend}" if kind else ""


def log_beside(topic: str) -> str:
    """Return the name of a log: if that log exists, this topic is one of requests to a source.

    Return an empty text for a name that no topic of requests has.

    >>> log_beside("shop.requests")
    'shop.raftlog'
    """
    return f"{topic.removesuffix(_REQUESTS)}raftlog" if topic.endswith(_REQUESTS) else ""
