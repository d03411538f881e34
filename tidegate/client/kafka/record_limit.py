"""The largest record that an engine's producers of rows take, and what a person does about a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import Engine
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.oversize import RECORD_ROOM


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """``max_bytes`` is the limit, ``name`` what people know it by, ``mend`` how larger records get out."""

    max_bytes: int
    name: str
    mend: str

    def fault(self, options: FeedOptions) -> str:
        """Why the producers cannot take a feed's rows, or nothing.

        A feed that leaves large rows out must not fail by one that is below its own limit.
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
    """The limit of workers with this setting."""
    return RecordLimit(max_record_bytes, "max_record_bytes", "raise max_record_bytes of the workers")


#: Nothing sets it: librdkafka's default.
LIMIT_OF_SPARK: Final = RecordLimit(
    1_000_000,
    "what the producers of a Spark query take",
    "run the feed on workers with a higher max_record_bytes",
)


def known_fault(options: FeedOptions, engine: Engine) -> str:
    """Why the engine's producers cannot take a feed's rows, or nothing. Only workers know their own limit."""
    return "" if engine is Engine.WORKERS else LIMIT_OF_SPARK.fault(options)
