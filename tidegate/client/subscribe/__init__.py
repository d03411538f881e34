"""SUBSCRIBE on Kafka: reads the output topics of feeds and gives complete batches (docs/subscribe.md)."""

from tidegate.client.subscribe.live_subscription import LiveSubscription
from tidegate.client.subscribe.subscribing import subscribe

__all__ = ["LiveSubscription", "subscribe"]
