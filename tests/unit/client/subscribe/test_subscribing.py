"""The entries of subscriptions: what they are given is looked at before Kafka is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import subscribe, subscribe_together
from tidegate.errors import SettingsError

NOWHERE = KafkaConnection("127.0.0.1:1")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"dialect": "mysql"}, "no dialect 'mysql'; there are tidegate, materialize"),
        ({"on_history_lost": "forget"}, "no policy 'forget'"),
    ],
)
def test_a_name_that_nothing_has_is_refused_before_kafka_is_asked(setting: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        subscribe("SUBSCRIBE t", NOWHERE, **setting)
    with pytest.raises(SettingsError, match=told):
        subscribe_together({"t": "SUBSCRIBE t"}, NOWHERE, **setting)
