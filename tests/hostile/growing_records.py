"""Records of output topics of about n bytes for their readers, each the worst of its kind that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tests.hostile.corpus.case import AVRO
from tests.hostile.corpus.output_records import CSV, avro_decimal
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for

Work: TypeAlias = Callable[[], object]


def growing_records() -> Iterator[tuple[str, Callable[[int], Work]]]:
    """Yield what to call each, and what makes the work on a record of about n bytes."""
    yield from _RECORDS.items()


def _decoded(options: FeedOptions, key: bytes, value: bytes | None, schema: str = "") -> Work:
    decoder = decoder_for(options, lambda _: schema)
    return lambda: decoder.decode(key, value)


def _one_decimal(size: int) -> Work:
    key, schema = avro_decimal(size)
    return _decoded(AVRO, key, None, schema)


def _csv(line: Callable[[int], str]) -> Callable[[int], Work]:
    return lambda size: _decoded(CSV, b"", line(size).encode())


_RECORDS: Final[dict[str, Callable[[int], Work]]] = {
    "an Avro decimal": _one_decimal,
    "a CSV row of commas": _csv(lambda n: "," * n),
    "a CSV row of letters": _csv(lambda n: "x" * n),
    "a CSV row of quotes": _csv(lambda n: '"' * (n // 2 * 2)),
    "a CSV row of empty quotes": _csv(lambda n: '"",' * (n // 3)),
    "a CSV row of an open quote": _csv(lambda n: '"' * (n // 2 * 2 + 1)),
    "a CSV row of line ends": _csv(lambda n: "\n" * n + "x"),
}
