"""The largest record that an engine's row producers accept, and what a person can do about a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import Engine
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import RECORD_ROOM


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """A limit of ``max_bytes`` for each record.

    ``name`` is what people call it; ``mend`` says how larger records can be written.
    """

    max_bytes: int
    name: str
    mend: str

    def fault(self, options: FeedOptions) -> str:
        """Return why the producers cannot write all of a feed's rows; an empty text if they can.

        Only a feed that leaves out large rows is checked. It must not fail because of a row that is below its
        own limit.
        """
        if options.on_oversize is not OnOversize.KEY_ONLY:
            return ""
        if options.max_row_bytes + RECORD_ROOM <= self.max_bytes:
            return ""
        return (
            f"the feed's rows may have {options.max_row_bytes} bytes (max_row_bytes), and with {RECORD_ROOM} "
            f"more for what stands around a row that is above {self.name}, {self.max_bytes}: {self.mend}, or "
            "create the feed with a lower max_row_bytes"
        )


def limit_of_workers(max_record_bytes: int) -> RecordLimit:
    """Return the limit of workers with this setting."""
    return RecordLimit(max_record_bytes, "max_record_bytes", "raise max_record_bytes of the workers")


#: librdkafka's default, which no setting changes.
LIMIT_OF_SPARK: Final = RecordLimit(
    1_000_000,
    "what the producers of a Spark query take",
    "run the feed on workers with a higher max_record_bytes",
)


def known_fault(options: FeedOptions, engine: Engine) -> str:
    """Return why the engine's producers cannot write a feed's rows; an empty text if they can.

    For workers the text is empty too, since only the workers themselves know their limit.
    """
    return "" if engine is Engine.WORKERS else LIMIT_OF_SPARK.fault(options)
