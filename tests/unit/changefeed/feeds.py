"""Feed definitions and records for tests: one of each, and strategies for any."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    FeedTarget,
    TableName,
)
from tidegate.changefeed.definition.options import (
    Envelope,
    ExistingTopics,
    FeedOptions,
    Format,
    InitialScan,
    OnOversize,
    VirtualColumns,
)
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
)
from tidegate.changefeed.lifecycle.job_records import (
    DefinitionRecord,
    DropRecord,
    JobRecord,
    ProgressRecord,
    SpansRecord,
    StateRecord,
    TakeoverRecord,
)
from tidegate.changefeed.lifecycle.output_topic import OutputTopic, TopicOrigin
from tidegate.hlc import MAX_LOGICAL, ResolvedTimestamp, Timestamp
from tidegate.spans import Span

FEED = FeedId("0001-orders")
ORDERS = TableName("orders")
DEFINITION = FeedDefinition(
    id=FEED,
    epoch=FIRST_EPOCH,
    description="CREATE CHANGEFEED FOR TABLE orders INTO 'kafka://k:9092?sasl_password=redacted'",
    sink_uri="kafka://k:9092?sasl_password=hush",
    tables=(ORDERS,),
    options=FeedOptions(updated=True, resolved_interval_ns=10_000_000_000),
    created_ns=1_700_000_000_000_000_000,
)
TARGET = FeedTarget(ORDERS, table_id=104, topic="orders", partitions=3, spans=(Span(b"\xf0", b"\xf1"),))

timestamps = st.builds(Timestamp, st.integers(0, 2**63 - 1), st.integers(0, MAX_LOGICAL))
feed_ids = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True).map(FeedId)
epochs = st.integers(1, 9).map(FeedEpoch)
table_names = st.builds(TableName, st.text(min_size=1), st.text(), st.text())
positions = st.dictionaries(st.integers(0, 15), st.integers(0, 2**60), max_size=4)


def _headers(named: dict[str, str]) -> str:
    return json.dumps(named, ensure_ascii=False) if named else ""


_header_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)
options = st.builds(
    FeedOptions,
    format=st.sampled_from(Format),
    envelope=st.sampled_from(Envelope),
    updated=st.booleans(),
    mvcc_timestamp=st.booleans(),
    resolved_interval_ns=st.none() | st.integers(0, 2**62),
    topic_prefix=st.text(max_size=5),
    diff=st.booleans(),
    key_in_value=st.booleans(),
    topic_in_value=st.booleans(),
    full_table_name=st.booleans(),
    key_column=st.text(max_size=5),
    unordered=st.booleans(),
    headers_json_column_name=st.text(max_size=5),
    connect_schema=st.booleans(),
    resolved_topic=st.text(max_size=5),
    avro_schema_prefix=st.text(max_size=5),
    confluent_schema_registry=st.text(max_size=5),
    virtual_columns=st.sampled_from(VirtualColumns),
    encode_json_value_null_as_object=st.booleans(),
    extra_headers=st.dictionaries(_header_names, st.text(max_size=5), max_size=2).map(_headers),
    enriched_properties=st.sampled_from(["", "schema", "source", "schema,source"]),
    initial_scan=st.sampled_from(InitialScan),
    cursor=st.none() | timestamps,
    on_oversize=st.sampled_from(OnOversize),
    max_row_bytes=st.integers(0, 2**30),
    existing_topics=st.sampled_from(ExistingTopics),
)
definitions = st.builds(
    FeedDefinition,
    id=feed_ids,
    epoch=epochs,
    description=st.text(),
    sink_uri=st.text(),
    tables=st.lists(table_names, max_size=3).map(tuple),
    options=options,
    created_ns=st.integers(0, 2**62),
    engine=st.sampled_from(Engine),
)
_keys = st.binary(max_size=4)
spans = st.builds(lambda start, rest: Span(start, start + rest), _keys, st.binary(min_size=1, max_size=4))
targets = st.lists(
    st.builds(
        FeedTarget,
        table_names,
        st.integers(1, 2**31),
        st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True),
        st.integers(1, 99),
        st.lists(spans, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
topics = st.lists(
    st.builds(OutputTopic, st.sampled_from(["", "4L6g3nShT-eMCtK--X86sw"]), st.sampled_from(TopicOrigin)),
    max_size=3,
).map(tuple)
job_records: st.SearchStrategy[JobRecord] = st.one_of(
    st.builds(DefinitionRecord, definitions),
    st.builds(DropRecord, feed_ids, st.integers(0, 2**62)),
    st.builds(
        StateRecord,
        feed_ids,
        epochs,
        st.sampled_from(FeedState),
        st.none() | timestamps,
        targets,
        positions,
        st.text(),
        topics=topics,
    ),
    st.builds(ProgressRecord, feed_ids, epochs, timestamps.map(ResolvedTimestamp), positions),
    st.builds(
        TakeoverRecord,
        feed_ids,
        epochs,
        st.none() | timestamps,
        st.none() | timestamps.map(ResolvedTimestamp),
        targets,
        st.text(),
        topics=topics,
    ),
    st.builds(
        SpansRecord,
        feed_ids,
        epochs,
        st.lists(
            st.tuples(spans.filter(lambda span: span.start < span.end), timestamps.map(ResolvedTimestamp)),
            max_size=3,
        ).map(tuple),
    ),
)
control_messages: st.SearchStrategy[ControlMessage] = st.one_of(
    st.builds(Register, definitions),
    st.builds(Activate, definitions, timestamps, targets),
    st.builds(Remove, feed_ids, epochs),
)
log_partitions = st.integers(0, 63)
acks: st.SearchStrategy[Ack] = st.one_of(
    st.builds(
        Registered,
        feed_ids,
        epochs,
        log_partitions,
        st.integers(0, 2**60),
        timestamps,
        st.lists(st.builds(KnownTable, table_names, st.integers(1, 2**31)), max_size=2).map(tuple),
    ),
    st.builds(Active, feed_ids, epochs, log_partitions),
    st.builds(Failed, feed_ids, epochs, log_partitions, st.text()),
    st.builds(Removed, feed_ids, epochs, log_partitions),
)
