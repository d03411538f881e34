"""What a partition does about an exception that nobody foresaw (docs/security.md#no-input-ends-a-process).

An exception that is not of our error tree tells of a defect, and of data that brings it about. Where data of
one feed is read or written, and nothing else is changed, the feed fails. Anywhere else nobody knows what the
exception has left behind: the step broke, and an engine goes on from what is durable, more carefully.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from tidegate.errors import FatalError, FeedError, RetryError, brief
from tidegate.processor.refused import RefusedRecord

#: Of the process's own ground, and no fault of data: state that cannot be trusted, a full disk, no memory.
_OWN_GROUND: Final = (FatalError, RetryError, MemoryError, OSError)


class Input(enum.Enum):
    """A sequence of records that a partition takes; the value is what it is called."""

    LOG = "log"
    CONTROL = "control topic"
    HAND_OFFS = "hand-off topic"


class InputPlace(NamedTuple):
    """A record of an input."""

    input: Input
    offset: int


class Placed(Protocol):
    """A record of any input."""

    @property
    def offset(self) -> int: ...


RecordT = TypeVar("RecordT", bound=Placed)
#: Records that are not applied, and why.
Refused: TypeAlias = Mapping[InputPlace, str]


class StepBroke(FatalError):
    """A step met an exception that nobody foresaw: its processor, and its result, are of no use.

    The data is one of the records from ``first`` to ``last``; where it is one record alone it is ``record``.
    ``cause`` is the exception in a sentence.
    """

    def __init__(
        self, first: InputPlace, last: InputPlace, cause: str, record: RefusedRecord | None = None
    ) -> None:
        name, offset = first.input.value, first.offset
        where = f"offset {offset}" if first == last else f"offsets {offset} to {last.offset}"
        super().__init__(f"a step broke at {where} of the {name}: {cause}")
        self.first = first
        self.last = last
        self.cause = cause
        self.record = record

    def to_bytes(self) -> bytes:
        """To be told by a task of Spark."""
        (input_, first), (_, last) = self.first, self.last
        record = None if self.record is None else self.record.to_json()
        return json.dumps([input_.value, first, last, self.cause, record]).encode()

    @classmethod
    def from_bytes(cls, told: bytes) -> StepBroke:
        """What ``to_bytes`` made."""
        name, first, last, cause, record = json.loads(told)
        kept = None if record is None else RefusedRecord.from_json(record)
        return cls(InputPlace(Input(name), first), InputPlace(Input(name), last), cause, kept)


@dataclass(frozen=True, slots=True)
class Caution:
    """How a partition is stepped anew behind a step that broke (U4 and U5).

    ``alone``: up to this offset of an input each record has a step of its own. It travels to Spark's tasks.
    """

    alone: Mapping[Input, int] = field(default_factory=dict)
    refused: Mapping[InputPlace, str] = field(default_factory=dict)

    def steps(self, input_: Input, records: Sequence[RecordT]) -> Iterator[Sequence[RecordT]]:
        """The records in the steps that are to be made of them."""
        alone_to = self.alone.get(input_, -1)
        count = sum(record.offset <= alone_to for record in records)
        yield from (records[at : at + 1] for at in range(count))
        if count < len(records) or not records:
            yield records[count:]

    def after(self, broke: StepBroke) -> Caution:
        """More careful than before. Raises ``broke`` where that cannot help: a refused record broke it."""
        if broke.first != broke.last:
            return replace(self, alone={**self.alone, broke.last.input: broke.last.offset})
        if broke.first in self.refused:
            raise broke
        return replace(self, refused={**self.refused, broke.first: broke.cause})


def feed_error(error: Exception) -> FeedError:
    """What a feed fails with where an exception left the reading or the writing of its rows."""
    return error if isinstance(error, FeedError) else FeedError(unforeseen(error))


class Unforeseen(str):
    """The sentence about an exception that nobody foresaw.

    ``exception`` is its type and place in the code.
    """

    __slots__ = ("exception",)
    exception: str

    def __new__(cls, sentence: str, exception: str = "") -> Self:
        """See ``str``."""
        told = super().__new__(cls, sentence)
        told.exception = exception
        return told


def unforeseen(error: Exception) -> Unforeseen:
    """A sentence about an exception that nobody foresaw. Raises it where it is not of the data."""
    if isinstance(error, _OWN_GROUND):
        raise error
    exception = f"{type(error).__name__}{_where(error)}"
    return Unforeseen(
        f"tidegate cannot deal with it, which is a defect: {exception}: {brief(str(error))}. Please report "
        "it, with the record (`tidegate debug refused`)",
        exception,
    )


def unforeseen_in(error: Exception) -> Unforeseen | None:
    """What stands in an error that was made of an exception which nobody foresaw; ``None`` for others."""
    return next((each for each in error.args if isinstance(each, Unforeseen)), None)


def _where(error: Exception) -> str:
    """Where in the code it came from: file and line."""
    at = error.__traceback__
    if at is None:
        return ""
    while at.tb_next is not None:
        at = at.tb_next
    return f" ({at.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {at.tb_lineno})"
