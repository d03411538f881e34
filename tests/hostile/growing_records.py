"""Records of output topics of about n bytes for their readers, each the worst of its kind that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tests.hostile.corpus.case import AVRO
from tests.hostile.corpus.output_records import avro_decimal
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for

Work: TypeAlias = Callable[[], object]


def growing_records() -> Iterator[tuple[str, Callable[[int], Work]]]:
    """What to call each, and what makes the work on a record of about n bytes."""
    yield from _RECORDS.items()


def _decoded(options: FeedOptions, key: bytes, value: bytes | None, schema: str = "") -> Work:
    decoder = decoder_for(options, lambda _: schema)
    return lambda: decoder.decode(key, value)


def _one_decimal(size: int) -> Work:
    key, schema = avro_decimal(size)
    return _decoded(AVRO, key, None, schema)


_RECORDS: Final[dict[str, Callable[[int], Work]]] = {
    "an Avro decimal": _one_decimal,
}
