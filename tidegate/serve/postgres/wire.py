"""Reads and writes PostgreSQL's messages as bytes. No other module uses pygwire.

The frame of a message (type, length) is read here and not by pygwire. The reasons: pygwire's bound for a
message is 1 GiB, it accepts a length below 4, and it keeps bytes after a request for TLS as if they had come
through TLS. Rows are written here too, since they are most of what the server writes. The session decides
which message may follow which: pygwire's own state machine refuses COPY by the extended protocol.

Source: PostgreSQL's documentation, chapters 54.2 (message flow) and 54.7 (message formats).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from pygwire import messages
from pygwire.codec import FrontendMessageDecoder
from pygwire.constants import ConnectionPhase, TransactionStatus
from pygwire.exceptions import PygwireError

from tidegate.errors import WireBroken
from tidegate.serve.stream_source import ShownType, StreamColumns

_LENGTH: Final = struct.Struct("!I")
_SHORT: Final = struct.Struct("!H")
_NULL: Final = b"\xff\xff\xff\xff"
#: The length in a frame counts its own four bytes.
_LENGTH_BYTES: Final = 4
_FRAME_BYTES: Final = 5
_SHORTEST_STARTUP: Final = 8

PROTOCOL_3_0: Final = 0x0003_0000
PROTOCOL_3_2: Final = 0x0003_0002
_MAJOR: Final = 16
_OPTION: Final = "_pq_."

#: Type OIDs and sizes of PostgreSQL's catalog, ``src/include/catalog/pg_type.dat``.
_OIDS: Final = {
    ShownType.BOOL: (16, 1),
    ShownType.BYTEA: (17, -1),
    ShownType.INT8: (20, 8),
    ShownType.TEXT: (25, -1),
    ShownType.FLOAT8: (701, 8),
    ShownType.NUMERIC: (1700, -1),
    ShownType.UUID: (2950, 16),
    ShownType.JSONB: (3802, -1),
}

#: The messages of a client, with the protocol's own names.
Message: TypeAlias = messages.PGMessage
Bind: TypeAlias = messages.Bind
Close: TypeAlias = messages.Close
Describe: TypeAlias = messages.Describe
Execute: TypeAlias = messages.Execute
Flush: TypeAlias = messages.Flush
Parse: TypeAlias = messages.Parse
Sync: TypeAlias = messages.Sync
Terminate: TypeAlias = messages.Terminate
Query: TypeAlias = messages.Query
FunctionCall: TypeAlias = messages.FunctionCall
CancelRequest: TypeAlias = messages.CancelRequest
StartupMessage: TypeAlias = messages.StartupMessage
GSSEncRequest: TypeAlias = messages.GSSEncRequest
SSLRequest: TypeAlias = messages.SSLRequest
SASLInitialResponse: TypeAlias = messages.SASLInitialResponse
SASLResponse: TypeAlias = messages.SASLResponse

IDLE, IN_TRANSACTION, FAILED = (
    TransactionStatus.IDLE,
    TransactionStatus.IN_TRANSACTION,
    TransactionStatus.ERROR_TRANSACTION,
)

SSL_REFUSED: Final = b"N"
SSL_ACCEPTED: Final = b"S"
COPY_DONE: Final = messages.CopyDone().to_wire()
PARSE_COMPLETE: Final = messages.ParseComplete().to_wire()
BIND_COMPLETE: Final = messages.BindComplete().to_wire()
CLOSE_COMPLETE: Final = messages.CloseComplete().to_wire()
NO_DATA: Final = messages.NoData().to_wire()
NO_PARAMETERS: Final = messages.ParameterDescription(type_oids=[]).to_wire()
PORTAL_SUSPENDED: Final = messages.PortalSuspended().to_wire()
EMPTY_QUERY: Final = messages.EmptyQueryResponse().to_wire()
AUTHENTICATED: Final = messages.AuthenticationOk().to_wire()

_STARTUP: Final = ConnectionPhase.STARTUP
#: The phases for pygwire. The meaning of a message depends on the phase in which it comes.
SASL_FIRST: Final = ConnectionPhase.AUTHENTICATING_SASL_INITIAL
SASL_FINAL: Final = ConnectionPhase.AUTHENTICATING_SASL_CONTINUE
QUERIES: Final = ConnectionPhase.READY


class StartupFrame(NamedTuple):
    """A startup packet, and what the client wants that this server does not speak.

    Attributes:
        message: the request, or the startup message.
        unknown_version: whether this server does not know the packet's minor version.
        options: the packet's protocol options. This server knows none of them.
    """

    message: Message
    unknown_version: bool
    options: tuple[str, ...]


def frame_bytes(head: bytes, most_bytes: int) -> int | None:
    """Return the length of the message at the start of ``head``, with its type byte. Return ``None`` if
    ``head`` is too short to tell.

    Raises ``WireBroken`` for a length that a message cannot have.
    """
    if len(head) < _FRAME_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(head, 1)
    if not _LENGTH_BYTES <= length <= most_bytes:
        raise WireBroken(
            f"A message of type {head[:1]!r} says it has {length} bytes, and up to {most_bytes} are read: "
            "the connection ends. Send shorter statements"
        )
    return 1 + int(length)


def startup_bytes(head: bytes, most_bytes: int) -> int | None:
    """Return what `frame_bytes` returns, for the packets before the login: they have no type byte."""
    if len(head) < _LENGTH_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(head)
    if not _SHORTEST_STARTUP <= length <= most_bytes:
        raise WireBroken(
            f"The first packet says it has {length} bytes, and {_SHORTEST_STARTUP} to {most_bytes} are read: "
            "this is no client of PostgreSQL's protocol. The connection ends"
        )
    return int(length)


def read_startup(frame: bytes) -> StartupFrame:
    """Return the packet of a frame. Raises ``WireBroken``."""
    (version,) = _LENGTH.unpack_from(frame, _LENGTH_BYTES)
    unknown = version >> _MAJOR == PROTOCOL_3_0 >> _MAJOR and version not in (PROTOCOL_3_0, PROTOCOL_3_2)
    if unknown:  # a later minor version: the client is told that we speak 3.0, and may go on
        frame = frame[:_LENGTH_BYTES] + _LENGTH.pack(PROTOCOL_3_0) + frame[2 * _LENGTH_BYTES :]
    message = _decoded(frame, _STARTUP)
    options: tuple[str, ...] = ()
    if isinstance(message, messages.StartupMessage):
        options = tuple(name for name in message.params if name.startswith(_OPTION))
    return StartupFrame(message, unknown, options)


def read_message(frame: bytes, phase: ConnectionPhase) -> Message:
    """Return the message of a frame.

    Raises ``WireBroken`` for a message that cannot be read, or that may not come in this phase.
    """
    return _decoded(frame, phase)


def _decoded(frame: bytes, phase: ConnectionPhase) -> Message:
    decoder = FrontendMessageDecoder()
    decoder.phase = phase
    decoder.feed(frame)
    try:
        for message in decoder:
            return message
    except (PygwireError, ValueError, IndexError, struct.error) as error:
        raise WireBroken(f"A message cannot be read ({error!s:.200}): the connection ends") from None
    raise WireBroken("A message is shorter than it says: the connection ends")


def sasl_request(mechanism: str) -> bytes:
    """Make the message that tells the client by which mechanism it has to log in."""
    return messages.AuthenticationSASL(mechanisms=[mechanism]).to_wire()


def sasl_continue(data: bytes) -> bytes:
    """Make the server's first SCRAM message."""
    return messages.AuthenticationSASLContinue(data=data).to_wire()


def sasl_final(data: bytes) -> bytes:
    """Make the server's last SCRAM message."""
    return messages.AuthenticationSASLFinal(data=data).to_wire()


def negotiate_version(options: Sequence[str]) -> bytes:
    """Make the message that says that the server speaks protocol 3.0, and which options it does not know."""
    return messages.NegotiateProtocolVersion(newest_minor=PROTOCOL_3_0, unrecognized=list(options)).to_wire()


def parameter_status(name: str, value: str) -> bytes:
    """Make the message with the value of a setting that clients want to know."""
    return messages.ParameterStatus(name=name, value=value).to_wire()


def backend_key(process_id: int, secret: bytes) -> bytes:
    """Make the message with the key that a client needs for a cancel."""
    return messages.BackendKeyData(process_id=process_id, secret_key=secret).to_wire()


def ready(status: TransactionStatus) -> bytes:
    """Make the message that says that the next query may come."""
    return messages.ReadyForQuery(status=status).to_wire()


def complete(tag: str) -> bytes:
    """Make the message that says that a command is done. ``tag`` is ``FETCH 3``, for example."""
    return messages.CommandComplete(tag=tag).to_wire()


def copy_out(columns: int) -> bytes:
    """Make the message that says that rows follow as COPY's text."""
    return messages.CopyOutResponse(overall_format=0, col_formats=[0] * columns).to_wire()


def row_description(columns: StreamColumns) -> bytes:
    """Make the message with the columns of the rows that follow."""
    fields = [
        messages.FieldDescription(name=_clean(name), type_oid=oid, type_size=size, type_modifier=-1)
        for name, (oid, size) in zip(columns.header, map(_OIDS.__getitem__, columns.types), strict=True)
    ]
    return messages.RowDescription(fields=fields).to_wire()


def error(fields: dict[str, str]) -> bytes:
    """Make the message of an error; ``fields`` has its parts by the protocol's letters."""
    clean = {letter: _clean(text) for letter, text in fields.items()}
    return messages.ErrorResponse(fields=clean).to_wire()


def _clean(text: str) -> str:
    """Return a text that the protocol can carry.

    A NUL would end the text early, and half of a surrogate pair has no bytes in UTF-8. Both are replaced.
    """
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def data_rows(rows: Iterable[Sequence[bytes | None]]) -> bytes:
    """Make the DataRow messages of some rows; a value is ``None`` for NULL."""
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for row in rows:
        values = b"".join([_NULL if value is None else pack(len(value)) + value for value in row])
        parts += (b"D", pack(len(values) + 6), _SHORT.pack(len(row)), values)
    return b"".join(parts)


def copy_rows(lines: Iterable[bytes]) -> bytes:
    """Make one CopyData message of each line of COPY: clients rely on that."""
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for line in lines:
        parts += (b"d", pack(len(line) + _LENGTH_BYTES), line)
    return b"".join(parts)
