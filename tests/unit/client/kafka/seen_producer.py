"""A producer of librdkafka for tests that look whether it is gone."""

from __future__ import annotations

from confluent_kafka import Producer


class Seen(Producer):  # type: ignore[misc]  # confluent_kafka has no types
    """librdkafka's producer, to which a weak reference can be had."""
