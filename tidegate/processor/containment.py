"""Contains an exception that nobody foresaw (docs/security.md#no-input-ends-a-process).

An exception outside tidegate's error tree shows a defect, which some data triggers. If it comes while rows of
one feed are read or written, that feed fails. Anywhere else nobody knows in which state the processor is
after it. Then the step is broken, and the engine goes on from durable state, more carefully.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from tidegate.errors import FatalError, FeedError, RetryError, brief
from tidegate.processor.refused import RefusedRecord

#: Errors of the process itself, which are no fault of data: state that cannot be trusted, a full disk, no
#: memory.
_OWN_GROUND: Final = (FatalError, RetryError, MemoryError, OSError)


class Input(enum.Enum):
    """A sequence of records that a partition reads. The value is its name in sentences."""

    LOG = "log"
    CONTROL = "control topic"
    HAND_OFFS = "hand-off topic"


class InputPlace(NamedTuple):
    """The place of a record: its input, and its offset there."""

    input: Input
    offset: int


class Placed(Protocol):
    """A record of any input."""

    @property
    def offset(self) -> int: ...


RecordT = TypeVar("RecordT", bound=Placed)
#: The places of records that are not applied, each with the reason.
Refused: TypeAlias = Mapping[InputPlace, str]


class StepBroke(FatalError):
    """The error of a step that met an exception nobody foresaw. Do not use its processor or result.

    One of the records from ``first`` to ``last`` brought it about. If ``first`` is ``last``, ``record`` is
    that record. ``cause`` is a sentence about the exception.
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
        """Return the error as bytes. A task of Spark tells it to the driver in this form."""
        (input_, first), (_, last) = self.first, self.last
        record = None if self.record is None else self.record.to_json()
        return json.dumps([input_.value, first, last, self.cause, record]).encode()

    @classmethod
    def from_bytes(cls, told: bytes) -> StepBroke:
        """Return the error of the bytes that ``to_bytes`` made."""
        name, first, last, cause, record = json.loads(told)
        kept = None if record is None else RefusedRecord.from_json(record)
        return cls(InputPlace(Input(name), first), InputPlace(Input(name), last), cause, kept)


@dataclass(frozen=True, slots=True)
class Caution:
    """The records that are stepped alone, or refused, after a step that broke (U4 and U5).

    Each record of an input up to the input's offset in ``alone`` has a step of its own. Records in
    ``refused`` are not applied, for the reason given. Spark's tasks get this value from the driver.
    """

    alone: Mapping[Input, int] = field(default_factory=dict)
    refused: Mapping[InputPlace, str] = field(default_factory=dict)

    def steps(self, input_: Input, records: Sequence[RecordT]) -> Iterator[Sequence[RecordT]]:
        """Yield the records in groups, one group for each step to be made. There is one group at least."""
        alone_to = self.alone.get(input_, -1)
        count = sum(record.offset <= alone_to for record in records)
        yield from (records[at : at + 1] for at in range(count))
        if count < len(records) or not records:
            yield records[count:]

    def after(self, broke: StepBroke) -> Caution:
        """Return the caution to use after another step that broke.

        Where several records may be the cause, each gets a step of its own. A single record is refused.
        Raises ``broke`` if it was refused already, since more caution cannot help then.
        """
        if broke.first != broke.last:
            return replace(self, alone={**self.alone, broke.last.input: broke.last.offset})
        if broke.first in self.refused:
            raise broke
        return replace(self, refused={**self.refused, broke.first: broke.cause})


def feed_error(error: Exception) -> FeedError:
    """Return the error with which a feed fails after an exception in the reading or writing of its rows."""
    return error if isinstance(error, FeedError) else FeedError(unforeseen(error))


class Unforeseen(str):
    """A sentence about an exception that nobody foresaw.

    ``exception`` has the exception's type and place in the code.
    """

    __slots__ = ("exception",)
    exception: str

    def __new__(cls, sentence: str, exception: str = "") -> Self:
        """See ``str``."""
        told = super().__new__(cls, sentence)
        told.exception = exception
        return told


def unforeseen(error: Exception, *, keeps: bool = True) -> Unforeseen:
    """Return a sentence about an exception that nobody foresaw.

    ``keeps`` says whether the record that brought it about is kept aside. Raises the exception itself if it
    is the process's own, such as a full disk, and no fault of the data.
    """
    if isinstance(error, _OWN_GROUND):
        raise error
    exception = f"{type(error).__name__}{_where(error)}"
    return Unforeseen(
        f"tidegate cannot deal with it, which is a defect: {exception}: {brief(str(error))}. Please report "
        f"it, with the {'record (`tidegate debug refused`)' if keeps else 'lines of the log'}",
        exception,
    )


def unforeseen_in(error: Exception) -> Unforeseen | None:
    """Return the sentence in an error that was made of an unforeseen exception; ``None`` for other errors."""
    return next((each for each in error.args if isinstance(each, Unforeseen)), None)


def _where(error: Exception) -> str:
    """Return where in the code the exception was raised: file and line. Empty if that is not known."""
    at = error.__traceback__
    if at is None:
        return ""
    while at.tb_next is not None:
        at = at.tb_next
    return f" ({at.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {at.tb_lineno})"
