"""The rules of the log contract, and the breach of a rule."""

from __future__ import annotations

import enum
from typing import Any, Final, NamedTuple

PAGE: Final = "docs/log-contract.md"


class Rule(enum.Enum):
    """A rule of the log contract. The value is the rule in words, ``id`` its anchor on the page."""

    READABLE = "every record is an entry"
    PARTITION = "an entry stands in partition range_id % P, a broadcast in every partition"
    RECORD_TIME = "no op is more than 2 s above its record's time"
    CLOSED_AHEAD = "no closed timestamp is more than 2 s above its record's time"
    FIRST = "a range begins with a snapshot; an initial one without parents has no intents"
    DENSE = "raft indexes have no gap, and what names an index names the applied one"
    COPY = "an index that comes again is an exact copy"
    CLOSED_RISES = "closed timestamps never fall"
    ABOVE_CLOSED = "no write or intent at or below what was closed before"
    IN_SPAN = "keys lie within the range"
    VALUE = "a committed version has its value"
    VERSION_ORDER = "the versions of a key rise, and each knows the one before it"
    INTENT_COUNT = "intents end no more often than they were written"
    COMMIT_TIME = "a transaction commits at one timestamp, at or above each of its intents"
    AFTER_ABORT = "nothing of a transaction commits in a range after AbortTxn there"
    PUSHED = "AbortTxn answers a push"
    SNAPSHOT = "a snapshot shows what the log before it says"
    MUTATION = (
        "a snapshot tells the last change of its data outside the op log, and times of such changes rise"
    )
    GENERATION = "an entry carries the generation that the last snapshot began, and generations rise"
    TRIGGER = "a split or merge trigger is followed by the snapshot of a new generation, and nothing else is"
    LINEAGE = "the ranges after a split or merge hold what those before it held, and no two the same key"
    END = "nothing follows the end of a range"
    SCAN = "a scan shows all that was committed in its span, and none of that follows"
    DESCRIPTOR = "a descriptor stands in the partition before the rows that it governs"
    DESCRIPTOR_BYTES = "a descriptor can be read, and is the only one of its version"
    HISTORY = "the log has the versions that were committed, once each, and no others"

    @property
    def id(self) -> str:
        """The rule's anchor on the page, for example ``closed-rises``."""
        return self.name.lower().replace("_", "-")

    @property
    def link(self) -> str:
        """The page and the anchor of the rule."""
        return f"{PAGE}#{self.id}"


#: The rules that cannot be checked with the log alone.
BEYOND_THE_LOG: Final = frozenset({Rule.PUSHED, Rule.HISTORY})


class BreachPlace(NamedTuple):
    """The place of a record in the log's topic."""

    partition: int
    offset: int


class Breach(NamedTuple):
    """A breach of a rule by a log, at ``place``. Without a ``place`` only the log as a whole shows it."""

    rule: Rule
    sentence: str
    place: BreachPlace | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the breach as JSON, for programs."""
        return {
            "rule": self.rule.id,
            "partition": None if self.place is None else self.place.partition,
            "offset": None if self.place is None else self.place.offset,
            "sentence": self.sentence,
            "link": self.rule.link,
        }
