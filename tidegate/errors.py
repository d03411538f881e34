"""Every error that tidegate raises on purpose, by what the reader should do about it.

    TidegateError
    ├── RetryError                   try again later: nothing was lost, nothing was done
    │   ├── BrokerUnavailable
    │   ├── ClientsExhausted         the process can open no more Kafka clients
    │   ├── RegistryAway             the schema registry does not answer, or not as a registry does
    │   ├── RegistryDenied           it answers, and refuses our login
    │   │   └── RegistryNotAllowed   no entry of the operator's names it: nothing was sent there
    │   ├── SecretMissing            a secret that a feed names is not in the store, or not for that place
    │   ├── SinkHeld                 a sink's address means another cluster than the feed's topics are on
    │   ├── SinkNotAllowed           no entry of the operator's allows a feed to write to that cluster
    │   ├── TopicGone                no broker knows a topic of a feed: it was deleted, or it is new
    │   ├── StoreAway                the file system of a checkpoint directory does not answer, or denies us
    │   ├── SpoolLost                rows that waited on disk for a sink: they are scanned for again
    │   ├── SpillLost                rows that waited on disk for a subscription: resume from its token
    │   ├── StreamInterrupted        a subscription's connection ended: resume from its token
    │   ├── CallInterrupted          a call of a subscription was interrupted, as by Ctrl-C: the same
    │   ├── CredentialsExpired       the same, after a login with new credentials
    │   └── FellBehind               a reader was too slow for its server: resume, and read faster
    ├── FatalError                   end this process: the next one starts from what is durable
    │   ├── DeliveryError            a record was refused or lost its acknowledgement
    │   │   ├── RecordRefused        its topic does not take it, and its producer can go on without it
    │   │   └── ProducerFenced       another producer with its id was opened, or its transaction was too long
    │   ├── StateError               stored state that cannot be trusted or read
    │   │   └── StateMismatch        its rows are damaged, or not those that were written
    │   ├── TopologyError            topics, partitions or directories that do not fit together
    │   ├── StepBroke                an exception that nobody foresaw (tidegate/processor/containment.py)
    │   ├── Fenced                   another process owns the subscription now
    │   └── QueryEnded               Spark gave a query up, for a reason of its own
    ├── InputError                   reject this input; everything else goes on
    │   ├── RangeError               one range is at fault: it is quarantined
    │   │   ├── MalformedEntry       bytes that are not a log entry
    │   │   ├── MissingEntries       raft indexes are missing
    │   │   ├── GenerationError      a generation fell, or began without its snapshot
    │   │   ├── ForbiddenOp          an operation at or below the resolved timestamp
    │   │   └── KeyTooLong           a key that no record of state has room for
    │   ├── FeedError                one feed is at fault: it fails, with this reason
    │   │   ├── RowError             a row that cannot be decoded
    │   │   │   ├── EncodingError    key or value bytes outside the encoding
    │   │   │   ├── ChecksumMismatch
    │   │   │   └── UnknownTable     no descriptor of the table is valid at that time
    │   │   ├── TableRowError        one of those, with its table and place (processor/feeds/version_rows.py)
    │   │   ├── DescriptorConflict   a descriptor that arrives too late or contradicts itself
    │   │   ├── SchemaRejected       a schema that the registry will not take
    │   │   ├── RowRefused           a row that its topic does not take, however often it is sent
    │   │   │   └── RowDoubted       one that it did not take this time: another try may deliver it
    │   │   ├── UnsupportedTable     a table that this version cannot feed
    │   │   ├── StartBelowGC         a start whose versions may be collected already
    │   │   └── InlineValue          a value without a timestamp, where a feed reads history
    │   ├── MalformedRecord          bytes on an output topic that the feed cannot have written
    │   ├── ForeignRecord            a record of the application's own topics that tidegate did not write
    │   ├── StatementError           a statement that cannot be parsed or is not supported
    │   │   └── SubscribeStatementError  the same for SUBSCRIBE, with a code and a SQLSTATE
    │   ├── SubscribeError           one subscription is at fault: it ends, with this reason
    │   │   ├── PromiseBroken        output topics that do not keep the promise of their markers
    │   │   │   ├── MarkerFell       a marker below one before it
    │   │   │   ├── LateRow          a new row at or below what was delivered
    │   │   │   └── RepeatDiffers    a version that comes again with another value
    │   │   ├── UnreadableRow        a record that cannot be a row of the subscription's table
    │   │   │   └── SchemaMismatch   its columns are not the table's
    │   │   ├── ProtocolError        rows of a subscription that break its protocol
    │   │   │   └── ProgressMissing  no progress row came first
    │   │   ├── EvaluationError      an expression that has no value for a row
    │   │   │   └── LimitExceeded    a text, a row or a batch of a query that is too large
    │   │   ├── HistoryLost          what a subscription has to read cannot be read any more
    │   │   ├── ObjectDropped        its table is gone
    │   │   ├── ResultTooLarge       one step's rows are more than a server holds
    │   │   ├── TokenRefused         a resume token of another subscription, or of a newer version
    │   │   ├── StreamPoisoned       an error of the server's that comes again with every attempt
    │   │   └── SubscriptionCanceled somebody ended it: it is never tried again
    │   ├── RequestRefused           a client of `tidegate serve` asks for what the server does not give
    │   │   └── WireBroken           its bytes break the protocol: its connection ends
    │   └── SettingsError            a setting that cannot be used
    └── StackError                   a development server does not start: stack/errors.py draws its branches

Each message is a sentence: what was wrong, where, what happens now, what to do. What a caller needs by itself
is an attribute too: the ``position`` of a ``StatementError``, the ``table_id`` of a ``TableRowError``.
Errors of subscriptions have a ``code`` for programs, which never changes, and a ``sqlstate`` for SQL clients
(docs/subscribe.md has the table).
"""

from __future__ import annotations

from typing import ClassVar, Final

_SENTENCE_CHARACTERS: Final = 1_000


def brief(sentence: str, most: int = _SENTENCE_CHARACTERS) -> str:
    """Return a sentence, cut if it is too long to be stored: it may quote keys of any length."""
    return sentence if len(sentence) <= most else f"{sentence[: most - 3]}..."


class TidegateError(Exception):
    """Root of all errors raised by tidegate."""


class RetryError(TidegateError):
    """Something outside is away; the same call may succeed later."""


class BrokerUnavailable(RetryError):
    """Kafka does not answer."""


class ClientsExhausted(RetryError):
    """The process can open no more Kafka clients. It can again once it has closed some."""


class StoreAway(RetryError):
    """The file system of a checkpoint directory does not answer, or does not let us read or write there."""


class SinkHeld(RetryError):
    """A sink's address means another Kafka cluster than the one that the feed's topics are on."""


class SinkNotAllowed(RetryError):
    """A sink is not on the application's own Kafka cluster, and no entry of the operator's allows it."""


class TopicGone(RetryError):
    """No broker knows a partition of a feed's topic: it was deleted, unless it is new.

    ``refusal`` is the sentence with which the feed fails if that stays so.
    """

    def __init__(self, message: str, refusal: str = "") -> None:
        super().__init__(message)
        self.refusal = refusal


class RegistryAway(RetryError):
    """The schema registry does not answer, or its answer is not that of a schema registry."""


class RegistryDenied(RetryError):
    """The schema registry refuses our login. A later call may have another login."""


class RegistryNotAllowed(RegistryDenied):
    """No entry of the operator's names the schema registry, so it is not asked."""


class SecretMissing(RetryError):
    """A secret that a feed names is not in the store, or may not be given to the place that asks for it."""


class SpoolLost(RetryError):
    """Rows that wait for their sink cannot be kept on disk; the source is asked for them again."""


class SpillLost(RetryError):
    """Rows of a subscription that wait beyond its memory cannot be kept on disk, or read back whole."""

    code: ClassVar[str] = "spill_lost"
    sqlstate: ClassVar[str] = "58030"


class StreamInterrupted(RetryError):
    """The connection of a subscription ended; nothing is lost, and its token resumes it."""

    code: ClassVar[str] = "interrupted"
    sqlstate: ClassVar[str] = "08006"


class CallInterrupted(RetryError):
    """A call was interrupted, as by Ctrl-C; nothing more is given, and a token resumes the subscription."""

    code: ClassVar[str] = "call_interrupted"
    sqlstate: ClassVar[str] = "57014"


class CredentialsExpired(RetryError):
    """A server does not take a subscription's credentials any more."""

    code: ClassVar[str] = "credentials_expired"
    sqlstate: ClassVar[str] = "28000"


class FellBehind(RetryError):
    """More rows waited for a reader than its server holds.

    ``token`` is that of the last batch that the reader was given: it resumes the subscription. It is empty
    where only a snapshot can begin it again. ``hint`` says the same to people.
    """

    code: ClassVar[str] = "fell_behind"
    sqlstate: ClassVar[str] = "53200"

    def __init__(self, message: str, token: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.token = token
        self.hint = hint


class FatalError(TidegateError):
    """The process must end: going on could acknowledge what is not durable."""


class DeliveryError(FatalError):
    """The broker refused a record, or a delivery could not be confirmed."""


class RecordRefused(DeliveryError):
    """A topic does not take a record, however often it is sent; the producer can go on without it."""


class ProducerFenced(DeliveryError):
    """Another producer with the same transactional id was opened, or Kafka ended its transaction at 300 s."""


class StateError(FatalError):
    """Stored state is damaged, newer than this version, or contradicts the log position."""


class StateMismatch(StateError):
    """Rows of state are damaged, or not those that were written.

    The fault may be only in the copy from which they were read.
    """


class TopologyError(FatalError):
    """Topics, partition counts or directories do not fit together."""


class Fenced(FatalError):
    """Another process has acquired the checkpoint of a subscription, so this one stores no token any more."""

    code: ClassVar[str] = "fenced"
    sqlstate: ClassVar[str] = "55000"


class QueryEnded(FatalError):
    """Spark ended a streaming query, and none of our batches is the reason."""


class InputError(TidegateError):
    """Input that is refused; everything else goes on."""


class RangeError(InputError):
    """An entry of a range's log with which the range cannot go on; the range is quarantined."""


class MalformedEntry(RangeError):
    """Bytes that do not parse as a log entry, or parse as one that the contract forbids."""


class MissingEntries(RangeError):
    """Entries between the index that a range has applied and the index of the next entry are missing."""


class GenerationError(RangeError):
    """A range generation fell, or began without its snapshot."""


class ForbiddenOp(RangeError):
    """A write or intent at or below the resolved timestamp."""


class KeyTooLong(RangeError):
    """A key of the range is longer than a record of state has room for."""


class FeedError(InputError):
    """One feed cannot go on; it fails with this reason."""


class RowError(FeedError):
    """A key-value pair that cannot be turned into a row."""


class EncodingError(RowError, ValueError):
    """Bytes that are not in the encoding of keys or values."""


class ChecksumMismatch(RowError):
    """The value's checksum does not fit its key and bytes."""


class UnknownTable(RowError):
    """No descriptor version of this table is valid at the row's timestamp."""


class DescriptorConflict(FeedError):
    """A table descriptor that arrives after rows it should have governed, or contradicts itself."""


class SchemaRejected(FeedError):
    """A schema that the registry will not take: it breaks a subject's compatibility, or is invalid."""


class RowRefused(FeedError):
    """A row that its topic does not take, however often it is sent: too large, or the topic is gone."""


class RowDoubted(RowRefused):
    """A row that its topic did not take; it is not known whether that answer is final.

    The next producer writes the row again. The row is refused after several producers have had this answer.
    """


class UnsupportedTable(FeedError):
    """A table that this version of tidegate cannot feed."""


class StartBelowGC(FeedError):
    """A feed's start is not above the GC threshold: versions above it may be gone."""


class InlineValue(FeedError):
    """A stored value without a timestamp, in the span that a feed catches up on."""


class MalformedRecord(InputError):
    """A record of an output topic that the feed which owns the topic cannot have written."""


class ForeignRecord(InputError):
    """A record of one of the application's own topics that tidegate did not write; it is passed over."""


class StatementError(InputError):
    """A statement that cannot be parsed, or asks for what is not supported.

    ``position`` is the 0-based character offset in the statement, -1 where none applies.
    """

    def __init__(self, message: str, position: int = -1) -> None:
        super().__init__(message)
        self.position = position


class SubscribeStatementError(StatementError):
    """A SUBSCRIBE that cannot be parsed, or asks for what its tables do not have.

    ``code`` is one of `tidegate.subscribe.statement.faults`, ``hint`` says what to write instead or is empty.
    """

    def __init__(self, message: str, code: str, sqlstate: str, position: int = -1, hint: str = "") -> None:
        super().__init__(message, position)
        self.code = code
        self.sqlstate = sqlstate
        self.hint = hint


class SubscribeError(InputError):
    """One subscription cannot go on. The batches that were delivered before stay true.

    ``topic``, ``partition`` and ``offset`` name the record at fault. They are empty and -1 if
    no record is at fault.
    """

    code: ClassVar[str] = "subscribe_error"
    sqlstate: ClassVar[str] = "XX000"

    def __init__(self, message: str, topic: str = "", partition: int = -1, offset: int = -1) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class PromiseBroken(SubscribeError):
    """Output topics do not keep the promise that their markers make; `tidegate verify` tells more."""

    code = "promise_broken"
    sqlstate = "XX001"


class MarkerFell(PromiseBroken):
    """A marker is below one that its partition had before."""

    code = "marker_fell"


class LateRow(PromiseBroken):
    """A row is at or below what was delivered, and was not seen before."""

    code = "late_row"


class RepeatDiffers(PromiseBroken):
    """A row version comes again with another value."""

    code = "repeat_differs"


class UnreadableRow(SubscribeError):
    """A record is no row that the subscription can read."""

    code = "unreadable_row"
    sqlstate = "22000"


class SchemaMismatch(UnreadableRow):
    """A row's columns are not those of the subscription's table."""

    code = "schema_mismatch"
    sqlstate = "42804"


class ProtocolError(SubscribeError):
    """The rows of a subscription break its protocol: they fall in time, or cannot be decoded."""

    code = "protocol_error"
    sqlstate = "08P01"


class ProgressMissing(ProtocolError):
    """The first row of a subscription is no progress row: it was begun without PROGRESS."""

    code = "progress_missing"


class EvaluationError(SubscribeError):
    """An expression has no value for a row: a division by zero, operands that do not fit."""

    code = "evaluation_error"
    sqlstate = "22000"


class LimitExceeded(EvaluationError):
    """A query makes too large a text, too large a row, or too large a batch that has to be whole."""

    code = "limit_exceeded"
    sqlstate = "54000"


class HistoryLost(SubscribeError):
    """The past that a subscription has to read is gone."""

    code = "history_lost"
    sqlstate = "22000"


class ObjectDropped(SubscribeError):
    """The table of a subscription was dropped."""

    code = "object_dropped"
    sqlstate = "42704"


class ResultTooLarge(SubscribeError):
    """The rows of one step are more than a server holds at one time."""

    code = "result_too_large"
    sqlstate = "XX000"


class TokenRefused(SubscribeError):
    """A resume token is damaged, of another subscription, or of a newer version."""

    code = "token_refused"
    sqlstate = "22023"


class StreamPoisoned(SubscribeError):
    """An error of a server that comes again with each attempt."""

    code = "stream_poisoned"
    sqlstate = "XX000"


class SubscriptionCanceled(SubscribeError):
    """Somebody canceled the subscription."""

    code = "canceled"
    sqlstate = "57014"


class RequestRefused(InputError):
    """A client of ``tidegate serve`` asks for what the server does not give.

    ``code`` is for programs and never changes, ``sqlstate`` for SQL clients; ``hint`` says what to do
    instead, or is empty.
    """

    def __init__(self, message: str, code: str, sqlstate: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.sqlstate = sqlstate
        self.hint = hint


class WireBroken(RequestRefused):
    """A client sent bytes that its protocol does not have there: nothing after them can be read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "wire_broken", "08P01")


class SettingsError(InputError):
    """A setting that cannot be used."""
