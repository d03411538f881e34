"""The headers of a record that librdkafka has read, whatever bytes their names are.

Kafka takes any bytes as the name of a header. The Python client decodes names strictly. For a name that is no
UTF-8 it sets an exception and returns a list with a hole all the same. A call from C notices that, and raises
``SystemError``. A call that Python's interpreter makes itself may not notice, and whatever touches the list
then ends the process. The client gives the same list to everybody who asks again. So a message is asked once,
and from C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, Final, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

#: What is returned for a record whose headers cannot be read.
_UNREADABLE: Final[Headers] = (("\ufffd", None),)
_ask: Final[Callable[[Any], Headers | None]] = methodcaller("headers")


def record_headers(message: Any) -> Headers:
    """Return the headers of a message of the client, in their order. Ask once for each message.

    A record with a header whose name is no UTF-8 has the only header ``("\\ufffd", None)``: the client tells
    none of its headers. tidegate writes no such record.
    """
    try:
        return _ask(message) or ()
    except (SystemError, UnicodeDecodeError):
        return _UNREADABLE


def headers_once(messages: Sequence[Any]) -> Callable[[int], Headers]:
    """Return a function that returns the headers of the message at a position. It may be called several
    times."""
    known: dict[int, Headers] = {}

    def headers(at: int) -> Headers:
        if at not in known:
            known[at] = record_headers(messages[at])
        return known[at]

    return headers
