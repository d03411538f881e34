"""SQL names as names of Kafka topics and of Avro records and fields.

A character that is not allowed becomes ``_u<hex>_``. Text that already looks like that is escaped too, so
that the SQL name can be read back. Source: CockroachDB ``pkg/ccl/changefeedccl/name.go`` and ``topic.go``.

Two kinds of names cannot be read back, as in CockroachDB: names that were cut, and names with text like
``_u21`` directly before an escaped character. ``_u21!`` becomes ``_u21_u0021_``, which reads as ``!`` and
``u0021_``.
"""

from __future__ import annotations

import re
from typing import Final

from tidegate.changefeed.definition.quoted_value import quoted

#: Kafka's own limit. A longer name is cut, and cannot be read back.
TOPIC_NAME_LIMIT: Final = 249

_ESCAPE: Final = re.compile(r"_u[0-9a-fA-F]{2,8}_")
_NOT_KAFKA: Final = re.compile(r"[^a-zA-Z0-9._-]")
_NOT_AVRO: Final = re.compile(r"[^A-Za-z0-9_]")
_AVRO_NAMESPACE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def topic_name(prefix: str, table_name: str) -> str:
    """Return the topic of a table: the prefix and the name, escaped together."""
    return kafka_name(prefix + table_name)


def kafka_name(sql_name: str) -> str:
    """Return a topic name: letters, digits, ``.``, ``_`` and ``-`` stay; at most 249 characters."""
    if sql_name in (".", ".."):
        return _escape_all(sql_name)
    return _escape(sql_name, _NOT_KAFKA)[:TOPIC_NAME_LIMIT]


def is_topic_name(name: str) -> bool:
    """Return whether Kafka accepts the name for a topic as it is."""
    return 0 < len(name) <= TOPIC_NAME_LIMIT and name not in (".", "..") and not _NOT_KAFKA.search(name)


def avro_name(sql_name: str) -> str:
    """Return an Avro record or field name: letters, digits and ``_`` stay, but a leading digit is escaped."""
    if sql_name[:1] in set("0123456789"):
        return _escape_all(sql_name[0]) + _escape(sql_name[1:], _NOT_AVRO)
    return _escape(sql_name, _NOT_AVRO)


def avro_namespace_fault(namespace: str) -> str:
    """Return why this cannot be an Avro namespace, and what to do.

    Return an empty text if it can be a namespace, or if it is empty.
    """
    if not namespace or _AVRO_NAMESPACE.fullmatch(namespace):
        return ""
    return (
        f"avro_schema_prefix={quoted(namespace)} cannot be an Avro namespace, which is letters, digits and "
        "underscores with single dots between names, none of which begins with a digit: create the feed "
        "with another prefix"
    )


def sql_name(escaped: str) -> str:
    """Return the SQL name of a topic or Avro name that was not cut."""
    return _ESCAPE.sub(lambda match: _unescaped(match[0]), escaped)


def _escape(name: str, not_allowed: re.Pattern[str]) -> str:
    reversible = _ESCAPE.sub(lambda match: _escape_all(match[0]), name)
    return not_allowed.sub(lambda match: _escape_all(match[0]), reversible)


def _escape_all(text: str) -> str:
    return "".join(_escaped(ord(character)) for character in text)


def _escaped(code_point: int) -> str:
    # U+10000 gets five digits and not eight, as in CockroachDB, whose limit is one too high.
    return f"_u{code_point:04x}_" if code_point <= 0x10000 else f"_u{code_point:08x}_"


def _unescaped(escape: str) -> str:
    code_point = int(escape[2:-1], 16)
    return chr(code_point) if code_point <= 0x10FFFF else escape
