"""The headers of a record that librdkafka has read, whatever bytes their names are.

Kafka takes any bytes as the name of a header. The Python client decodes names strictly, and raises
``SystemError`` when a message with such a name is asked for its headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

#: What a record has whose headers cannot be read.
_UNREADABLE: Final = (("\ufffd", None),)


def record_headers(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """Return the headers of a message of the client, in their order.

    A record with a header whose name is no UTF-8 has the only header ``("\\ufffd", None)``: the client tells
    none of the others. No record of ours is such a one.
    """
    try:
        return message.headers() or ()
    except (SystemError, UnicodeDecodeError):
        return _UNREADABLE
