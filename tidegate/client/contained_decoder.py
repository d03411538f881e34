"""A decoder of output records for commands: no exception of it ends a command (docs/security.md, step U8)."""

from __future__ import annotations

from tidegate.changefeed.encoding.record import Headers, Record, RecordDecoder
from tidegate.errors import MalformedRecord, TidegateError
from tidegate.processor.containment import unforeseen


class ContainedDecoder:
    """A decoder that turns every unforeseen exception of ``decoder`` into ``MalformedRecord``."""

    def __init__(self, decoder: RecordDecoder) -> None:
        self._decoder = decoder

    @property
    def tombstones(self) -> bool:
        """See ``RecordDecoder``."""
        return self._decoder.tombstones

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """See ``RecordDecoder``."""
        try:
            return self._decoder.decode(key, value, headers)
        except TidegateError:
            raise
        except Exception as error:
            raise MalformedRecord(unforeseen(error)) from error
