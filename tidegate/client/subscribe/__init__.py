"""SUBSCRIBE on Kafka: reads the output topics of feeds and gives complete batches (docs/subscribe.md)."""

from tidegate.client.subscribe.forms.delivered_batch import DeliveredBatch
from tidegate.client.subscribe.forms.net_changes import NetChange
from tidegate.client.subscribe.history_policy import HistoryLoss, HistoryPolicy
from tidegate.client.subscribe.live_joint_subscription import DeliveredJointBatch, LiveJointSubscription
from tidegate.client.subscribe.live_subscription import LiveSubscription
from tidegate.client.subscribe.open_subscription import OpenSubscription
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.client.subscribe.subscribing import subscribe, subscribe_together

__all__ = [
    "DeliveredBatch",
    "DeliveredJointBatch",
    "HistoryLoss",
    "HistoryPolicy",
    "LiveJointSubscription",
    "LiveSubscription",
    "NetChange",
    "OpenSubscription",
    "SpillSettings",
    "subscribe",
    "subscribe_together",
]
