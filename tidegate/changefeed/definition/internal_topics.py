"""Topics that no feed may write to, by the shape of their names: those that an application of tidegate keeps
for itself, whichever application it is, and Kafka's own (docs/security.md#where-a-feed-may-write).

A record there is taken for one of tidegate's, or the source's. So neither an option of the statement nor a
setting of the operator opens them.
"""

from __future__ import annotations

import re
from typing import Final

#: ``<prefix>raftlog`` is a log, whatever its prefix. ``<prefix>requests`` may be a table's topic too: with a
#: prefix it is the source's where such a log stands beside it (`log_beside`).
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
    """What a topic of this name is, where no feed may write to it; empty for any other name."""
    return next((kind for shape, kind in _SHAPES if shape.fullmatch(topic)), "")


def internal_topic_fault(topic: str, mend: str) -> str:
    """Why no feed may write to a topic of this name, with ``mend``, what to do; empty where one may."""
    kind = internal_kind(topic)
    return f"no feed may write to {topic}: it has the name of {kind}; {mend}" if kind else ""


def log_beside(topic: str) -> str:
    """The log that makes the topic one of requests, where it exists; empty for a topic of another name.

    >>> log_beside("shop.requests")
    'shop.raftlog'
    """
    return f"{topic.removesuffix(_REQUESTS)}raftlog" if topic.endswith(_REQUESTS) else ""
