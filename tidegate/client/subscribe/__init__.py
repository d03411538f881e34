"""SUBSCRIBE on Kafka: reads the output topics of feeds and gives complete batches (docs/subscribe.md)."""

from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.forms.net_changes import NetChange
from tidegate.client.subscribe.live_subscription import LiveSubscription
from tidegate.client.subscribe.open_subscription import OpenSubscription
from tidegate.client.subscribe.subscribing import subscribe

__all__ = ["DeliveredBatch", "LiveSubscription", "NetChange", "OpenSubscription", "subscribe"]
