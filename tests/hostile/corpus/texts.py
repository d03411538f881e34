"""Statements, and messages of the control topic: each is refused by name."""

from __future__ import annotations

from typing import Final, NamedTuple

_MANY_DIGITS: Final = "1" * 5_000
_HALF: Final = "\udcff"
_HALF_BROKE: Final = "No bytes stand for it: UnicodeEncodeError where the definition was measured."


class Options(NamedTuple):
    """The options of a statement."""

    name: str
    broke: str
    text: str


class Message(NamedTuple):
    """The value of a record of the control topic."""

    name: str
    broke: str
    value: bytes


STATEMENTS: Final = (
    Options("key_column of half a character", _HALF_BROKE, f"unordered, key_column='{_HALF}'"),
    Options("topic_prefix of half a character", _HALF_BROKE, f"topic_prefix='{_HALF}'"),
    Options(
        "headers_json_column_name of half a character", _HALF_BROKE, f"headers_json_column_name='{_HALF}'"
    ),
    Options("half a character among options", _HALF_BROKE, _HALF),
    Options(
        "a cursor of 5,000 digits",
        "Python makes no number of more than 4,300 digits: ValueError without a name.",
        f"cursor='{_MANY_DIGITS}'",
    ),
    Options("a cursor of 5,000 digits of seconds", "As the cursor of digits.", f"cursor='-{_MANY_DIGITS}s'"),
    Options("resolved of 5,000 digits of seconds", "As the cursor of digits.", f"resolved='{_MANY_DIGITS}s'"),
    Options(
        "max_row_bytes of 5,000 digits",
        "As the cursor of digits.",
        f"on_oversize='key_only', max_row_bytes='{_MANY_DIGITS}'",
    ),
    Options(
        "extra_headers nested 5,000 deep",
        "JSON is read by recursion.",
        "extra_headers='" + '{"a":' * 5_000 + "1" + "}" * 5_000 + "'",
    ),
    Options(
        "key_column of 900 KB",
        "A feed with such a one had a row of state of 1.8 MB: every worker ended, again at each start.",
        f"unordered, key_column='{'k' * 900_000}'",
    ),
    Options(
        "key_column of 400 KB",
        "As the one of 900 KB, but its control message of 800 KB still fits into one record.",
        f"unordered, key_column='{'k' * 400_000}'",
    ),
    Options(
        "a line of 400,000 colons",
        "The search for a password to hide in the error began anew at each colon: more than an hour.",
        ":" * 400_000,
    ),
    Options(
        "a certificate with a letter that is not ASCII",
        "Python's base 64 has another error for such a letter: ValueError without a name.",
        "format='avro', confluent_schema_registry='https://r?ca_cert=\u00e9'",
    ),
)

_NUMBER_BROKE: Final = "OverflowError or ValueError without a name ended the reader."
_SHAPE_BROKE: Final = "AttributeError or TypeError without a name ended the reader."
MESSAGES: Final = (
    Message("100,000 brackets", "RecursionError ended the reader.", b"[" * 100_000),
    Message("20,000 members in members", "RecursionError ended the reader.", b'{"v":5,"kind":' * 20_000),
    Message("a version beyond all floats", _NUMBER_BROKE, b'{"v":1e999,"kind":"register"}'),
    Message("a version of 5,000 digits", _NUMBER_BROKE, b'{"v":' + b"9" * 5_000 + b"}"),
    Message("a kind that is a list", _SHAPE_BROKE, b'{"v":5,"kind":["register"]}'),
    Message("a definition that is a list", _SHAPE_BROKE, b'{"v":5,"kind":"register","definition":[]}'),
    Message(
        "options that are a number", _SHAPE_BROKE, b'{"v":5,"kind":"register","definition":{"options":7}}'
    ),
    Message("half a character", "It could be read, and not be stored again.", b'{"v":5,"kind":"\\udcff"}'),
    Message("half a character in capitals", "As half a character.", b'{"v":5,"kind":"\\uDCFF"}'),
    Message("bytes that are no text", _SHAPE_BROKE, b"\xff"),
    Message("a number", _SHAPE_BROKE, b"7"),
    Message("nothing", _SHAPE_BROKE, b""),
)
