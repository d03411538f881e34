"""Tables that the warehouse loader made, against the history of the store that the rows are from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sim.log.history import History
from tidegate.hlc import ZERO, Timestamp
from tidegate.rows import Datum, TableCodec, TableDescriptor
from tidegate.rows.catalog import Catalog
from tidegate.rows.types import Kind
from tidegate.spark.warehouse.buckets import BucketEnd, Buckets
from tidegate.spark.warehouse.snapshots import Warehouse

_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TrueTable:
    """A table as the store knows it: every version of its rows, and of its descriptor.

    ``scanned_at`` is the start of a feed that begins with a scan. The rows of the scan have it as their
    timestamp.
    """

    topic: str
    versions: Sequence[TableDescriptor]
    history: History
    scanned_at: Timestamp = ZERO

    @property
    def columns(self) -> list[str]:
        """The columns of all versions, in the order in which they came."""
        return list(dict.fromkeys(column.name for each in self.versions for column in each.columns))

    def rows(self, at: Timestamp) -> list[dict[str, Any]]:
        """The rows that were alive at a time, as pyarrow gives those of a loaded table."""
        catalog = Catalog()
        for descriptor in self.versions:
            catalog.add(descriptor)
        found = []
        for version in self.history.as_of(at, self.versions[0].id).values():
            codec = catalog.at(version.table_id, version.timestamp)
            found.append(
                self._row(codec, version.key, version.value) | _stamp(max(version.timestamp, self.scanned_at))
            )
        return _sorted(found)

    def _row(self, codec: TableCodec, key: bytes, value: bytes) -> dict[str, Any]:
        row = codec.decode(key, value)
        assert row is not None
        assert row.values is not None
        shown = [column for column in codec.descriptor.columns if column.in_rows]
        known = {
            column.name: _loaded(column.type.kind, datum)
            for column, datum in zip(shown, row.values, strict=True)
        }
        return {name: known.get(name) for name in self.columns}


def every_closed_bucket(root: str, buckets: Buckets) -> Iterable[Timestamp]:
    """Return the times at which tables can be read."""
    house = Warehouse(root)
    for bucket in range(house.first.wall, house.closed.wall + 1, buckets.length_ns):
        yield Timestamp(BucketEnd(bucket))


def loaded_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table of current rows."""
    return _sorted(table.to_pylist())


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["_wall"], row["_logical"], repr(sorted(row.items()))))


def _stamp(timestamp: Timestamp) -> dict[str, int]:
    return {"_wall": timestamp.wall, "_logical": timestamp.logical}


def _loaded(kind: Kind, datum: Datum) -> Any:
    match kind, datum:
        case _, None:
            return None
        case Kind.DATE, int():
            return date(1970, 1, 1) + timedelta(days=datum)
        case Kind.TIMESTAMP, int():
            return _EPOCH + timedelta(microseconds=datum // 1_000)
        case Kind.TIMESTAMPTZ, int():
            return (_EPOCH + timedelta(microseconds=datum // 1_000)).replace(tzinfo=UTC)
        case Kind.DECIMAL, Decimal():
            return datum
        case Kind.BOOL | Kind.INT | Kind.FLOAT | Kind.STRING, _:
            return datum
    raise NotImplementedError(f"{kind} has no form here")
