"""Protobuf messages changed by their fields: they parse, and say what no sender would say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.mutators import damaged

_Place: TypeAlias = tuple[Message, Any]

_INTEGERS: Final = (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**62)
_BYTES: Final = (b"", b"\x00", b"\xff" * 16, b"\xff" * 70, b"x" * 5_000)
_TEXTS: Final = ("", "x", "\0", "\U0010ffff", "'\";", "x" * 5_000)
_FLOATS: Final = (0.0, -0.0, float("nan"), float("inf"), 5e-324, 1.7e308)


def altered(chance: Random, message: Message) -> bytes:
    """The message's bytes once a few of its fields, at any depth, have other values. It is changed itself."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder, field = chance.choice(list(_places(message)))
        _alter(chance, holder, field)
    return message.SerializeToString()


def _places(message: Message) -> Iterator[_Place]:
    """Every field, also those that are not set, of the message and of those in it."""
    for field in message.DESCRIPTOR.fields:
        yield message, field
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                yield from _places(each)


def _alter(chance: Random, holder: Message, field: FieldDescriptor) -> None:
    if field.is_repeated:
        _alter_list(chance, getattr(holder, field.name), field)
    elif chance.random() < 0.1:
        holder.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(holder, field.name).SetInParent()
    else:
        setattr(holder, field.name, _scalar(chance, field, getattr(holder, field.name)))


def _alter_list(chance: Random, items: Any, field: FieldDescriptor) -> None:
    count = len(items)
    if count and chance.random() < 0.4:
        del items[chance.randrange(count)]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        times = chance.choice((1, 1, 2, 30))
        like = items[chance.randrange(count)] if count else None
        for _ in range(times):
            added = items.add()
            if like is not None:
                added.CopyFrom(like)
    elif count and chance.random() < 0.5:
        at = chance.randrange(count)
        items[at] = _scalar(chance, field, items[at])
    else:
        items.append(_scalar(chance, field, items[0] if count else _zero(field)))


def _scalar(chance: Random, field: FieldDescriptor, now: Any) -> Any:
    return _DRAWS[field.cpp_type](chance, now)


def _zero(field: FieldDescriptor) -> Any:
    if field.cpp_type != FieldDescriptor.CPPTYPE_STRING:
        return 0
    return "" if field.type == FieldDescriptor.TYPE_STRING else b""


def _integer(low: int, high: int) -> Callable[[Random, Any], int]:
    ends = [each for each in _INTEGERS if low <= each <= high]

    def draw(chance: Random, now: Any) -> int:
        near = int(now) + chance.choice((-1, 1))
        return near if low <= near <= high and chance.random() < 0.3 else chance.choice(ends)

    return draw


def _string(chance: Random, now: Any) -> Any:
    """Draw a text, or bytes: protobuf has one type for both."""
    if isinstance(now, str):
        return chance.choice(_TEXTS)
    return damaged(chance, now) if chance.random() < 0.5 else chance.choice(_BYTES)


_DRAWS: Final[dict[int, Callable[[Random, Any], Any]]] = {
    FieldDescriptor.CPPTYPE_INT32: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: _integer(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _integer(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_BOOL: lambda _, now: not now,
    FieldDescriptor.CPPTYPE_DOUBLE: lambda chance, _: chance.choice(_FLOATS),
    FieldDescriptor.CPPTYPE_FLOAT: lambda chance, _: chance.choice(_FLOATS[:-1]),
    FieldDescriptor.CPPTYPE_STRING: _string,
}
