"""Control messages and acknowledgements keep their bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.unit.changefeed.feeds import DEFINITION, FEED, ORDERS, TARGET, acks, control_messages
from tidegate.changefeed.definition.feed import FIRST_EPOCH
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
    ack_key,
    control_key,
    read_ack,
    read_control,
)
from tidegate.errors import ForeignRecord
from tidegate.hlc import Timestamp

DEFINED = json.dumps(DEFINITION.to_json(), separators=(",", ":")).encode()
#: The same definition as version 1 wrote it.
OLD_DEFINED = (
    b'{"id":"0001-orders","epoch":1,"description":"CREATE CHANGEFEED FOR TABLE orders INTO '
    b'\'kafka://k:9092?sasl_password=redacted\'","sink_uri":"kafka://k:9092?sasl_password=hush",'
    b'"tables":[["defaultdb","public","orders"]],"options":{"format":"json","envelope":"wrapped",'
    b'"updated":true,"mvcc_timestamp":false,"resolved_interval_ns":10000000000,"topic_prefix":""},'
    b'"created_ns":1700000000000000000}'
)


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (Register(DEFINITION), b'{"v":5,"kind":"register","definition":%b}' % DEFINED),
        (
            Activate(DEFINITION, Timestamp(7, 1), (TARGET,)),
            b'{"v":5,"kind":"activate","definition":%b,"start":"7.0000000001",'
            b'"targets":[{"table":["defaultdb","public","orders"],"table_id":104,"topic":"orders",'
            b'"partitions":3,"spans":[["f0","f1"]]}]}' % DEFINED,
        ),
        (Remove(FEED, FIRST_EPOCH), b'{"v":5,"kind":"remove","feed_id":"0001-orders","epoch":1}'),
    ],
)
def test_bytes_of_messages_do_not_change(message: ControlMessage, value: bytes) -> None:
    assert message.to_bytes() == value
    assert control_key(message.feed_id) == b"0001-orders"


@pytest.mark.parametrize(
    ("ack", "value"),
    [
        (
            Registered(FEED, FIRST_EPOCH, 2, 40, Timestamp(7, 1), (KnownTable(ORDERS, 104),)),
            b'{"v":5,"kind":"registered","feed_id":"0001-orders","epoch":1,"partition":2,"position":40,'
            b'"highest":"7.0000000001","tables":[[["defaultdb","public","orders"],104]]}',
        ),
        (
            Active(FEED, FIRST_EPOCH, 2),
            b'{"v":5,"kind":"active","feed_id":"0001-orders","epoch":1,"partition":2}',
        ),
        (
            Failed(FEED, FIRST_EPOCH, 2, "no room"),
            b'{"v":5,"kind":"failed","feed_id":"0001-orders","epoch":1,"partition":2,"reason":"no room"}',
        ),
        (
            Removed(FEED, FIRST_EPOCH, 2),
            b'{"v":5,"kind":"removed","feed_id":"0001-orders","epoch":1,"partition":2}',
        ),
        (
            Removed(FEED, FIRST_EPOCH, 2, "no room"),
            b'{"v":5,"kind":"removed","feed_id":"0001-orders","epoch":1,"partition":2,"reason":"no room"}',
        ),
        (
            Removed(FEED, FIRST_EPOCH, 2, highest=Timestamp(7, 1)),
            b'{"v":5,"kind":"removed","feed_id":"0001-orders","epoch":1,"partition":2,"highest":"7.0000000001"}',
        ),
    ],
)
def test_bytes_of_acknowledgements_do_not_change(ack: Ack, value: bytes) -> None:
    assert ack.to_bytes() == value
    assert ack_key(ack) == b"0001-orders/1/2"


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (Register(DEFINITION), b'{"v":1,"kind":"register","definition":%b}' % OLD_DEFINED),
        (
            Activate(DEFINITION, Timestamp(7, 1), (TARGET,)),
            b'{"v":1,"kind":"activate","definition":%b,"start":"7.0000000001",'
            b'"targets":[{"table":["defaultdb","public","orders"],"table_id":104,"topic":"orders",'
            b'"partitions":3,"spans":[["f0","f1"]]}]}' % OLD_DEFINED,
        ),
        (Remove(FEED, FIRST_EPOCH), b'{"v":1,"kind":"remove","feed_id":"0001-orders","epoch":1}'),
    ],
)
def test_messages_of_version_1_are_read_as_what_they_meant(message: ControlMessage, value: bytes) -> None:
    assert read_control(value) == message


@given(control_messages)
def test_messages_read_back(message: ControlMessage) -> None:
    assert read_control(message.to_bytes()) == message


@pytest.mark.parametrize("headers", ["x", "[]", "{", "7", '{"team":7}', '{"team":["blue"]}'])
def test_a_definition_with_headers_in_no_standard_form_is_foreign(headers: str) -> None:
    stored = json.loads(Register(DEFINITION).to_bytes())
    stored["definition"]["options"]["extra_headers"] = headers
    with pytest.raises(ForeignRecord, match="cannot be read"):
        read_control(json.dumps(stored).encode())


def test_an_acknowledgement_of_version_1_is_read() -> None:
    old = b'{"v":1,"kind":"active","feed_id":"0001-orders","epoch":1,"partition":2}'
    assert read_ack(old) == Active(FEED, FIRST_EPOCH, 2)


@given(acks)
def test_acknowledgements_read_back(ack: Ack) -> None:
    assert read_ack(ack.to_bytes()) == ack


def test_an_acknowledgement_is_not_a_message() -> None:
    with pytest.raises(ForeignRecord, match="a message of the control topic cannot be read"):
        read_control(Active(FEED, FIRST_EPOCH, 2).to_bytes())
