"""Changefeed cases that statements, names and encoders decide by themselves.

The groups that need a running feed (scans, resolved timestamps, schema changes, life cycle) are not claimed
here. A case of a claimed group that asks for a format, envelope or other option which is refused as not
supported yet is left out, by that refusal; any other refusal that the case does not expect is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.conformance.case import Case, Check, NotClaimed
from tests.conformance.literals import datum_of, json_of
from tests.conformance.sql_literals import split_list, sql_literal
from tidegate.changefeed.encoder import compile_encoder
from tidegate.changefeed.marker import marker_value
from tidegate.changefeed.names import avro_name, kafka_name
from tidegate.changefeed.option_clauses import OptionClause, read_options
from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record_encoder import RecordEncoder
from tidegate.changefeed.sink import parse_sink_uri
from tidegate.errors import StatementError
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal
from tidegate.rows import Column, Datum, Family, Json, KeyPart, Row, SqlType, TableDescriptor, parse_sql_type

#: How an option, or a value of one, is refused that exists but not in this version.
_NOT_YET: Final = re.compile(r"(option \w+|\w+=\w+) is not supported yet;")
_REGISTRY: Final = "http://127.0.0.1:8081"


def _check_topic_name(case: Case) -> str | None:
    return _difference(case["expect"]["topic"], kafka_name(case["options"]["sql_name"]))


def _check_avro_name(case: Case) -> str | None:
    return _difference(case["expect"]["avro_name"], avro_name(case["options"]["sql_name"]))


def _check_refusal(case: Case) -> str | None:
    expected = case["expect"]["error"]
    try:
        _read(case)
    except StatementError as error:
        return None if expected in str(error) else f"expected {expected!r}, got {str(error)!r}"
    return f"expected {expected!r}, and nothing was refused"


def _check_records(case: Case) -> str | None:
    """Every listed record comes out of the writes, and the marker has the listed bytes."""
    if "error" in case["expect"]:
        return _check_refusal(case)
    options = _supported(case)
    tables = case["table"] if isinstance(case["table"], list) else [case["table"]]
    descriptors = {table["name"]: _descriptor(table) for table in tables}
    written = list(_written(case, descriptors, options))
    missing = [record for record in case["expect"]["records"] if record not in written]
    if missing:
        return f"missing {missing}, wrote {written}"
    return _marker_difference(case, options)


def _marker_difference(case: Case, options: FeedOptions) -> str | None:
    resolved = [write for write in case["writes"] if write["op"] == "resolve"]
    if not resolved:
        return None
    marker = marker_value(ResolvedTimestamp(parse_decimal(resolved[0]["ts"])), options.envelope)
    return _difference(case["expect"]["resolved"], marker.decode())


def _difference(expected: str, found: str) -> str | None:
    return None if found == expected else f"expected {expected!r}, got {found!r}"


def _read(case: Case) -> FeedOptions:
    options = dict(case["options"])
    parameters = options.pop("sink_params", {})
    parse_sink_uri("kafka://h?" + "&".join(f"{name}={value}" for name, value in parameters.items()))
    clauses = [OptionClause(name, None if value is True else str(value)) for name, value in options.items()]
    return read_options(clauses).options


def _supported(case: Case) -> FeedOptions:
    """The options of a case that has to be accepted, or ``NotClaimed``."""
    try:
        return _read(_with_registry(case))
    except StatementError as error:
        if _NOT_YET.match(str(error)):
            raise NotClaimed(str(error)) from None
        raise


def _with_registry(case: Case) -> Case:
    """The cases' own suite gives Avro feeds a registry, without saying so in each of them."""
    if str(case["options"].get("format", "")).lower() != "avro":
        return case
    return {**case, "options": {**case["options"], "confluent_schema_registry": _REGISTRY}}


def _written(case: Case, descriptors: dict[str, TableDescriptor], options: FeedOptions) -> Iterator[str]:
    encoders = {name: compile_encoder(descriptor, options) for name, descriptor in descriptors.items()}
    for write in case["writes"]:
        name = write.get("table", "")
        for row in _rows(write, descriptors.get(name)):
            yield f"{name}: {_record(encoders[name], row, write.get('ts', '1'))}"


def _record(encoder: RecordEncoder, row: Row, timestamp: str) -> str:
    at = parse_decimal(timestamp) if timestamp[0].isdigit() else Timestamp(1)
    key, value = encoder.encode(row, at)
    return f"{key.decode()}->{(value or b'').decode()}"


def _rows(write: dict[str, Any], table: TableDescriptor | None) -> Iterator[Row]:
    if table is None:
        return
    match write["op"]:
        case "insert" | "upsert":
            for values in write["rows"]:
                yield _row(table, tuple(_datum(column.type, values[column.name]) for column in table.columns))
        case "insert_sql":
            texts = split_list(write["values"][1:-1])
            yield _row(
                table, tuple(sql_literal(c.type, t) for c, t in zip(table.columns, texts, strict=True))
            )
        case "delete":
            for key in write["keys"]:
                types = [table.columns[part.column_id - 1].type for part in table.primary_key]
                yield Row(table, tuple(map(_datum, types, key)), None)


def _row(table: TableDescriptor, values: tuple[Datum, ...]) -> Row:
    return Row(table, tuple(values[part.column_id - 1] for part in table.primary_key), values)


def _datum(sql_type: SqlType, value: Any) -> Datum:
    if isinstance(value, dict) and value.keys() == {"jsonb"}:
        return Json(json_of(value["jsonb"]))
    return None if value is None else datum_of(sql_type, value)


def _descriptor(table: dict[str, Any]) -> TableDescriptor:
    names = [column["name"] for column in table["columns"]]
    columns = tuple(
        Column(number, column["name"], parse_sql_type(column["type"].removesuffix(" NOT NULL")))
        for number, column in enumerate(table["columns"], 1)
    )
    return TableDescriptor(
        id=104,
        name=table["name"],
        version=1,
        modified=Timestamp(1),
        columns=columns,
        primary_key=tuple(KeyPart(names.index(name) + 1) for name in table["pk"]),
        families=(Family(0, "primary", tuple(column.id for column in columns)),),
    )


CHECKS: Final[dict[str, Check]] = {
    "changefeed.avroname": _check_avro_name,
    "changefeed.enc": _check_records,
    "changefeed.env": _check_records,
    "changefeed.jsontype": _check_records,
    "changefeed.opterr": _check_refusal,
    "changefeed.topicname": _check_topic_name,
}
