"""Tests what the jobs agent makes of an exception at a step about one feed."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.lifecycle.control import Failed
from tidegate.client.feed_faults import FeedFaults
from tidegate.errors import RetryError, SettingsError
from tidegate.worker.kafka.clients import opened

_FEED = activation([HandTable.of(104, "plain").descriptor]).definition


def test_an_exception_that_nobody_foresaw_fails_the_feed_once() -> None:
    faults = FeedFaults()
    told = faults.failure(_FEED, ArithmeticError("odd"))
    assert isinstance(told, Failed)
    assert "ArithmeticError: odd" in told.reason
    assert faults.failure(_FEED, ArithmeticError("odd")) is None


def test_an_entry_that_no_client_can_be_opened_with_fails_no_feed() -> None:
    def client() -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.location failed"))

    with pytest.raises(
        SettingsError, match=r"client for a:1 cannot be opened .*: ssl.ca.location failed"
    ) as met:
        opened(client, "a:1")
    assert FeedFaults().failure(_FEED, met.value) is None


def test_a_server_that_does_not_answer_fails_no_feed() -> None:
    assert FeedFaults().failure(_FEED, RetryError("a broker is away")) is None


def test_an_error_of_the_process_is_no_feeds() -> None:
    with pytest.raises(OSError, match="disk"):
        FeedFaults().failure(_FEED, OSError("no room on the disk"))
