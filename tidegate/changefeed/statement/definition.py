"""Makes the definition of a feed from the text of a statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from tidegate.changefeed.definition.definition_size import size_fault
from tidegate.changefeed.definition.duration import duration_text
from tidegate.changefeed.definition.extra_headers import redacted_headers
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition, FeedId, TableName
from tidegate.changefeed.definition.internal_topics import internal_topic_fault
from tidegate.changefeed.definition.options import DEFAULT_OPTIONS, FeedOptions, Format
from tidegate.changefeed.definition.sink import SinkUri, parse_sink_uri, require_shared_connection
from tidegate.changefeed.definition.table_topics import table_topic, value_subject
from tidegate.changefeed.encoding.resolved_topic import resolved_topic_fault
from tidegate.changefeed.statement.caret import with_caret
from tidegate.changefeed.statement.control_characters import check_characters
from tidegate.changefeed.statement.option_clauses import read_options
from tidegate.changefeed.statement.statement import CreateChangefeed, TableTarget, parse_statement
from tidegate.errors import StatementError

_DEFAULTS: Final = DEFAULT_OPTIONS.to_json()
_OTHER_NAME: Final = "choose another topic_prefix, or rename the table where its name ends so"


class DefinedFeed(NamedTuple):
    """A feed to create, and its sink."""

    definition: FeedDefinition
    sink: SinkUri


def define_feed(statement: str, feed_id: FeedId, created_ns: int) -> DefinedFeed:
    """Return the first epoch of a feed, as its statement defines it; ``created_ns`` is the caller's wall
    clock.

    Raises ``StatementError`` for a statement that this version does not take. Where possible the error has
    the position, and the line with a caret.
    """
    parsed = parse_statement(statement)
    try:
        return _defined(parsed, feed_id, created_ns)
    except StatementError as error:
        raise with_caret(error, statement) from None


def _defined(parsed: CreateChangefeed, feed_id: FeedId, created_ns: int) -> DefinedFeed:
    check_characters(parsed)
    given = read_options(parsed.options, created_ns)
    sink = _sink(parsed)
    options = _with_prefix(given, sink, parsed)
    _check_topics(parsed.targets, options)
    _check_resolved_topic(parsed, options)
    tables = tuple(target.table for target in parsed.targets)
    definition = FeedDefinition(
        id=feed_id,
        epoch=FIRST_EPOCH,
        description=_description(tables, sink, given),
        sink_uri=parsed.sink_uri,
        tables=tables,
        options=options,
        created_ns=created_ns,
    )
    if fault := size_fault(definition):
        raise StatementError(fault)
    return DefinedFeed(definition, sink)


def _sink(parsed: CreateChangefeed) -> SinkUri:
    try:
        sink = parse_sink_uri(parsed.sink_uri)
        require_shared_connection(sink)
    except StatementError as error:
        raise StatementError(str(error), parsed.sink_position) from None
    return sink


def _with_prefix(options: FeedOptions, sink: SinkUri, parsed: CreateChangefeed) -> FeedOptions:
    """Return the options with the topic prefix, which the option or the sink URI may name."""
    from_option, from_uri = options.topic_prefix, sink.topic_prefix
    if from_option and from_uri and from_option != from_uri:
        raise StatementError(
            f"topic_prefix is '{from_option}' as an option and '{from_uri}' in the sink URI: give it once",
            parsed.sink_position,
        )
    return replace(options, topic_prefix=from_option or from_uri)


def _check_topics(targets: Iterable[TableTarget], options: FeedOptions) -> None:
    """Require a topic of its own for each table, since rows of two tables may have the same key.

    Each table needs subjects of its own too. Otherwise, in a registry, one table's schemas would be versions
    of the other table's schemas.
    """
    owners: dict[str, TableName] = {}
    subject_owners: dict[str, TableName] = {}
    for table, position in targets:
        topic = table_topic(table, options)
        if fault := internal_topic_fault(topic, _OTHER_NAME):
            raise StatementError(fault, position)
        owner = owners.get(topic)
        if owner == table:
            raise StatementError(f"table {table} is named twice", position)
        if owner is not None:
            raise StatementError(
                f"tables {owner} and {table} would share the topic {topic}: give them separate feeds, with "
                "different values of topic_prefix",
                position,
            )
        owners[topic] = table
        subject = value_subject(table, options) if options.format is Format.AVRO else topic
        owner = subject_owners.setdefault(subject, table)
        if owner != table:
            raise StatementError(
                f"tables {owner} and {table} would share the schema registry's subject {subject}, because "
                "names are cut there: give a shorter avro_schema_prefix, or none",
                position,
            )


def _check_resolved_topic(parsed: CreateChangefeed, options: FeedOptions) -> None:
    if not options.resolved_topic:
        return
    row_topics = {table_topic(table, options) for table, _ in parsed.targets}
    topic = options.resolved_topic
    fault = resolved_topic_fault(topic, row_topics) or internal_topic_fault(topic, "name another topic")
    if fault:
        raise StatementError(fault, next(o.position for o in parsed.options if o.name == "resolved_topic"))


def _description(tables: Iterable[TableName], sink: SinkUri, options: FeedOptions) -> str:
    """Return the statement in one standard form, without secrets."""
    quoted_uri = sink.redacted().replace("'", "''")
    clauses = _option_texts(options)
    with_clause = f" WITH {', '.join(clauses)}" if clauses else ""
    return f"CREATE CHANGEFEED FOR TABLE {', '.join(map(str, tables))} INTO '{quoted_uri}'{with_clause}"


def _option_texts(options: FeedOptions) -> list[str]:
    """Return every option that is not the default, by name, and whether the feed begins with a scan.

    The scan is always shown: its default depends on the cursor, and was another one for older feeds.
    """
    shown = {name: value for name, value in options.to_json().items() if value != _DEFAULTS[name]}
    if options.resolved_interval_ns is not None:
        del shown["resolved_interval_ns"]
        shown["resolved"] = duration_text(options.resolved_interval_ns)
    if options.registry is not None:
        shown["confluent_schema_registry"] = options.registry.redacted()
    if options.extra_headers:
        shown["extra_headers"] = redacted_headers(options.extra_headers)
    shown["initial_scan"] = options.initial_scan.value
    return [_option_text(name, shown[name]) for name in sorted(shown)]


def _option_text(name: str, value: str | int) -> str:
    if isinstance(value, bool):
        return name
    quoted = str(value).replace("'", "''")
    return f"{name} = '{quoted}'"
