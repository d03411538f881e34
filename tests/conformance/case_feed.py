"""The feeds of a changefeed case: its options as a statement, and the feed on its tables ready to run.

Some members of a case's options are not options of CREATE CHANGEFEED: ``sink_params`` belong to the sink's
URI, ``target`` and ``query`` stand in place of the tables, and ``partitions`` and ``feeds`` are about the
topics and how many feeds there are. Cases of Avro feeds name no registry: each gets one. A cursor may be the
name of a write's time, or ``<start>``, which is below all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from tests.conformance.case import Case
from tests.conformance.case_history import BEFORE_ALL, named_times
from tests.conformance.case_tables import tables_in
from tests.conformance.case_workload import workload_options
from tidegate.changefeed.definition.feed import FeedId, FeedTarget, TableName
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.definition.table_topics import table_topic
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.statement.definition import define_feed
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.rows import TableDescriptor
from tidegate.rows.table_key import index_span

REGISTRY: Final = "http://127.0.0.1:8081"
_SINK: Final = "kafka://127.0.0.1:9"
_NOT_OPTIONS: Final = frozenset({"sink_params", "target", "partitions", "feeds", "sql_name", "query", "note"})
_PARTITIONS: Final = 3
#: When the feeds are created, by the wall clock: cursors before now count from it, and none is above it.
_CREATED_NS: Final = 1_800_000_000 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class CaseFeed:
    """The feeds of a case, which are all alike: statement, number, partitions of their topics."""

    options: dict[str, Any]
    statement: str
    feeds: int
    partitions: int

    @property
    def scans(self) -> bool:
        """Whether the feed begins with a scan. Raises ``StatementError`` when it is refused."""
        return self.define().initial_scan is not InitialScan.NO

    def define(self) -> FeedOptions:
        """The options as the statement defines them. Raises ``StatementError`` when it is refused."""
        return define_feed(self.statement, FeedId("case"), _CREATED_NS).definition.options

    def activations(
        self,
        tables: Iterable[TableDescriptor],
        *,
        start: Timestamp = ZERO,
        markers: bool = False,
        scans: bool = False,
        prefix: str = "",
    ) -> list[Activate]:
        """The feeds, with ``markers`` at every advance where the case's options ask for none.

        Without ``scans`` they begin with none, for a log that nothing answers scans in: see ``case_history``.

        Topics are named ``<prefix><number of the feed>-<name in the case>``.
        """
        tables = list(tables)
        return [
            self._activation(number, tables, start, markers, scans, f"{prefix}{number}-")
            for number in range(self.feeds)
        ]

    def _activation(
        self,
        number: int,
        tables: list[TableDescriptor],
        start: Timestamp,
        markers: bool,
        scans: bool,
        prefix: str,
    ) -> Activate:
        feed_id = FeedId(f"{prefix}feed")
        definition = define_feed(self.statement, feed_id, _CREATED_NS).definition
        options = definition.options
        if not scans:
            options = replace(options, initial_scan=InitialScan.NO, cursor=None)
        if markers and options.resolved_interval_ns is None:
            options = replace(options, resolved_interval_ns=0)
        definition = replace(definition, options=options, tables=tuple(map(TableName.of, tables)))
        targets = tuple(
            FeedTarget(
                TableName.of(table),
                table.id,
                prefix + table_topic(TableName.of(table), options),
                self.partitions,
                (index_span(table.id, table.primary_index_id),),
            )
            for table in tables
        )
        return Activate(definition, start, targets)


def case_feed(case: Case, *, registry: str = REGISTRY) -> CaseFeed:
    """The feeds that a case asks for; ``registry`` is that of Avro feeds, none for an empty text."""
    given = {**workload_options(case), **case["options"]}
    for write in case.get("writes", ()):
        if write["op"] == "start_feed":
            given |= {name: value for name, value in write.items() if name not in ("op", "note", "ts")}
    options = {name: value for name, value in given.items() if name not in _NOT_OPTIONS}
    times = named_times(case)
    if options.get("cursor") in times:
        options["cursor"] = times[options["cursor"]].decimal()
    elif options.get("cursor") == BEFORE_ALL:
        options["cursor"] = Timestamp(0, 1).decimal()
    if registry and str(options.get("format", "")).lower().endswith("avro"):
        options.setdefault("confluent_schema_registry", registry)
    return CaseFeed(
        options,
        _statement(case, given, options),
        feeds=int(given.get("feeds", 1)),
        partitions=int(given.get("partitions", _PARTITIONS)),
    )


def _statement(case: Case, given: dict[str, Any], options: dict[str, Any]) -> str:
    target = given.get("target") or ", ".join(f"TABLE {_name(table)}" for table in tables_in(case))
    query = f" AS {given['query']}" if "query" in given else ""
    parameters = urlencode(given.get("sink_params", {}))
    clauses = [_clause(name, value) for name, value in options.items() if value is not False]
    return (
        f"CREATE CHANGEFEED {'' if query else f'FOR {target} '}INTO {_quoted(f'{_SINK}?{parameters}')}"
        f"{' WITH ' if clauses else ''}{', '.join(clauses)}{query}"
    )


def _name(table: dict[str, Any]) -> str:
    parts = [table[part] for part in ("database", "schema") if part in table]
    doubled = [part.replace('"', '""') for part in (*parts, table["name"])]
    return ".".join(f'"{part}"' for part in doubled)


def _clause(name: str, value: Any) -> str:
    if value is True:
        return f'"{name}"'
    return f'"{name}" = {_quoted(json.dumps(value) if isinstance(value, dict) else str(value))}'


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
