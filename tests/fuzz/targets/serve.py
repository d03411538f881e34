"""Inputs from clients of the server of subscriptions: PostgreSQL's messages, logins, commands."""

from __future__ import annotations

import contextlib
import struct
from random import Random
from typing import Final

from tests.fuzz.mutators import damaged, reworded, text_bytes
from tests.fuzz.target import Target, require
from tidegate.errors import RequestRefused, WireBroken
from tidegate.serve.postgres import wire
from tidegate.serve.postgres.commands import read_command
from tidegate.serve.postgres.scram import ScramExchange, make_verifier
from tidegate.serve.postgres.sql_words import statements

_MOST_BYTES: Final = 10_000
_PHASES: Final = (wire.SASL_FIRST, wire.SASL_FINAL, wire.QUERIES)
_FIRST: Final = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
_FINAL: Final = b"c=biws,r=rOprNGfwEbeRWgbNEkqOours,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
_VERIFIER: Final = make_verifier("hush", b"salt", iterations=1)

_FRAMES: Final = tuple(
    message.to_wire()
    for message in (
        wire.Query(query_string="SUBSCRIBE t"),
        wire.Parse(statement="s", query="SUBSCRIBE t", param_types=[23]),
        wire.Bind(portal="p", statement="s", param_values=[b"1", None], result_formats=[0, 1]),
        wire.Describe(kind="P", name="p"),
        wire.Execute(portal="p", max_rows=9),
        wire.Close(kind="S", name="s"),
        wire.Sync(),
        wire.FunctionCall(function_oid=1, arguments=[b"x"]),
        wire.SASLInitialResponse(mechanism="SCRAM-SHA-256", data=_FIRST),
        wire.SASLResponse(data=_FINAL),
    )
)
_PACKETS: Final = (
    wire.StartupMessage(params={"user": "ada", "database": "bank", "_pq_.x": "1"}).to_wire(),
    wire.SSLRequest().to_wire(),
    wire.CancelRequest(7, b"1234").to_wire(),
    struct.pack("!II", 8, 0x0003_FFFF),
)
_COMMANDS: Final = (
    "COPY (SUBSCRIBE (SELECT a FROM t)) TO STDOUT WITH (FORMAT text)",
    "BEGIN; DECLARE \"c\" NO SCROLL CURSOR WITHOUT HOLD FOR SUBSCRIBE t; FETCH ALL c WITH (timeout = '1s')",
    "SET a.b = 'x''y', z; SHOW COLUMNS FROM a.\"b\"; SELECT 1 AS x, pg_catalog.version(); CLOSE ALL",
)
_WORDS: Final = (
    *("SUBSCRIBE", "COPY", "TO", "STDOUT", "FETCH", "ALL", "WITH", "timeout", "SET", "SHOW", "SELECT", "NO"),
    *(
        "(",
        ")",
        ",",
        ".",
        "=",
        "'",
        "''",
        '"',
        ";",
        "--",
        "/*",
        "*/",
        "$1",
        "9" * 5_000,
        "x" * 5_000,
        "\0",
        "é",
    ),
)


def _take_frame(data: bytes) -> None:
    length = wire.frame_bytes(data, _MOST_BYTES)
    if length is not None and len(data) >= length:
        for phase in _PHASES:
            with contextlib.suppress(WireBroken):
                wire.read_message(data[:length], phase)


def _take_packet(data: bytes) -> None:
    length = wire.startup_bytes(data, _MOST_BYTES)
    if length is not None and len(data) >= length:
        wire.read_startup(data[:length])


def _take_login(data: bytes) -> None:
    first, _, final = data.partition(b"\n")
    exchange = ScramExchange(_VERIFIER, b"ours")
    exchange.first(first)
    require(exchange.final(final) is None, "a login without the password was let in")


def _take_commands(data: bytes) -> None:
    for statement in statements(data.decode(errors="replace")):  # what is no UTF-8 is refused before
        read_command(statement)


def _command(chance: Random) -> bytes:
    return text_bytes(reworded(chance, chance.choice(_COMMANDS), _WORDS))


TARGETS: Final = (
    Target(
        "wire-messages", lambda chance: damaged(chance, chance.choice(_FRAMES)), _take_frame, (WireBroken,)
    ),
    Target(
        "wire-packets", lambda chance: damaged(chance, chance.choice(_PACKETS)), _take_packet, (WireBroken,)
    ),
    Target(
        "wire-logins", lambda chance: damaged(chance, _FIRST + b"\n" + _FINAL), _take_login, (RequestRefused,)
    ),
    Target("wire-commands", _command, _take_commands, (RequestRefused,)),
)
