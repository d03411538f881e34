"""ENUM datums: they are labels in rows, and physical bytes in keys and values.

Keys hold the bytes because these sort in the order of the enum's members. Source: CockroachDB
docs/RFCS/20200331_enums.md.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import EncodingError
from tidegate.rows.types import EnumMember, SqlType


def physical_of(enum_type: SqlType) -> Callable[[str], bytes]:
    """Return a function from label to physical bytes. It raises `EncodingError` for an unknown label."""
    physical = {member.label: member.physical for member in enum_type.members}

    def encode(label: str) -> bytes:
        try:
            return physical[label]
        except KeyError:
            raise EncodingError(f"{label!r} is no label of the enum {enum_type.name or 'type'}") from None

    return encode


def label_of(enum_type: SqlType) -> Callable[[bytes], str]:
    """Return a function from physical bytes to label. It raises `EncodingError` for unknown bytes."""
    labels = {member.physical: member.label for member in enum_type.members}

    def decode(physical: bytes) -> str:
        try:
            return labels[physical]
        except KeyError:
            raise EncodingError(
                f"0x{physical.hex()} stands for no label of the enum {enum_type.name or 'type'} "
                "in this version of the table"
            ) from None

    return decode


def members_from_labels(labels: list[str]) -> tuple[EnumMember, ...]:
    """Return members with evenly spaced two-byte physical values, in the order of the labels.

    For example, three labels get ``4000``, ``8000`` and ``c000``.
    """
    step = 2**16 // (len(labels) + 1)
    return tuple(EnumMember((step * i).to_bytes(2, "big"), label) for i, label in enumerate(labels, 1))
