"""JSON objects as templates that are made once for a table version and filled once for each row.

A row's datums come as one tuple: those of its columns (in the order of ``columns.py``), then its primary
key's datums and its timestamps. So every slot is a position in that tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from tidegate.changefeed.encoding.row_templates import Member, Slot
from tidegate.changefeed.text.json_text import TextEncoder, json_string
from tidegate.hlc import Timestamp
from tidegate.rows.row import Row

#: A row's datums, followed by the result of ``beside``.
Datums: TypeAlias = tuple[Any, ...]

#: The position of the primary key's datums.
KEY: Final = -3
#: The position of the version's own timestamp.
MVCC: Final = -2
#: The position of the timestamp that records call ``updated``: for a row that a scan found, that of the scan.
UPDATED: Final = -1

NULL: Final = "null"


def beside(row: Row, timestamp: Timestamp) -> Datums:
    """Return the three entries after a row's datums: its key's datums, and the timestamps of `MVCC` and
    `UPDATED`.

    ``timestamp`` is the version's own.
    """
    return row.key, timestamp, row.updated(timestamp)


class MemberText:
    """Prints a tuple of datums by a template: the printer of a slot whose value has a template of its own."""

    __slots__ = ("_fill", "member")

    def __init__(self, member: Member) -> None:
        self.member = member
        self._fill = compile_template(member)

    def __call__(self, datums: Datums) -> str:
        return self._fill(datums)


def json_object(name: str, members: Iterable[Member]) -> Member:
    """Return an object as a member of another one. Its own members are sorted bytewise by name."""
    # Code point order is UTF-8 byte order.
    ordered = sorted(members, key=lambda member: member.name)
    body = ", ".join(f"{_literal(json_string(member.name))}: {member.template}" for member in ordered)
    return Member(name, f"{{{body}}}", tuple(slot for member in ordered for slot in member.slots))


def constant(name: str, text: str) -> Member:
    """Return a member with the same JSON text in every record."""
    return Member(name, _literal(text))


def datum(name: str, position: int, text: TextEncoder) -> Member:
    """Return a member whose value is the text of one datum, ``null`` for NULL."""
    return Member(name, "%s", (Slot(position, text),))


def enclosed(before: str, member: Member, behind: str) -> Member:
    """Return a member with text before and after its value."""
    return member._replace(template=f"{_literal(before)}{member.template}{_literal(behind)}")


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def literals(member: Member) -> list[str]:
    """Return the text around a member's slots: one piece before each slot, and one after the last."""
    filled = member.template % (("\0",) * len(member.slots))
    return filled.split("\0")  # JSON text has no such character: it is always escaped


def compile_template(member: Member) -> Callable[[Datums], str]:
    """Return a function that fills the template of a member's value."""
    template, slots = member.template, member.slots

    def fill(datums: Datums) -> str:
        return template % tuple(
            [NULL if (datum := datums[at]) is None else text(datum) for at, text in slots]
        )

    return fill
