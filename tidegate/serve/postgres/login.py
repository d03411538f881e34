"""The steps of a client from its first byte to its login.

1. The client may ask for TLS and for GSSAPI first, in either order. GSSAPI is refused.
2. The client sends its startup message. Or it asks to cancel the command of another connection; then this
   connection ends.
3. If others can reach the server's address, a client without TLS is refused.
4. If the server has no users, everybody is let in. This is allowed on loopback only. Otherwise the client
   shows that it knows its password, by SCRAM-SHA-256.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.errors import RequestRefused, WireBroken
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.client_stream import ClientStream
from tidegate.serve.postgres.scram import MECHANISM, ScramExchange, Verifiers

#: A client asks for TLS and for GSSAPI once each.
_MOST_REQUESTS: Final = 3


@dataclass(frozen=True, slots=True)
class Admission:
    """The conditions under which a client is let in.

    Attributes:
        users: the verifiers of users; ``None`` lets everybody in.
        tls: the settings of TLS; ``None`` if the server does not speak TLS.
        tls_required: whether a client without TLS is refused.
    """

    users: Verifiers | None = None
    tls: ssl.SSLContext | None = None
    tls_required: bool = False


@dataclass(frozen=True, slots=True)
class Client:
    """A client that has logged in. ``protocol`` is the version that it speaks, as ``wire.PROTOCOL_3_0``."""

    user: str
    database: str
    protocol: int
    parameters: dict[str, str]


async def begin(stream: ClientStream, admission: Admission, limits: ServeLimits) -> wire.Message | None:
    """Take steps 1 and 2.

    Returns the startup message or the request for a cancel; ``None`` if the client is gone.

    Raises ``WireBroken``.
    """
    length_of = partial(wire.startup_bytes, most_bytes=limits.startup_bytes)
    for _ in range(_MOST_REQUESTS):
        frame = await stream.read(length_of)
        if frame is None:
            return None
        packet = wire.read_startup(frame)
        match packet.message:
            case wire.SSLRequest() if admission.tls is not None and not stream.encrypted:
                await stream.write(wire.SSL_ACCEPTED)
                await stream.start_tls(admission.tls)
            case wire.SSLRequest() | wire.GSSEncRequest():
                await stream.write(wire.SSL_REFUSED)
            case _:
                if packet.unknown_version or packet.options:
                    await stream.write(wire.negotiate_version(packet.options))
                return packet.message
    raise WireBroken("The client asks for encryption again and again: the connection ends")


async def admit(
    stream: ClientStream, message: wire.StartupMessage, admission: Admission, limits: ServeLimits
) -> Client | None:
    """Take steps 3 and 4. Returns the client; ``None`` if it is gone.

    Raises ``RequestRefused`` for a client that is not let in.
    """
    user = message.params.get("user", "")
    if not user:
        raise RequestRefused("no user name in the startup message", "no_user", "28000")
    if admission.tls_required and not stream.encrypted:
        raise RequestRefused(
            "this server takes TLS connections alone", "tls_required", "28000", "connect with sslmode=require"
        )
    if admission.users is not None and not await _proves(
        stream, ScramExchange(admission.users.of(user)), user, limits
    ):
        return None
    await stream.write(wire.AUTHENTICATED)
    return Client(user, message.params.get("database", user), message.protocol_version, dict(message.params))


async def _proves(stream: ClientStream, exchange: ScramExchange, user: str, limits: ServeLimits) -> bool:
    """Return ``True`` once the client has proved that it knows the password; ``False`` if it is gone.

    Raises ``RequestRefused`` for a wrong password, and ``WireBroken`` for another message.
    """
    length_of = partial(wire.frame_bytes, most_bytes=limits.startup_bytes)
    await stream.write(wire.sasl_request(MECHANISM))
    frame = await stream.read(length_of)
    if frame is None:
        return False
    first = wire.read_message(frame, wire.SASL_FIRST)
    if not isinstance(first, wire.SASLInitialResponse) or first.mechanism != MECHANISM:
        raise WireBroken(
            f"A login by {MECHANISM} is waited for, and something else came: the connection ends"
        )
    await stream.write(wire.sasl_continue(exchange.first(first.data)))
    frame = await stream.read(length_of)
    if frame is None:
        return False
    last = wire.read_message(frame, wire.SASL_FINAL)
    if not isinstance(last, wire.SASLResponse):
        raise WireBroken(
            "A proof of the password is waited for, and something else came: the connection ends"
        )
    answer = exchange.final(last.data)
    if answer is None:
        raise RequestRefused(
            f'password authentication failed for user "{user[:60]}"', "wrong_password", "28P01"
        )
    await stream.write(wire.sasl_final(answer))
    return True
