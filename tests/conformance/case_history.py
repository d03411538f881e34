"""The history that a store would have of a changefeed case's writes: commits at rising timestamps.

Times. A write has the time that the case gives it: explicit (``1.0000000002``), or by a name (``T1``) which
expectations repeat as ``<T1>``; a write without one comes a second after the last.

The start of the feed. Where a feed begins with a scan, the log holds of each row that was written before
``start_feed`` only the version that the scan would find, and as the first version of its row. The conformance
run answers the feed's scan with it (``CaseLog.answer``), at the time of the last write before ``start_feed``.
In runs over an engine whose source answers nothing, the feed has no scan and begins at the beginning of its
log; what that shows is only that such rows come out, before and apart from the later changes, in the feed's
format. With ``initial_scan='no'`` the log holds every version, and the feed starts at the last of those
before ``start_feed``.

A feed with a cursor at a write's time is as one that was created right behind that write: the store has kept
what came after it. So is a feed whose start is said to be at that time.

Schema changes. A change before a scan is one that the table always had: the scan reads rows as they are then.
Any other is a new version of the table in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.conformance.case import Case, NotClaimed
from tests.conformance.case_ddl import (
    AddLabel,
    Alteration,
    AlterTable,
    DropColumn,
    OfType,
    RenameLabel,
    RenameType,
    read_ddl,
)
from tests.conformance.case_intents import Intent, IntentOp, RowVersion
from tests.conformance.case_rows import CaseRows, RowKey
from tests.conformance.case_tables import CaseTable
from tests.conformance.case_workload import expanded
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp, parse_decimal
from tidegate.rows import Datum

_Write: TypeAlias = dict[str, Any]
_CLOSED: Final = frozenset({IntentOp.COMMITTED, IntentOp.ABORTED, IntentOp.ABORTED_WITH_TXN})
#: A cursor below all writes.
BEFORE_ALL: Final = "<start>"
#: Members of a write that say something, by its op; what is not here would be passed over in silence.
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "insert": frozenset({"table", "rows", "ts"}),
    "upsert": frozenset({"table", "rows", "ts"}),
    "insert_sql": frozenset({"table", "values", "columns", "ts"}),
    "update": frozenset({"table", "key", "where", "set", "ts"}),
    "insert_range": frozenset({"table", "column", "from", "to", "ts"}),
    "update_pk": frozenset({"table", "from", "to", "ts"}),
    "delete": frozenset({"table", "keys", "key", "where", "prev", "ts"}),
    "txn": frozenset({"writes", "ts"}),
    "resolve": frozenset({"ts"}),
    "wait_resolved": frozenset({"n", "ts"}),
    "inject": frozenset({"fault", "ts"}),
    "intent": frozenset({"table", "row", "key", "txn", "ts"}),
    "update_intent": frozenset({"txn", "ts"}),
    "commit_intent": frozenset({"table", "key", "txn", "ts"}),
    "abort_intent": frozenset({"table", "key", "txn", "ts"}),
    "abort_txn": frozenset({"txn", "ts"}),
    "write_value": frozenset({"table", "row", "key", "ts"}),
    "delete_range": frozenset({"table", "ts"}),
    "closed": frozenset({"ts"}),
    "ddl": frozenset({"sql", "ts"}),
}
#: Ops of the groups that are not claimed.
_NOT_CLAIMED: Final = frozenset(
    {"restart_feed", "pause", "resume", "alter", "crash", "restart", "set_offline"}
)


@dataclass(frozen=True, slots=True)
class Commit:
    """Versions that became visible at one timestamp; ``in_transaction`` for those of an explicit one."""

    timestamp: Timestamp
    versions: tuple[RowVersion, ...]
    in_transaction: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Everything at or below the timestamp is written."""

    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: the records after it are read once in vain."""


@dataclass(frozen=True, slots=True)
class Redefine:
    """The table has a new version, from the timestamp that it names."""

    table: CaseTable


@dataclass(frozen=True, slots=True)
class Erase:
    """A tombstone over all rows of a table, which a log has in place of deletions."""

    table_id: int
    timestamp: Timestamp


Step: TypeAlias = Commit | Intent | Close | Fault | Redefine | Erase


@dataclass(frozen=True, slots=True)
class History:
    """The steps of a case, the feed's start (exclusive), and what the case calls its timestamps.

    ``scan_at`` is when the feed was created, which is the time of its scan. ``tables`` are the versions that
    the log begins with, ``fed`` those at the feed's creation.
    """

    tables: tuple[CaseTable, ...]
    fed: tuple[CaseTable, ...]
    steps: tuple[Step, ...]
    start: Timestamp
    scan_at: Timestamp
    names: Mapping[str, Timestamp]
    end: Timestamp

    @property
    def versions(self) -> int:
        """The number of versions of rows that the feed has to emit."""
        return sum(timestamp > self.start for timestamp, _ in self.visible())

    @property
    def scanned(self) -> int:
        """The number of those that there were when the feed was created."""
        return sum(timestamp <= self.scan_at for timestamp, _ in self.visible())

    @property
    def last_commit(self) -> Timestamp:
        """The highest timestamp of a version."""
        return max((timestamp for timestamp, _ in self.visible()), default=ZERO)

    def open_intents(self) -> int:
        """Return how many intents were neither committed nor aborted."""
        ops = [step.op for step in self.steps if isinstance(step, Intent)]
        return ops.count(IntentOp.WRITTEN) - sum(op in _CLOSED for op in ops)

    def visible(self) -> Iterator[tuple[Timestamp, RowVersion]]:
        """Yield the committed versions, in the order in which they were written, with their timestamps."""
        for step in self.steps:
            match step:
                case Commit(timestamp, versions):
                    yield from ((timestamp, version) for version in versions)
                case Intent(timestamp, version, op=IntentOp.COMMITTED):
                    yield timestamp, version


def read_history(
    case: Case, tables: Mapping[str, CaseTable], *, origin: Timestamp, scans: bool, rounded: bool
) -> History:
    """The history of a case's writes.

    Time begins at ``origin``, which is added to explicit timestamps. ``scans`` is whether the feed
    begins with a scan; ``rounded`` whether decimals are stored as SQL would.
    """
    reader = _Reader(dict(tables), origin, rounded=rounded)
    writes = _started_at_cursor(case)
    first = fed = tuple(tables.values())
    start = scan_at = ZERO
    steps: list[Step] = []
    for write in writes:
        if write["op"] == "start_feed":
            reader.started = True
            if scans:
                reader.forget_versions()
                steps = _found_by_scan(steps, reader.rows.committed)
            fed = tuple(reader.tables.values())
            first = fed if scans else first
            scan_at = reader.time(write) if "ts" in write else reader.clock
            start = ZERO if scans else scan_at
        else:
            steps += reader.steps(write)
    end = Timestamp(reader.clock.wall + NANOS_PER_SECOND)
    return History(first, fed, tuple(steps), start, scan_at, reader.names, end)


def named_times(case: Case) -> Mapping[str, Timestamp]:
    """The times that a case's writes give names to, from a beginning at zero."""
    reader = _Reader({}, ZERO, rounded=False)
    for write in case.get("writes", ()):
        if "ts" in write:
            reader.time(write)
    return reader.names


def _started_at_cursor(case: Case) -> list[_Write]:
    """The writes; where the feed's start or cursor is the time of one, it starts behind that one."""
    writes = list(expanded(case))
    starts = [write for write in writes if write["op"] == "start_feed"]
    said = {name: value for start in starts for name, value in start.items() if name in ("cursor", "ts")}
    time = said.get("ts", said.get("cursor", case.get("options", {}).get("cursor")))
    others = [write for write in writes if write not in starts]
    if time == BEFORE_ALL:
        return [*starts, *others]
    places = [i for i, write in enumerate(writes) if write.get("ts") == time and write not in starts]
    if time is None or not places or not starts:
        return writes
    before, after = writes[: places[-1] + 1], writes[places[-1] + 1 :]
    return [*before, *starts, *(write for write in after if write["op"] != "start_feed")]


def _found_by_scan(steps: Iterable[Step], rows: Mapping[RowKey, tuple[Datum, ...]]) -> list[Step]:
    """The rows that there are, at the time of their last version, as if they had had no other."""
    last: dict[RowKey, tuple[Timestamp, RowVersion]] = {}
    for step in steps:
        if isinstance(step, Commit):
            last |= {(version.table_id, version.key): (step.timestamp, version) for version in step.versions}
    found = sorted(
        ((last[row][0], last[row][1]._replace(values=values)) for row, values in rows.items() if row in last),
        key=lambda pair: pair[0],
    )
    return [Commit(timestamp, (version._replace(previous=None),)) for timestamp, version in found]


@dataclass(slots=True)
class _Reader:
    tables: dict[str, CaseTable]
    origin: Timestamp
    rounded: bool
    started: bool = False
    clock: Timestamp = field(init=False)
    names: dict[str, Timestamp] = field(default_factory=dict)
    rows: CaseRows = field(init=False)

    def __post_init__(self) -> None:
        self.clock = self.origin
        self.rows = CaseRows(self.rounded)

    def forget_versions(self) -> None:
        """The tables are as they were from the beginning."""
        self.tables = {name: table.from_the_beginning() for name, table in self.tables.items()}

    def steps(self, write: _Write) -> Iterable[Step]:
        op = write["op"]
        if op in _NOT_CLAIMED:
            raise NotClaimed(f"op {op} is not supported yet")
        _refuse_unknown(write)
        match op:
            case "ddl":
                return self._redefine(write)
            case "update_intent":
                return self.rows.intents.move(str(write["txn"]), self.time(write))
            case "abort_txn":
                return self.rows.intents.abort(str(write["txn"]), self.time(write))
            case "wait_resolved":
                return [Close(self.time(write)) for _ in range(int(write["n"]))]
        return [self._step(write)]

    def _step(self, write: _Write) -> Step:
        op = write["op"]
        match op:
            case "resolve" | "closed":
                return Close(self.time(write))
            case "intent":
                return self._intent(write)
            case "commit_intent" | "abort_intent":
                return self._closed_intent(write)
            case "inject":
                return self._fault(write)
            case "delete_range":
                return self._erase(self._only_table(write), write)
            case _:
                timestamp = self.time(write)
                writes = write["writes"] if op == "txn" else [write]
                for inner in writes:
                    if inner["op"] == "ddl":
                        raise NotClaimed("a schema change inside of a transaction is not supported yet")
                    _refuse_unknown(inner)
                return Commit(timestamp, tuple(self._transaction(writes)), in_transaction=op == "txn")

    def _erase(self, table: CaseTable, write: _Write) -> Erase:
        rows = self.rows.committed
        self.rows.committed = {row: values for row, values in rows.items() if row[0] != table.id}
        return Erase(table.id, self.time(write))

    def _intent(self, write: _Write) -> Intent:
        table = self._only_table(write)
        values = self.rows.named(table, write)
        key = table.key_of(values)
        version = RowVersion(table.id, key, values, self.rows.committed.get((table.id, key)))
        return self.rows.intents.write(Intent(self.time(write), version, str(write["txn"])))

    def _closed_intent(self, write: _Write) -> Intent:
        table = self._only_table(write)
        key = table.key(write["key"]) if "key" in write else None
        op = IntentOp.COMMITTED if write["op"] == "commit_intent" else IntentOp.ABORTED
        intent = self.rows.intents.close(str(write["txn"]), key, op, self.time(write))
        assert intent.version.values is not None
        if op is IntentOp.COMMITTED:
            self.rows.committed[intent.version.table_id, intent.version.key] = intent.version.values
        return intent

    def _only_table(self, write: _Write) -> CaseTable:
        return self._table(write["table"] if "table" in write else next(iter(self.tables)))

    def _redefine(self, write: _Write) -> list[Step]:
        change = read_ddl(str(write["sql"]))
        if change is None:
            return []
        if isinstance(change, AddLabel | RenameLabel | RenameType):
            return self._labelled(change, self.time(write))
        before = self._table(change.table)
        table = before.altered(change, self.time(write))
        committed = self.rows.committed
        rows = {row: values for row, values in committed.items() if row[0] == table.id}
        if _drops_a_column(change) and self.started and rows and self.rounded:
            raise NotClaimed(f"the backfill after {write['sql']} is not supported yet")
        del self.tables[change.table]
        self.tables[table.name] = table
        committed |= {row: table.carry_over(before, values) for row, values in rows.items()}
        return [Redefine(table)]

    def _labelled(self, change: OfType, modified: Timestamp) -> list[Step]:
        """A new version of each table that has a column of the type."""
        old = [table for table in self.tables.values() if table.is_changed_by(change)]
        new = {table.id: table.labelled(change, modified) for table in old}
        self.tables |= {table.name: table for table in new.values()}
        for (table_id, key), row in list(self.rows.committed.items()):
            if table_id in new:
                changed = new[table_id].relabelled_row(change, row)
                del self.rows.committed[table_id, key]
                self.rows.committed[table_id, new[table_id].key_of(changed)] = changed
        return [Redefine(table) for table in new.values()]

    def _table(self, name: str) -> CaseTable:
        if name not in self.tables:
            raise ValueError(f"the case has no table {name} here, only {', '.join(self.tables)}")
        return self.tables[name]

    def _fault(self, write: _Write) -> Fault:
        if write.get("fault") != "retryable input error once":
            raise ValueError(f"the cases' reader knows no fault {write.get('fault')!r}")
        return Fault()

    def time(self, write: _Write) -> Timestamp:
        """Return the time of the write; the clock goes on to it."""
        text = str(write.get("ts", ""))
        if text[:1].isdigit():
            explicit = parse_decimal(text)
            self.clock = Timestamp(self.origin.wall + explicit.wall, explicit.logical)
            self.names[text] = self.clock
        elif text not in self.names:
            self.clock = Timestamp(self.clock.wall + NANOS_PER_SECOND)
        if text:
            self.names.setdefault(text, self.clock)
            self.clock = self.names[text]
        return self.clock

    def _transaction(self, writes: Sequence[_Write]) -> Iterable[RowVersion]:
        """The last version of each row; its previous one is what was there before the transaction."""
        versions: dict[RowKey, RowVersion] = {}
        for write in writes:
            for version in self.rows.versions(self._only_table(write), write):
                row = (version.table_id, version.key)
                first = versions.get(row, version)
                versions[row] = version._replace(previous=first.previous)
        return versions.values()


def _drops_a_column(change: Alteration) -> bool:
    if isinstance(change, AlterTable):
        return any(map(_drops_a_column, change.changes))
    return isinstance(change, DropColumn)


def _refuse_unknown(write: _Write) -> None:
    op = write["op"]
    if op not in _MEMBERS:
        raise ValueError(f"the cases' reader knows no op {op!r}")
    if unknown := write.keys() - _MEMBERS[op] - {"op", "note"}:
        raise ValueError(f"the cases' reader does not know what {', '.join(sorted(unknown))} says of {op}")
